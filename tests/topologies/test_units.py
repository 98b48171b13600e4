"""Quantities as people write them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topologies import units


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (units.parse_rate_bps, "100Gbps", 100 * 10**9),
        (units.parse_rate_bps, "2.5 Mbps", 2_500_000),
        (units.parse_rate_bps, "1bps", 1),
        (units.parse_delay_ns, "500ns", 500),
        (units.parse_delay_ns, "1.5us", 1500),
        (units.parse_delay_ns, "2µs", 2000),
        (units.parse_delay_ns, "0s", 0),
        (units.parse_size_bytes, "64KiB", 65536),
        (units.parse_size_bytes, "64kB", 64000),
        (units.parse_size_bytes, "0.5KiB", 512),
    ],
)
def test_reads(parse: Callable[[str], int], text: str, value: int) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (units.parse_rate_bps, "100Gpbs", "'100Gpbs' is not a rate; write for example 100Gbps"),
        (units.parse_rate_bps, "100", "'100' is not a rate; write for example 100Gbps"),
        (units.parse_rate_bps, "-1Gbps", "'-1Gbps' is not a rate; write for example 100Gbps"),
        (units.parse_rate_bps, "0.5bps", "'0.5bps' is not a rate; write for example 100Gbps"),
        (units.parse_rate_bps, "0Gbps", "'0Gbps': a rate must be above 0"),
        (units.parse_delay_ns, "0.5ns", "'0.5ns' is not a time; write for example 500ns"),
        (units.parse_delay_ns, "5 min", "'5 min' is not a time; write for example 500ns"),
        (units.parse_size_bytes, "64kib", "'64kib' is not a size; write for example 64KiB"),
        (units.parse_size_bytes, "", "'' is not a size; write for example 64KiB"),
    ],
)
def test_refuses(parse: Callable[[str], int], text: str, message: str) -> None:
    with pytest.raises(ValueError) as raised:
        parse(text)
    assert str(raised.value).startswith(message)


@given(st.integers(1, 10**15))
def test_text_is_the_inverse(value: int) -> None:
    assert units.parse_rate_bps(units.rate_text(value)) == value
    assert units.parse_delay_ns(units.delay_text(value)) == value
    assert units.parse_size_bytes(units.size_text(value)) == value


def test_text_takes_the_largest_exact_unit() -> None:
    assert units.rate_text(100 * 10**9) == "100Gbps"
    assert units.rate_text(None) == "unlimited"
    assert units.delay_text(1500) == "1500ns"
    assert units.delay_text(0) == "0ns"
    assert units.size_text(65536) == "64KiB"
    assert units.size_text(0) == "0B"
