"""Registered memory: regions, R_Keys and the checks in front of every remote write.

A region is a window on a buffer of the application; nothing is copied when it is registered. Its
virtual addresses are the NIC's own (not addresses of the process), so that runs repeat exactly.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from enum import IntFlag

#: Where virtual addresses start; 0 is never one, so that a forgotten address is an error
FIRST_VIRTUAL_ADDRESS = 1 << 40
PAGE_BYTES = 4096
MAX_VIRTUAL_ADDRESS = (1 << 64) - 1


class Access(IntFlag):
    """What a region allows, as IBV_ACCESS_*. Local reads are always allowed."""

    NONE = 0
    LOCAL_WRITE = 1
    REMOTE_WRITE = 2


class RegistrationError(ValueError):
    """A buffer, address or key that cannot be registered or is not."""


class MemoryRegion:
    """A registered buffer: `length` bytes from virtual address `va`, reached with `rkey`."""

    __slots__ = ("access", "length", "pd", "remote_writable", "rkey", "va", "valid", "view")

    def __init__(self, rkey: int, va: int, view: memoryview, access: Access, pd: int) -> None:
        self.rkey = rkey
        self.va = va
        self.view = view
        self.length = view.nbytes
        self.access = access
        #: Whether `access` has REMOTE_WRITE, for the hot path
        self.remote_writable = Access.REMOTE_WRITE in access
        self.pd = pd
        self.valid = True

    @property
    def end(self) -> int:
        """The first virtual address behind the region."""
        return self.va + self.length

    def __repr__(self) -> str:
        return f"MemoryRegion(rkey={self.rkey:#010x}, va={self.va:#x}, length={self.length})"


class MemoryTable:
    """The regions of a NIC by R_Key. Keys are random (from `rng`), 32 bits, never 0."""

    __slots__ = ("_next_va", "_regions", "_rng")

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._regions: dict[int, MemoryRegion] = {}
        self._next_va = FIRST_VIRTUAL_ADDRESS

    def __len__(self) -> int:
        return len(self._regions)

    def __iter__(self) -> Iterator[MemoryRegion]:
        return iter(self._regions.values())

    def register(
        self,
        buffer: bytearray | memoryview,
        access: Access = Access.LOCAL_WRITE | Access.REMOTE_WRITE,
        *,
        va: int | None = None,
        pd: int = 0,
    ) -> MemoryRegion:
        """Register a contiguous, writable buffer of at least one byte.

        `va` None: the next free page-aligned address, with an unused page in front. Raises
        RegistrationError for a buffer that is read-only, empty or not contiguous, and for a `va`
        that does not leave room for it in 64 bits.
        """
        view = memoryview(buffer)
        if view.readonly and access & (Access.LOCAL_WRITE | Access.REMOTE_WRITE):
            raise RegistrationError("the buffer is read-only; register it with Access.NONE")
        if not view.c_contiguous:
            raise RegistrationError("the buffer is not contiguous")
        view = view.cast("B")
        if view.nbytes == 0:
            raise RegistrationError("the buffer is empty; a region has at least one byte")
        if va is None:
            va = self._next_va
            pages = -(-view.nbytes // PAGE_BYTES) + 1
            self._next_va += pages * PAGE_BYTES
        if not 0 <= va <= MAX_VIRTUAL_ADDRESS - view.nbytes + 1:
            raise RegistrationError(
                f"virtual address {va:#x} leaves no room for {view.nbytes} bytes"
            )
        rkey = 0
        while rkey == 0 or rkey in self._regions:
            rkey = self._rng.getrandbits(32)
        region = MemoryRegion(rkey, va, view, access, pd)
        self._regions[rkey] = region
        return region

    def deregister(self, region: MemoryRegion) -> None:
        """Forget a region: its key is unknown from now on. Raises RegistrationError if it is."""
        if self._regions.get(region.rkey) is not region:
            raise RegistrationError(f"{region!r} is not registered here")
        del self._regions[region.rkey]
        region.valid = False

    def remote_write(self, rkey: int, va: int, length: int, pd: int) -> memoryview | None:
        """The `length` bytes at `va` for a peer's write, or None where that is not allowed.

        Allowed is what lies wholly in the region that the key names, if the region grants
        REMOTE_WRITE and belongs to protection domain `pd` (IBTA volume 1, section 10.6).
        """
        region = self._regions.get(rkey)
        if region is None or region.pd != pd or not region.remote_writable:
            return None
        start = va - region.va
        if start < 0 or start + length > region.length:
            return None
        return region.view[start : start + length]
