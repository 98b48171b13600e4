"""What collectives need of the layer below: a few calls of `host.verbs`, as protocols.

`host.verbs.QueuePair`, `Cq`, `Pd` and `Mr` are these.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from host.qp.work import WorkCompletion

#: A user's memory: contiguous, and writable where data is to arrive
Buffer: TypeAlias = "bytes | bytearray | memoryview | array[Any] | npt.NDArray[Any]"


class Region(Protocol):
    """Registered memory."""

    @property
    def addr(self) -> int:
        """Its first virtual address."""
        ...

    @property
    def rkey(self) -> int:
        """What lets others write to it."""
        ...

    def close(self) -> None:
        """Deregister it."""
        ...


class Memory(Protocol):
    """A protection domain."""

    def reg_mr(self, buffer: bytearray | memoryview) -> Region:
        """Let peers write to a buffer."""
        ...


class Qp(Protocol):
    """A queue pair in RTS."""

    @property
    def qp_num(self) -> int:
        """Its number, which completions carry."""
        ...

    def post_write_imm(
        self, wr_id: int, local: bytes | memoryview, remote_addr: int, rkey: int, imm_data: int
    ) -> None:
        """Write, and signal the peer; completes here as `wr_id`."""
        ...

    def post_recv(self, wrs: int) -> None:
        """Let the peer signal once more."""
        ...


class Completions(Protocol):
    """The completion queue of all of a group's queue pairs."""

    def poll_cq(self) -> Sequence[WorkCompletion]:
        """All completions that there are."""
        ...


def bytes_of(buffer: Buffer) -> memoryview:
    """A buffer's bytes; no copy. Raises ValueError where they do not lie one after the other."""
    # numpy's arrays are buffers, but their types say so from Python 3.12 on only
    view = memoryview(buffer)  # type: ignore[arg-type]
    if not view.c_contiguous:
        raise ValueError("the buffer is not contiguous")
    # An empty view cannot be cast where one of its strides is 0
    return view.cast("B") if view.nbytes else memoryview(b"")


def overlap(left: memoryview, right: memoryview) -> bool:
    """Whether two views share memory."""
    return bool(
        left.nbytes
        and right.nbytes
        and np.may_share_memory(np.frombuffer(left, "u1"), np.frombuffer(right, "u1"))
    )
