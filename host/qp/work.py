"""Work requests, completions and completion queues, after ibv_wc and ibv_*_wr."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

#: mrc-protocol.md, section 3: 1 byte to 2^32-1 bytes a message
MAX_MESSAGE_BYTES = (1 << 32) - 1


class WcStatus(Enum):
    """Completion status; names and meaning of ibv_wc_status."""

    SUCCESS = "success"
    #: The queue pair went to ERROR before the request was done
    WR_FLUSH_ERROR = "work request flushed"
    #: The responder refused the R_Key, the range or the right to write
    REMOTE_ACCESS_ERROR = "remote access error"
    #: The responder found the request malformed, or more WriteIMM in flight than negotiated
    REMOTE_INVALID_REQUEST_ERROR = "remote invalid request error"
    #: The responder could not go on: NACK UNEXP_EVENT
    REMOTE_OPERATION_ERROR = "remote operation error"
    #: No answer within all retries
    RETRY_EXCEEDED_ERROR = "retry counter exceeded"
    #: The peer had no receive posted, time and again (RoCE only)
    RNR_RETRY_EXCEEDED_ERROR = "RNR retry counter exceeded"


class WcOpcode(Enum):
    """What completed; names of ibv_wc_opcode."""

    RDMA_WRITE = "RDMA_WRITE"
    RECV_RDMA_WITH_IMM = "RECV_RDMA_WITH_IMM"


class WorkCompletion(NamedTuple):
    """One entry of a completion queue. `imm` and `byte_len` are of a receive; else None and 0."""

    wr_id: int
    status: WcStatus
    opcode: WcOpcode
    qp_num: int
    byte_len: int = 0
    imm: int | None = None


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """RDMA WRITE of `data` to `remote_va` under `rkey`; with immediate if `imm` is given.

    `data` is not copied: it must stay as it is until the request completes. Without `signaled` a
    success leaves no completion; an error always does.
    """

    wr_id: int
    data: bytes | bytearray | memoryview
    remote_va: int
    rkey: int
    imm: int | None = None
    signaled: bool = True


class CompletionQueue:
    """Completions in order of their arrival, at most `capacity` of them.

    One too many is an overrun (IBTA volume 1, section 11.6.3.1): it is lost, `overrun` is set, and
    every queue pair that uses this queue goes to ERROR.
    """

    __slots__ = ("_entries", "_waiting", "capacity", "on_overrun", "overrun")

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"capacity: {capacity} does not fit: a queue holds at least 1")
        self.capacity = capacity
        self.overrun = False
        self.on_overrun: Callable[[CompletionQueue], None] | None = None
        self._waiting: Callable[[CompletionQueue], None] | None = None
        self._entries: deque[WorkCompletion] = deque()

    def __len__(self) -> int:
        return len(self._entries)

    def push(self, completion: WorkCompletion) -> None:
        """Add a completion (the core does)."""
        if len(self._entries) >= self.capacity:
            if not self.overrun:
                self.overrun = True
                if self.on_overrun is not None:
                    self.on_overrun(self)
            return
        self._entries.append(completion)
        waiting = self._waiting
        if waiting is not None:
            self._waiting = None
            waiting(self)

    def poll(self, max_entries: int | None = None) -> list[WorkCompletion]:
        """Take the oldest completions, all of them by default."""
        entries = self._entries
        count = len(entries) if max_entries is None else min(max_entries, len(entries))
        return [entries.popleft() for _ in range(count)]

    def request_notify(self, callback: Callable[[CompletionQueue], None]) -> None:
        """Call back once, when the next completion is added (ibv_req_notify_cq)."""
        self._waiting = callback
