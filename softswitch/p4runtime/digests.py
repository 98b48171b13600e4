"""Digest lists: what is buffered, sent, waited for (section "DigestEntry").

Sans-IO: digest messages and the time go in, lists to send come out. A message is a tuple of the
digest's leaves. Messages that are in the buffer, or were sent and neither acknowledged nor timed
out, are not sent again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

Message = tuple[int, ...]

MAX_BUFFERED = 16_384
"""Messages one digest buffers while nobody takes them.

Beyond that new ones are dropped and counted.
"""

MAX_CACHED = 65_536
"""Messages one digest remembers as sent but not acknowledged."""


@dataclass(frozen=True, slots=True)
class DigestConfig:
    """DigestEntry.Config.

    `max_list_size` 0 sets no limit of its own, `ack_timeout_ns` 0 keeps no cache.
    """

    max_timeout_ns: int = 0
    max_list_size: int = 0
    ack_timeout_ns: int = 0


@dataclass(frozen=True, slots=True)
class DigestListToSend:
    """One DigestList message."""

    digest_id: int
    list_id: int
    messages: tuple[Message, ...]


@dataclass(slots=True)
class _Unacknowledged:
    """A list that was sent and is remembered until `expires_ns`."""

    messages: tuple[Message, ...]
    expires_ns: int


@dataclass(slots=True)
class _Digest:
    """State of one enabled digest."""

    config: DigestConfig
    buffer: dict[Message, None] = field(default_factory=dict)
    deadline_ns: int = 0  # of the buffer, when it is not empty
    cache: set[Message] = field(default_factory=set)
    sent: dict[int, _Unacknowledged] = field(default_factory=dict)
    dropped: int = 0


class DigestLists:
    """All digests of one pipeline. A digest is off until `enable`."""

    def __init__(self) -> None:
        self._digests: dict[int, _Digest] = {}
        self._next_list_id = 1

    # -- configuration -------------------------------------------------------------------

    def config(self, digest_id: int) -> DigestConfig | None:
        """Its configuration, None while it is off."""
        digest = self._digests.get(digest_id)
        return None if digest is None else digest.config

    def enable(self, digest_id: int, config: DigestConfig) -> None:
        """Switch a digest on, or give it another configuration; what it buffers stays."""
        digest = self._digests.get(digest_id)
        if digest is None:
            self._digests[digest_id] = _Digest(config)
        else:
            digest.config = config

    def disable(self, digest_id: int) -> None:
        """Switch a digest off and forget what it buffered and sent."""
        self._digests.pop(digest_id, None)

    def dropped(self, digest_id: int) -> int:
        """Messages dropped because the buffer was full."""
        digest = self._digests.get(digest_id)
        return 0 if digest is None else digest.dropped

    def forget_sent(self) -> None:
        """Empty all caches, as when the primary changes: the new one has not seen those lists."""
        for digest in self._digests.values():
            digest.cache.clear()
            digest.sent.clear()

    # -- events --------------------------------------------------------------------------

    def push(self, digest_id: int, message: Message, now_ns: int) -> DigestListToSend | None:
        """A message from the data plane; returns the list it completes, if it does."""
        digest = self._digests.get(digest_id)
        if digest is None or message in digest.buffer or message in digest.cache:
            return None
        if len(digest.buffer) >= MAX_BUFFERED:
            digest.dropped += 1
            return None
        if not digest.buffer:
            digest.deadline_ns = now_ns + digest.config.max_timeout_ns
        digest.buffer[message] = None
        config = digest.config
        if config.max_timeout_ns == 0 or 0 < config.max_list_size <= len(digest.buffer):
            return self._send(digest_id, digest, now_ns)
        return None

    def acknowledge(self, digest_id: int, list_id: int) -> bool:
        """A DigestListAck; False when no such list is waiting (late or unknown, no error)."""
        digest = self._digests.get(digest_id)
        if digest is None:
            return False
        sent = digest.sent.pop(list_id, None)
        if sent is None:
            return False
        digest.cache.difference_update(sent.messages)
        return True

    def next_timer(self) -> int | None:
        """When `handle_timer` has work next, in ns; None when there is nothing to wait for."""
        deadlines = [d.deadline_ns for d in self._digests.values() if d.buffer]
        # Lists of a digest are sent in the order in which they expire unless its configuration
        # changed.
        deadlines += [s.expires_ns for d in self._digests.values() for s in d.sent.values()]
        return min(deadlines, default=None)

    def handle_timer(self, now_ns: int) -> Iterator[DigestListToSend]:
        """Lists whose oldest message has waited long enough.

        Sent lists that timed out are forgotten.
        """
        for digest_id, digest in self._digests.items():
            expired = [i for i, sent in digest.sent.items() if sent.expires_ns <= now_ns]
            for list_id in expired:
                digest.cache.difference_update(digest.sent.pop(list_id).messages)
            if digest.buffer and digest.deadline_ns <= now_ns:
                yield self._send(digest_id, digest, now_ns)

    def _send(self, digest_id: int, digest: _Digest, now_ns: int) -> DigestListToSend:
        """Turn the buffer into a list and remember it."""
        messages = tuple(digest.buffer)
        digest.buffer.clear()
        list_id = self._next_list_id
        self._next_list_id += 1
        ack_timeout_ns = digest.config.ack_timeout_ns
        if ack_timeout_ns > 0 and len(digest.cache) + len(messages) <= MAX_CACHED:
            digest.sent[list_id] = _Unacknowledged(messages, now_ns + ack_timeout_ns)
            digest.cache.update(messages)
        return DigestListToSend(digest_id, list_id, messages)
