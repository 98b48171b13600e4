"""Times, rates and shares as people read them."""

from __future__ import annotations

from typing import Final

NONE: Final = "-"


def time_text(ns: float | None) -> str:
    """A time with three or four digits that matter."""
    if ns is None:
        return NONE
    for unit, scale in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= scale:
            return f"{ns / scale:.4g} {unit}"
    return f"{ns:.0f} ns"


def rate_text(bps: float | None) -> str:
    """A rate with four digits that matter."""
    if bps is None:
        return NONE
    for unit, scale in (("Tb/s", 1e12), ("Gb/s", 1e9), ("Mb/s", 1e6), ("kb/s", 1e3)):
        if bps >= scale:
            return f"{bps / scale:.4g} {unit}"
    return f"{bps:.0f} b/s"


def bytes_text(size_bytes: int) -> str:
    """A size with three or four digits that matter, in binary units."""
    for unit, scale in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size_bytes >= scale:
            return f"{size_bytes / scale:.4g} {unit}"
    return f"{size_bytes} B"


def count_text(value: float) -> str:
    """A count, shortened from ten thousand on."""
    for unit, scale in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= 10 * scale:
            return f"{value / scale:.4g}{unit}"
    return f"{value:.4g}" if value < 1000 else f"{value:.0f}"
