"""Rates as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softswitch.units import format_rate, parse_rate


@pytest.mark.parametrize(
    ("text", "rate_bps"),
    [
        ("10Gbps", 10**10),
        ("2.5Mbps", 2_500_000),
        ("125000", 125_000),
        (" 1 Tbit/s ", 10**12),
        ("100gbit", 10**11),
        ("0.001kbps", 1),
        ("unlimited", None),
        ("1000T", 10**15),
        ("UNLIMITED", None),
    ],
)
def test_parse(text: str, rate_bps: int | None) -> None:
    assert parse_rate(text) == rate_bps


@pytest.mark.parametrize(
    "text",
    [
        *("", "0", "-1", "fast", "10GBps", "1.5", "0.1bps", "1e9", "10 Gbps per second", "٣"),
        *("1001Tbps", "9" * 5000),
    ],
)
def test_refuse(text: str) -> None:
    with pytest.raises(ValueError, match="want a positive whole number of bits per second"):
        parse_rate(text)


@given(st.integers(1, 10**13))
def test_format_is_read_back(rate_bps: int) -> None:
    assert parse_rate(format_rate(rate_bps)) == rate_bps
    assert parse_rate(format_rate(None)) is None
