"""Wires: delay, impairments, and what going down costs."""

from __future__ import annotations

import random

from sim.loop import EventLoop
from sim.wire import LINK_DOWN, Passage, Wire


class Sink:
    def __init__(self) -> None:
        self.got: list[tuple[int, int, bytes]] = []

    def arrive(self, now_ns: int, port: int, frame: bytes) -> None:
        self.got.append((now_ns, port, frame))


def make(delay_ns: int = 500) -> tuple[EventLoop, Wire, Sink]:
    loop = EventLoop()
    sink = Sink()
    return loop, Wire("a--b from a", loop, delay_ns, sink.arrive, 3), sink


class LoseAll:
    def impair(self, frame: bytes, passage: Passage) -> bytes:
        passage.lost = "test"
        return frame


class Double:
    def impair(self, frame: bytes, passage: Passage) -> bytes:
        passage.copies += 1
        passage.delay_ns += passage.random.randrange(10)
        return frame + b"!"


def test_a_frame_arrives_after_the_delay_at_the_far_port() -> None:
    loop, wire, sink = make()
    wire.send(100, b"x")
    wire.send(40, b"y")
    loop.run()
    assert sink.got == [(540, 3, b"y"), (600, 3, b"x")]


def test_going_down_loses_what_is_on_the_wire_and_nothing_else() -> None:
    loop, wire, sink = make()
    other = Wire("c--b from c", loop, 500, sink.arrive, 4)
    wire.send(0, b"early")
    wire.send(300, b"late")
    other.send(300, b"other")
    loop.run(until_ns=600)
    assert wire.in_flight() == 1
    assert wire.set_up(False) == 1
    wire.send(700, b"into the dead wire")
    loop.run()
    assert [frame for _, _, frame in sink.got] == [b"early", b"other"]
    assert wire.lost == {LINK_DOWN: 2}
    wire.set_up(True)
    wire.send(900, b"again")
    loop.run()
    assert sink.got[-1] == (1400, 3, b"again")


def test_impairments_act_in_turn_and_stop_when_removed() -> None:
    loop, wire, sink = make()
    double, lose = Double(), LoseAll()
    wire.add(double, random.Random(1))
    wire.send(0, b"x")
    loop.run()
    assert [frame for _, _, frame in sink.got] == [b"x!", b"x!"]
    assert wire.duplicated == 1
    wire.add(lose, random.Random(2))
    wire.send(1000, b"y")
    loop.run()
    assert len(sink.got) == 2
    assert wire.lost == {"test": 1}
    wire.remove(double)
    wire.remove(lose)
    wire.send(2000, b"z")
    loop.run()
    assert sink.got[-1] == (2500, 3, b"z")


def test_an_impairment_draws_from_its_own_randomness() -> None:
    def arrivals(with_other: bool) -> list[int]:
        loop, wire, sink = make()
        if with_other:
            wire.add(Double(), random.Random(99))
        wire.add(Double(), random.Random(1))
        for _ in range(5):
            wire.send(0, b"x")
        loop.run()
        return [time_ns for time_ns, _, _ in sink.got]

    alone = arrivals(False)
    draws = random.Random(1)
    assert sorted(alone) == sorted(2 * [500 + draws.randrange(10) for _ in range(5)])
    assert len(arrivals(True)) == 15
