"""Rates, delays and sizes as people write them, turned into integers whose names tell the unit."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

_BITS_PER_SECOND: Final = {"bps": 1, "kbps": 10**3, "Mbps": 10**6, "Gbps": 10**9, "Tbps": 10**12}
_NANOSECONDS: Final = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9}
_BYTES: Final = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
}
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-zµ]+)")


def _parse(text: str, units: dict[str, int], what: str, example: str) -> int:
    problem = ValueError(f"{text!r} is not a {what}; write for example {example}")
    match = _QUANTITY.fullmatch(text.strip())
    if match is None or match[2] not in units:
        raise problem
    value = Decimal(match[1]) * units[match[2]]
    if value != int(value):
        raise problem
    return int(value)


def parse_rate_bps(text: str) -> int:
    """'100Gbps' → bits per second (bps, kbps, Mbps, Gbps, Tbps). ValueError for 0 and the rest."""
    rate_bps = _parse(text, _BITS_PER_SECOND, "rate", "100Gbps")
    if rate_bps == 0:
        raise ValueError(f"{text!r}: a rate must be above 0; leave it null for no limit")
    return rate_bps


def parse_delay_ns(text: str) -> int:
    """'500ns' → nanoseconds (ns, us, ms, s). ValueError for the rest."""
    return _parse(text, _NANOSECONDS, "time", "500ns")


def parse_size_bytes(text: str) -> int:
    """'64KiB' → bytes (B, kB, MB, GB, KiB, MiB, GiB). ValueError for the rest."""
    return _parse(text, _BYTES, "size", "64KiB")


def _text(value: int, units: dict[str, int]) -> str:
    unit, factor = max(
        ((unit, factor) for unit, factor in units.items() if value % factor == 0),
        key=lambda item: item[1],
    )
    return f"{value // factor}{unit}"


def rate_text(rate_bps: int | None) -> str:
    """Bits per second in the largest unit that is exact; 'unlimited' for None."""
    return "unlimited" if rate_bps is None else _text(rate_bps, _BITS_PER_SECOND)


def delay_text(delay_ns: int) -> str:
    """Nanoseconds in the largest unit that is exact."""
    return (
        _text(delay_ns, {unit: ns for unit, ns in _NANOSECONDS.items() if unit != "µs"})
        if (delay_ns)
        else "0ns"
    )


def size_text(size_bytes: int) -> str:
    """Bytes in the largest unit that is exact."""
    return _text(size_bytes, _BYTES) if size_bytes else "0B"
