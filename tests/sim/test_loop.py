"""The event loop: order, time and what settles when."""

from __future__ import annotations

import pytest

from sim import loop as loop_module
from sim.loop import EventLoop, StandstillError


class Recorder:
    def __init__(self, loop: EventLoop) -> None:
        self.loop = loop
        self.log: list[tuple[int, object]] = []

    def event(self, now_ns: int, a: object, b: object) -> None:
        assert self.loop.now_ns == now_ns
        self.log.append((now_ns, a))

    def touch(self, now_ns: int, a: object, b: object) -> None:
        self.event(now_ns, a, b)
        self.loop.touched.append(self)

    def settle(self, now_ns: int) -> None:
        self.log.append((now_ns, "settled"))


def test_events_happen_in_order_of_time_and_of_scheduling() -> None:
    loop = EventLoop()
    recorder = Recorder(loop)
    for time_ns, what in ((30, "c"), (10, "a"), (30, "d"), (20, "b"), (30, "e")):
        loop.at(time_ns, recorder.event, what)
    assert loop.run()
    assert recorder.log == [(10, "a"), (20, "b"), (30, "c"), (30, "d"), (30, "e")]
    assert loop.events == 5
    assert loop.now_ns == 30


def test_nodes_settle_once_everything_of_the_time_has_happened() -> None:
    loop = EventLoop()
    recorder = Recorder(loop)
    loop.at(10, recorder.touch, "a")
    loop.at(10, recorder.event, "b")
    loop.at(11, recorder.event, "c")
    loop.run()
    assert recorder.log == [(10, "a"), (10, "b"), (10, "settled"), (11, "c")]


def test_run_ends_at_its_time_and_goes_on_from_there() -> None:
    loop = EventLoop()
    recorder = Recorder(loop)
    loop.at(10, recorder.event, "a")
    loop.at(20, recorder.event, "b")
    loop.at(21, recorder.event, "c")
    assert loop.run(until_ns=20)
    assert [what for _, what in recorder.log] == ["a", "b"]
    assert loop.run(until_ns=100)
    assert loop.now_ns == 100
    assert recorder.log[-1] == (21, "c")


def test_run_returns_when_its_events_are_used_up() -> None:
    loop = EventLoop()
    recorder = Recorder(loop)
    for time_ns in range(1, 11):
        loop.at(time_ns, recorder.event, time_ns)
    assert not loop.run(max_events=4)
    assert len(recorder.log) == 4
    assert loop.run(max_events=100)
    assert len(recorder.log) == 10


def test_stop_finishes_the_present_time() -> None:
    loop = EventLoop()
    recorder = Recorder(loop)

    def stop(now_ns: int, a: object, b: object) -> None:
        loop.stop()

    loop.at(10, stop)
    loop.at(10, recorder.touch, "same time")
    loop.at(11, recorder.event, "later")
    assert loop.run(until_ns=50)
    assert recorder.log == [(10, "same time"), (10, "settled")]
    assert loop.now_ns == 10


def test_withdrawn_events_do_not_happen_and_come_back_in_order() -> None:
    loop = EventLoop()
    recorder = Recorder(loop)
    for time_ns in (5, 3, 4, 1, 2):
        loop.at(time_ns, recorder.event, time_ns)
    taken = loop.withdraw(lambda event: event[0] % 2 == 1)
    assert [event[0] for event in taken] == [1, 3, 5]
    loop.run()
    assert recorder.log == [(2, 2), (4, 4)]


def test_the_past_cannot_be_scheduled() -> None:
    loop = EventLoop()
    loop.at(10, Recorder(loop).event)
    loop.run()
    with pytest.raises(ValueError, match="9 is past"):
        loop.at(9, Recorder(loop).event)


def test_time_that_stands_still_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "MAX_ROUNDS_AT_ONE_TIME", 100)
    loop = EventLoop()

    def again(now_ns: int, a: object, b: object) -> None:
        loop.touched.append(Again())

    class Again:
        def settle(self, now_ns: int) -> None:
            loop.at(now_ns, again)

    loop.at(7, again)
    with pytest.raises(StandstillError, match="7 ns"):
        loop.run()
