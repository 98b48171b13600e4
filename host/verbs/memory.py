"""Memory regions as the user has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from host.memory import Access, MemoryRegion
from host.verbs.errors import InvalidArgumentError, check_range, translated
from host.verbs.exchange import MrInfo
from host.verbs.flags import beyond
from host.verbs.resource import Resource

if TYPE_CHECKING:
    from host.verbs.pd import Pd

DEFAULT_ACCESS = Access.LOCAL_WRITE | Access.REMOTE_WRITE


class Mr(Resource):
    """A registered buffer (ibv_mr), made by `Pd.reg_mr`.

    `addr` is its virtual address, as peers use it; `lkey` and `rkey` are one number.
    """

    __slots__ = ("_region", "access", "addr", "length", "pd", "rkey")

    kind = "memory region"

    def __init__(
        self, pd: Pd, buffer: bytearray | memoryview, access: Access, iova: int | None
    ) -> None:
        pd.check_open()
        if beyond(access, DEFAULT_ACCESS):
            raise InvalidArgumentError(
                f"access: {access!r} does not fit: MRC has LOCAL_WRITE and REMOTE_WRITE"
            )
        if Access.REMOTE_WRITE in access and Access.LOCAL_WRITE not in access:
            raise InvalidArgumentError("access: REMOTE_WRITE needs LOCAL_WRITE")
        if iova is not None:
            check_range("iova", iova, 0, (1 << 64) - 1)
        with translated():
            region = pd.context.device.nic.register_memory(buffer, access, va=iova, pd=pd.handle)
        self._region: MemoryRegion | None = region
        super().__init__(pd.context)
        self.pd = pd
        self.access = access
        self.addr = region.va
        self.length = region.length
        self.rkey = region.rkey
        pd.acquire(self.kind)

    def __repr__(self) -> str:
        return f"Mr(addr={self.addr:#x}, length={self.length}, rkey={self.rkey:#010x})"

    @property
    def lkey(self) -> int:
        """The same as `rkey`."""
        return self.rkey

    @property
    def info(self) -> MrInfo:
        """What a peer needs to write here."""
        return MrInfo(self.addr, self.length, self.rkey)

    def view(self, offset: int = 0, length: int | None = None) -> memoryview:
        """A window on the registered buffer; no copy.

        Raises InvalidArgumentError for what is not wholly inside, ClosedError once deregistered.
        """
        self.check_open()
        region = self._region
        assert region is not None
        check_range("offset", offset, 0, self.length)
        if length is None:
            length = self.length - offset
        check_range("length", length, 0, self.length - offset)
        return region.view[offset : offset + length]

    def _destroy(self) -> None:
        """ibv_dereg_mr: from now on the key is unknown, and the buffer its owner's alone."""
        region, self._region = self._region, None
        assert region is not None
        self.context.device.nic.memory.deregister(region)
        self.pd.release(self.kind)
