"""A live fabric that several threads act on: a scenario's faults, and requests from outside."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from topologies.model import Fabric, Link, LinkEnd, Switch
from topologies.runner import live
from topologies.runner.deployment import Deployment
from topologies.runner.live import LiveFabric
from topologies.runner.turns import Turns

FABRIC = Fabric("small", planes=1, t0_per_plane=2, t1_per_plane=2, hosts_per_t0=1)
CUT_NODES = "p0-t0-0", "p0-t1-0"
CUT = FABRIC.link(*CUT_NODES)
WAIT_S = 60


class _Deployment:
    """Remembers what state each end of a link has; switches start and end at once."""

    def __init__(self, sockets: Path) -> None:
        self.fabric = FABRIC
        self.folder = SimpleNamespace(sockets=sockets)
        self.target = SimpleNamespace(
            needs_links_up=False,
            name="fake",
            can_set_rates=lambda: True,
            set_rate=lambda place, *_: self.acts.append(f"rate {place}"),
        )
        self.places = {switch.name: switch.name for switch in FABRIC.switches()}
        self.processes = {name: SimpleNamespace(exit_code=None) for name in self.places}
        self.up: dict[tuple[str, str], bool] = {}
        self.before_raising: threading.Thread | None = None
        #: Called by a switch that starts, before it is ready
        self.while_starting: dict[str, Callable[[], None]] = {}
        #: Switches killed and started, and rates set, in order
        self.acts: list[str] = []

    def set_interface(self, link: Link, end: LinkEnd, *, up: bool) -> None:
        other = self.before_raising
        if up and other is not None and link == CUT:
            self.before_raising = None
            other.start()
            other.join(0.2)  # it ends, unless it has to wait until this is over
        self.up[link.name, end.node] = up

    def end_switch(self, name: str, signal_number: int) -> None:
        self.acts.append(f"kill {name}")

    def start_switch(self, switch: Switch) -> str:
        self.while_starting.pop(switch.name, lambda: None)()
        self.acts.append(f"start {switch.name}")
        return switch.name


@pytest.fixture
def deployment(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Deployment]:
    plane = SimpleNamespace(install=lambda: SimpleNamespace(entries=0))
    monkeypatch.setattr(live, "ControlPlane", lambda *_: plane)
    with tempfile.TemporaryDirectory(prefix="mrc-test-") as folder:
        yield _Deployment(Path(folder))


def test_a_link_that_is_cut_while_a_switch_comes_back_stays_down(deployment: _Deployment) -> None:
    with LiveFabric(cast(Deployment, deployment)) as fabric:
        request: dict[str, Any] = {"nodes": [*CUT_NODES], "action": "down"}
        cut = threading.Thread(target=fabric.handle, args=({"command": "link", **request},))
        deployment.before_raising = cut
        fabric.handle({"command": "switch", "node": "p0-t1-0", "action": "restart"})
        cut.join()
    assert deployment.up[CUT.name, "p0-t1-0"] is False
    assert deployment.up[CUT.name, "p0-t0-0"] is False
    assert deployment.up["p0-t0-1--p0-t1-0", "p0-t1-0"] is True


def act(switch: str, action: str) -> dict[str, Any]:
    return {"command": "switch", "node": switch, "action": action}


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_acts_on_one_switch_take_turns_and_others_do_not_wait(deployment: _Deployment) -> None:
    with LiveFabric(cast(Deployment, deployment)) as fabric:
        rate = {"command": "link", "nodes": [*CUT_NODES], "action": "rate", "value": "1Mbps"}
        waiting = [
            threading.Thread(target=fabric.handle, args=(request,))
            for request in (act("p0-t1-0", "kill"), act("p0-t1-0", "restart"), rate)
        ]

        def meanwhile() -> None:
            for number, thread in enumerate(waiting, 1):
                thread.start()
                wait_for(lambda: fabric.turns.waiting("p0-t1-0") == number)  # noqa: B023
            # Elsewhere nobody waits, and this is one thread: it would never end
            fabric.handle(act("p0-t1-1", "restart"))
            fabric.handle({"command": "link", "nodes": [*CUT_NODES], "action": "down"})

        deployment.while_starting["p0-t1-0"] = meanwhile
        fabric.handle(act("p0-t1-0", "restart"))
        for thread in waiting:
            thread.join(WAIT_S)
    assert deployment.acts == [
        "kill p0-t1-0",
        # While it starts
        "kill p0-t1-1",
        "start p0-t1-1",
        "start p0-t1-0",
        # In the order in which they came
        "kill p0-t1-0",
        "kill p0-t1-0",
        "start p0-t1-0",
        "rate p0-t0-0",
        "rate p0-t1-0",
    ]
    assert deployment.up[CUT.name, "p0-t0-0"] is deployment.up[CUT.name, "p0-t1-0"] is False
    assert deployment.up["p0-t0-1--p0-t1-0", "p0-t1-0"] is True


def test_who_wants_two_elements_waits_for_both_and_no_two_for_each_other() -> None:
    turns, order = Turns(), []

    def both(name: str, *elements: str) -> None:
        with turns.with_all(*elements):
            order.append(name)

    threads = []
    with turns.with_all("a"):
        for name, elements, there in (
            ("1", ("a", "b"), {"a": 1, "b": 0}),
            ("2", ("b", "a"), {"a": 2, "b": 1}),
            ("3", ("b", "b"), {"a": 2, "b": 2}),
        ):
            threads.append(threading.Thread(target=both, args=(name, *elements)))
            threads[-1].start()
            wait_for(lambda: {each: turns.waiting(each) for each in "ab"} == there)  # noqa: B023
        assert order == []
    for thread in threads:
        thread.join(WAIT_S)
    assert order == ["1", "2", "3"]


def test_an_act_that_fails_leaves_its_turn() -> None:
    turns = Turns()
    with pytest.raises(RuntimeError), turns.with_all("a", "b"):
        raise RuntimeError
    with turns.with_all("b", "a"):
        assert turns.waiting("a") == 0
