"""A live fabric that several threads act on: a scenario's faults, and requests from outside."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from topologies.model import Fabric, Link, LinkEnd, Switch
from topologies.runner import live
from topologies.runner.deployment import Deployment
from topologies.runner.live import LiveFabric

FABRIC = Fabric("small", planes=1, t0_per_plane=2, t1_per_plane=2, hosts_per_t0=1)
CUT = FABRIC.link("p0-t0-0", "p0-t1-0")


class _Deployment:
    """Remembers what state each end of a link has; switches start and end at once."""

    def __init__(self, sockets: Path) -> None:
        self.fabric = FABRIC
        self.folder = SimpleNamespace(sockets=sockets)
        self.target = SimpleNamespace(needs_links_up=False, name="fake")
        self.places = {switch.name: switch.name for switch in FABRIC.switches()}
        self.processes = {name: SimpleNamespace(exit_code=None) for name in self.places}
        self.up: dict[tuple[str, str], bool] = {}
        self.before_raising: threading.Thread | None = None

    def set_interface(self, link: Link, end: LinkEnd, *, up: bool) -> None:
        other = self.before_raising
        if up and other is not None and link == CUT:
            self.before_raising = None
            other.start()
            other.join(0.2)  # it ends, unless it has to wait until this is over
        self.up[link.name, end.node] = up

    def end_switch(self, name: str, signal_number: int) -> None:
        pass

    def start_switch(self, switch: Switch) -> str:
        return switch.name


@pytest.fixture
def deployment(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Deployment]:
    plane = SimpleNamespace(install=lambda: SimpleNamespace(entries=0))
    monkeypatch.setattr(live, "ControlPlane", lambda *_: plane)
    with tempfile.TemporaryDirectory(prefix="mrc-test-") as folder:
        yield _Deployment(Path(folder))


def test_a_link_that_is_cut_while_a_switch_comes_back_stays_down(deployment: _Deployment) -> None:
    with LiveFabric(cast(Deployment, deployment)) as fabric:
        request: dict[str, Any] = {"nodes": ["p0-t0-0", "p0-t1-0"], "action": "down"}
        cut = threading.Thread(target=fabric.handle, args=({"command": "link", **request},))
        deployment.before_raising = cut
        fabric.handle({"command": "switch", "node": "p0-t1-0", "action": "restart"})
        cut.join()
    assert deployment.up[CUT.name, "p0-t1-0"] is False
    assert deployment.up[CUT.name, "p0-t0-0"] is False
    assert deployment.up["p0-t0-1--p0-t1-0", "p0-t1-0"] is True
