"""Controllers by name, and the plainest one."""

from __future__ import annotations

from math import inf, nan
from typing import Any, Self

import pytest

from host.congestion import (
    CongestionController,
    Network,
    algorithms,
    make_controller,
    register,
    registry,
)
from host.congestion.fixed_window import FixedWindow
from host.congestion.nscc import Nscc
from host.congestion.registry import controller_class

NETWORK = Network(base_rtt_ns=10_000, rate_bps=8 * 10**9)


class Halving(CongestionController):
    """What a user might write."""

    __slots__ = ("part",)

    def __init__(self, cwnd_bytes: int, part: int) -> None:
        super().__init__(cwnd_bytes)
        self.part = part

    @classmethod
    def make(cls, network: Network, *, part: int = 2, **knobs: Any) -> Self:
        return cls(int(network.bdp_bytes(network.base_rtt_ns)), part, **knobs)

    def on_ack(self, acked_bytes: int, ecn: bool, rtt_ns: int | None, now_ns: int) -> None:
        self.cwnd_bytes += 1

    def on_trim(self, size_bytes: int, last_hop: bool, now_ns: int) -> None:
        self.cwnd_bytes //= self.part

    def on_loss(self, size_bytes: int, now_ns: int) -> None:
        self.cwnd_bytes //= self.part


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The class above has its name in these tests only."""
    monkeypatch.setattr(registry, "_REGISTERED", dict(registry._REGISTERED))
    register("halving")(Halving)


def test_the_two_that_come_with_it() -> None:
    assert {"uet-1.0-nscc", "fixed-window"} <= set(algorithms())
    assert isinstance(make_controller("uet-1.0-nscc", NETWORK), Nscc)
    assert isinstance(make_controller("fixed-window", NETWORK), FixedWindow)


def test_one_s_own_by_its_name_with_its_knobs() -> None:
    controller = make_controller("halving", NETWORK, part=5)
    assert isinstance(controller, Halving)
    assert controller.cwnd_bytes == 10_000
    controller.on_trim(1, False, 0)
    assert controller.cwnd_bytes == 2_000


def test_one_s_own_by_where_it_stands() -> None:
    assert controller_class(f"{__name__}:Halving") is Halving


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nscc", "algorithm 'nscc' is not known; there are: fixed-window, halving, uet-1.0-nscc"),
        ("no.such.module:Nscc", "algorithm 'no.such.module:Nscc': No module named"),
        (":Nscc", "algorithm ':Nscc': Empty module name"),
        ("host.congestion.nscc:Nothing", "has no attribute 'Nothing'"),
        ("host.congestion.nscc:NsccConfig", "not a class derived from CongestionController"),
    ],
)
def test_other_names_are_refused(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_controller(name, NETWORK)


@pytest.mark.parametrize(
    ("name", "knobs", "message"),
    [
        ("uet-1.0-nscc", {"beta": 1}, "'uet-1.0-nscc': it has no knob 'beta'"),
        ("uet-1.0-nscc", {"gamma": 2}, "'uet-1.0-nscc': gamma: 2 does not fit"),
        ("fixed-window", {"cwnd": 2}, "'fixed-window': it has no knob 'cwnd'"),
        ("uet-1.0-nscc", {"max_cwnd": inf}, "max_cwnd: inf does not fit: it must be a number"),
        ("uet-1.0-nscc", {"base_rtt": inf}, "base_rtt: inf does not fit: it must be a number"),
        ("fixed-window", {"cwnd_bytes": "x"}, "cwnd_bytes: 'x' does not fit: it must be an int"),
        ("fixed-window", {"cwnd_bytes": nan}, "cwnd_bytes: nan does not fit: it must be an int"),
        ("fixed-window", {"cwnd_bytes": 0}, "cwnd_bytes: 0 does not fit: it must be above 0"),
    ],
)
def test_wrong_knobs_are_named(name: str, knobs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_controller(name, NETWORK, **knobs)


def test_a_name_can_be_had_once() -> None:
    with pytest.raises(ValueError, match="'halving' is already the name of Halving"):
        register("halving")(FixedWindow)
    # The same module read again is no other class
    assert register("halving")(Halving) is Halving


class TestFixedWindow:
    def test_never_moves(self) -> None:
        controller = make_controller("fixed-window", NETWORK, cwnd_bytes=5000)
        controller.on_ack(100, True, 10**9, 0)
        controller.on_trim(100, True, 0)
        controller.on_loss(100, 0)
        controller.on_peer_penalty(127, False, 0)
        controller.on_send(100, 0)
        controller.handle_timer(0)
        assert controller.cwnd_bytes == 5000
        assert controller.next_timer() is None

    def test_is_one_and_a_half_bdp_unless_told_otherwise(self) -> None:
        assert make_controller("fixed-window", NETWORK).cwnd_bytes == 15_000


@pytest.mark.parametrize(
    ("name", "value"),
    [("base_rtt_ns", -1), ("rate_bps", 0), ("frame_bytes", 0), ("mss_bytes", 0)],
)
def test_a_network_that_cannot_be_is_refused(name: str, value: int) -> None:
    with pytest.raises(ValueError, match=rf"{name}: {value} does not fit"):
        Network(**{name: value})  # type: ignore[arg-type]
