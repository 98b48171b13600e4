"""Digest lists: buffering, acknowledgement, timeouts, with the time moved by hand."""

import pytest

from softswitch.p4runtime import digests
from softswitch.p4runtime.digests import DigestConfig, DigestLists

ID = 42


def enabled(**config: int) -> DigestLists:
    lists = DigestLists()
    lists.enable(ID, DigestConfig(**config))
    return lists


def test_off_until_enabled() -> None:
    lists = DigestLists()
    assert lists.push(ID, (1,), 0) is None
    assert lists.next_timer() is None
    assert lists.config(ID) is None


def test_no_timeout_sends_at_once() -> None:
    lists = enabled(max_timeout_ns=0, max_list_size=100)
    to_send = lists.push(ID, (1, 2), 0)
    assert to_send is not None
    assert (to_send.digest_id, to_send.messages) == (ID, ((1, 2),))


def test_list_size_sends_at_once() -> None:
    lists = enabled(max_timeout_ns=1000, max_list_size=2)
    assert lists.push(ID, (1,), 0) is None
    to_send = lists.push(ID, (2,), 1)
    assert to_send is not None
    assert to_send.messages == ((1,), (2,))
    assert lists.next_timer() is None


def test_timeout_counts_from_the_first_message() -> None:
    lists = enabled(max_timeout_ns=1000, max_list_size=0)
    lists.push(ID, (1,), 100)
    lists.push(ID, (2,), 900)
    assert lists.next_timer() == 1100
    assert list(lists.handle_timer(1099)) == []
    (to_send,) = lists.handle_timer(1100)
    assert to_send.messages == ((1,), (2,))
    assert list(lists.handle_timer(5000)) == []


def test_duplicates_in_a_list_are_dropped() -> None:
    lists = enabled(max_timeout_ns=1000, max_list_size=2)
    assert lists.push(ID, (1,), 0) is None
    assert lists.push(ID, (1,), 1) is None
    assert lists.push(ID, (2,), 2) is not None


def test_unacknowledged_messages_are_not_sent_again() -> None:
    lists = enabled(max_list_size=1, ack_timeout_ns=1000)
    first = lists.push(ID, (1,), 0)
    assert first is not None
    assert lists.push(ID, (1,), 10) is None
    other = lists.push(ID, (2,), 20)
    assert other is not None
    assert other.list_id != first.list_id
    assert lists.acknowledge(ID, first.list_id)
    assert lists.push(ID, (1,), 30) is not None
    assert lists.push(ID, (2,), 30) is None


def test_acknowledgement_times_out() -> None:
    lists = enabled(max_list_size=1, ack_timeout_ns=1000)
    lists.push(ID, (1,), 0)
    assert lists.next_timer() == 1000
    assert list(lists.handle_timer(999)) == []
    assert lists.push(ID, (1,), 999) is None
    assert list(lists.handle_timer(1000)) == []
    assert lists.push(ID, (1,), 1000) is not None


def test_without_ack_timeout_nothing_is_remembered() -> None:
    lists = enabled(max_list_size=1, ack_timeout_ns=0)
    assert lists.push(ID, (1,), 0) is not None
    assert lists.push(ID, (1,), 0) is not None


def test_unknown_acknowledgements_are_ignored() -> None:
    lists = enabled(max_list_size=1, ack_timeout_ns=1000)
    assert not lists.acknowledge(ID, 99)
    assert not lists.acknowledge(ID + 1, 1)


def test_new_primary_hears_again() -> None:
    lists = enabled(max_list_size=1, ack_timeout_ns=1000)
    lists.push(ID, (1,), 0)
    lists.forget_sent()
    assert lists.push(ID, (1,), 1) is not None


def test_disable_forgets() -> None:
    lists = enabled(max_timeout_ns=1000, max_list_size=2)
    lists.push(ID, (1,), 0)
    lists.disable(ID)
    assert lists.next_timer() is None
    lists.enable(ID, DigestConfig(max_timeout_ns=1000, max_list_size=1))
    to_send = lists.push(ID, (2,), 0)
    assert to_send is not None
    assert to_send.messages == ((2,),)


def test_buffer_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "MAX_BUFFERED", 3)
    lists = enabled(max_timeout_ns=1000, max_list_size=0)
    for value in range(5):
        lists.push(ID, (value,), 0)
    assert lists.dropped(ID) == 2
    (to_send,) = lists.handle_timer(1000)
    assert len(to_send.messages) == 3
