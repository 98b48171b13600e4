"""What two ends tell each other out of band, as JSON.

mrc-protocol.md, section 3: QP numbers, start PSNs, MPR, WriteIMMs in flight, TRIM-NACK ability and
dynamic MPR are agreed before RTR and RTS. How they travel is the application's affair.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from ipaddress import AddressValueError, IPv6Address
from typing import Any

from host.config import MAX_PATH_MTU_BYTES, MIN_PATH_MTU_BYTES
from host.verbs.errors import InvalidArgumentError, check_range

_U24 = (1 << 24) - 1
_U32 = (1 << 32) - 1
_U64 = (1 << 64) - 1

#: Of the document, so that ends of different versions notice
EXCHANGE_VERSION = 1


def _checked(name: str, value: object, kind: type) -> Any:
    # bool is an int, but no number
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise InvalidArgumentError(f"{name}: {value!r} does not fit: it must be {kind.__name__}")
    return value


def _only(document: object, what: str, names: set[str], optional: set[str]) -> Mapping[str, Any]:
    if not isinstance(document, Mapping):
        raise InvalidArgumentError(f"{what}: {document!r} does not fit: it must be an object")
    for name in sorted(names - document.keys() - optional):
        raise InvalidArgumentError(f"{what}: {name} is missing")
    for name in sorted(document.keys() - names):
        raise InvalidArgumentError(f"{what}: there is no {name}")
    return document


@dataclass(frozen=True, slots=True)
class MrInfo:
    """A region that the other end may write to. `addr` is its first virtual address."""

    addr: int
    length: int
    rkey: int

    def __post_init__(self) -> None:
        check_range("addr", self.addr, 0, _U64)
        check_range("length", self.length, 1, _U64 - self.addr + 1)
        check_range("rkey", self.rkey, 0, _U32)

    def to_json(self) -> dict[str, Any]:
        """As an object of plain numbers."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_json(cls, document: object) -> MrInfo:
        """The inverse of `to_json`. Raises InvalidArgumentError, naming what is wrong."""
        values = _only(document, "region", {"addr", "length", "rkey"}, set())
        return cls(**{name: _checked(f"region: {name}", values[name], int) for name in values})


@dataclass(frozen=True, slots=True)
class QpInfo:
    """One end of a connection, for the other's `QueuePair.connect`.

    `mpr` (units of 128 PSNs) and `max_wimm` are what this end's responder tracks, `psn` is the
    first of this end's requests, `trim_nack` and `dynamic_mpr` are its abilities.
    """

    gid: IPv6Address
    qp_num: int
    psn: int
    mpr: int
    max_wimm: int
    path_mtu: int
    trim_nack: bool = True
    dynamic_mpr: bool = False
    regions: tuple[MrInfo, ...] = ()

    def __post_init__(self) -> None:
        check_range("qp_num", self.qp_num, 0, _U24)
        check_range("psn", self.psn, 0, _U24)
        check_range("mpr", self.mpr, 1, 255)
        check_range("max_wimm", self.max_wimm, 1, (1 << 16) - 1)
        check_range("path_mtu", self.path_mtu, MIN_PATH_MTU_BYTES, MAX_PATH_MTU_BYTES)

    def to_json(self) -> dict[str, Any]:
        """As an object of texts, numbers, booleans and a list: ready for `json.dumps`."""
        return {
            "version": EXCHANGE_VERSION,
            "gid": str(self.gid),
            "qp_num": self.qp_num,
            "psn": self.psn,
            "mpr": self.mpr,
            "max_wimm": self.max_wimm,
            "path_mtu": self.path_mtu,
            "trim_nack": self.trim_nack,
            "dynamic_mpr": self.dynamic_mpr,
            "regions": [region.to_json() for region in self.regions],
        }

    @classmethod
    def from_json(cls, document: object) -> QpInfo:
        """The inverse of `to_json`. Raises InvalidArgumentError, naming what is wrong."""
        names = {"version", *(field.name for field in fields(cls))}
        values = dict(_only(document, "QP", names, {"regions"}))
        version = values.pop("version")
        if version != EXCHANGE_VERSION:
            raise InvalidArgumentError(
                f"QP: version: {version!r} does not fit: it must be {EXCHANGE_VERSION}"
            )
        gid = _checked("QP: gid", values.pop("gid"), str)
        regions = _checked("QP: regions", values.pop("regions", []), list)
        flags = {
            name: _checked(f"QP: {name}", values.pop(name), bool)
            for name in ("trim_nack", "dynamic_mpr")
        }
        try:
            address = IPv6Address(gid)
        except AddressValueError:
            raise InvalidArgumentError(
                f"QP: gid: {gid!r} does not fit: it must be an IPv6 address"
            ) from None
        return cls(
            gid=address,
            regions=tuple(MrInfo.from_json(region) for region in regions),
            **{name: _checked(f"QP: {name}", value, int) for name, value in values.items()},
            **flags,
        )
