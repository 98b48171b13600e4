"""The outbox between the switch and a client, and the sessions that fill it."""

import threading

from softswitch.p4runtime.arbitration import Arbitration, ArbitrationUpdate
from softswitch.p4runtime.stream_channel import Sessions
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


def test_a_stream_that_is_gone_cannot_become_primary() -> None:
    # Its update may be handled after its end was noticed: those are different threads.
    sessions = Sessions(Arbitration(1))
    sessions.open("gone", Outbox())
    sessions.close("gone")
    update = ArbitrationUpdate(1, election_id=5)
    assert not sessions.arbitrate("gone", update, lambda: None)
    assert not sessions.is_primary("", 5)
    sessions.open("here", Outbox())
    assert sessions.arbitrate("here", update, lambda: None)
    assert sessions.is_primary("", 5)


def test_client_that_never_reads_is_cut_off() -> None:
    outbox = Outbox(max_queued=2)
    overflowed = []
    for number in range(5):
        outbox.send(lambda number=number: number)  # type: ignore[misc]
        overflowed.append(outbox.overflowed)
    assert overflowed == [False] * 4 + [True]
    assert list(outbox) == []
