"""Link rates as people write them."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

_FACTORS: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
# A capital B would mean bytes, so the unit's case counts; the prefix's does not.
_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kKmMgGtT]?)(?:bps|bit/s|bit)?")

UNLIMITED: Final = "unlimited"

MAX_RATE_BPS: Final = 10**15
"""A petabit per second, beyond any link: what is reported stays a number for any JSON reader."""


def parse_rate(text: str) -> int | None:
    """Return bits per second of "10Gbps", "2.5 Mbit/s", "125000"; None for "unlimited".

    Raises:
        ValueError: anything else, with a message that says what would be right.
    """
    cleaned = text.strip()
    if cleaned.lower() == UNLIMITED:
        return None
    match = _RATE.fullmatch(cleaned)
    if match is not None:
        rate_bps = Decimal(match[1]) * _FACTORS[match[2].lower()]
        if rate_bps == rate_bps.to_integral_value() and 0 < rate_bps <= MAX_RATE_BPS:
            return int(rate_bps)
    raise ValueError(
        f"rate '{text}': want a positive whole number of bits per second, "
        'as in 10Gbps, 2.5Mbps, 125000, at most 1000Tbps, or "unlimited"'
    )


def format_rate(rate_bps: int | None) -> str:
    """Return a rate as `parse_rate` reads it, with the largest unit that leaves it whole."""
    if rate_bps is None:
        return UNLIMITED
    for unit in ("T", "G", "M", "k"):
        factor = _FACTORS[unit.lower()]
        if rate_bps % factor == 0:
            return f"{rate_bps // factor}{unit}bps"
    return f"{rate_bps}bps"
