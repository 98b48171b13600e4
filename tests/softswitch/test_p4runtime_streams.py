"""The outbox between the switch and a client."""

import threading

from softswitch.p4runtime.streams import Outbox


def test_order_and_end() -> None:
    outbox = Outbox()
    outbox.send(lambda: 1)
    outbox.offer(lambda: 2)
    outbox.close()
    assert list(outbox) == [1, 2]


def test_messages_that_build_to_nothing_are_left_out() -> None:
    outbox = Outbox()
    outbox.offer(lambda: None)
    outbox.offer(lambda: 2)
    outbox.close()
    assert list(outbox) == [2]


def test_notifications_are_dropped_when_full_but_arbitration_is_not() -> None:
    outbox = Outbox(max_queued=2)
    assert outbox.offer(lambda: 1)
    assert outbox.offer(lambda: 2)
    assert not outbox.offer(lambda: 3)
    assert outbox.dropped == 1
    outbox.send(lambda: 4)
    outbox.close()
    assert list(outbox) == [1, 2, 4]


def test_closed_outbox_takes_nothing() -> None:
    outbox = Outbox()
    outbox.close()
    outbox.send(lambda: 1)
    assert not outbox.offer(lambda: 2)
    assert list(outbox) == []


def test_discard() -> None:
    outbox = Outbox()
    outbox.send(lambda: 1)
    outbox.close(discard=True)
    assert list(outbox) == []


def test_waiting_reader_is_woken() -> None:
    outbox = Outbox()
    got: list[int] = []
    reader = threading.Thread(target=lambda: got.extend(outbox))
    reader.start()
    outbox.send(lambda: 1)
    outbox.close()
    reader.join(timeout=10)
    assert not reader.is_alive()
    assert got == [1]
