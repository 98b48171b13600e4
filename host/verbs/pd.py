"""Protection domains: which memory which queue pairs reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

from host.memory import Access
from host.verbs.memory import DEFAULT_ACCESS, Mr
from host.verbs.resource import Resource

if TYPE_CHECKING:
    from host.verbs.context import Context


class Pd(Resource):
    """A protection domain, made by `Context.alloc_pd` (ibv_alloc_pd)."""

    __slots__ = ("handle",)

    kind = "protection domain"

    def __init__(self, context: Context, handle: int) -> None:
        super().__init__(context)
        self.handle = handle

    def __repr__(self) -> str:
        return f"Pd({self.handle})"

    def reg_mr(
        self,
        buffer: bytearray | memoryview,
        access: Access = DEFAULT_ACCESS,
        *,
        iova: int | None = None,
    ) -> Mr:
        """Register a buffer (ibv_reg_mr, with `iova` ibv_reg_mr_iova).

        Nothing is copied: the region is a window on the buffer. `iova` is the virtual address that
        peers use; None lets the NIC choose one.

        Raises InvalidArgumentError for a buffer that is empty or not contiguous, a read-only one
        with write access, REMOTE_WRITE without LOCAL_WRITE, and an `iova` that leaves no room.
        """
        return Mr(self, buffer, access, iova)

    def _destroy(self) -> None:
        """Nothing in the NIC: a protection domain is a number."""
