"""The in-process port."""

from __future__ import annotations

import select

from softswitch.ports.in_process import InProcessPort


def readable(port: InProcessPort) -> bool:
    return bool(select.select([port], [], [], 0)[0])


def test_frames_in_order_and_readable_as_long_as_some_wait() -> None:
    port = InProcessPort("x", lambda frame: None)
    assert not readable(port)
    assert port.receive(10) == []
    for frame in (b"a", b"b", b"c"):
        port.inject(frame)
    assert readable(port)
    assert port.receive(2) == [b"a", b"b"]
    assert readable(port)
    assert port.receive(2) == [b"c"]
    assert not readable(port)
    port.close()


def test_sent_frames_go_to_the_callback() -> None:
    taken: list[bytes] = []
    port = InProcessPort("x", taken.append)
    port.send(b"frame")
    port.retry()
    port.link_down()
    assert taken == [b"frame"]
    assert (port.name, port.backlog, port.take_losses(poll=True)) == ("x", 0, [])
    port.close()
