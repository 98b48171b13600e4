"""Time constants that follow from a network."""

from __future__ import annotations

import pytest

from host.config import TIMEOUT_UNIT_NS, QpDefaults
from host.timing import GIVE_UP_NS, exponential_retries, qp_defaults_of, timeout_exponent


@pytest.mark.parametrize(
    ("longest_ns", "exponent"),
    [(0, 0), (1024, 0), (1025, 1), (2048, 1), (2049, 2), (32_768, 5), (32_769, 6), (10**18, 24)],
)
def test_the_timeout_is_the_least_that_is_long_enough(longest_ns: int, exponent: int) -> None:
    assert timeout_exponent(longest_ns) == exponent


@pytest.mark.parametrize("timeout", range(25))
def test_a_peer_that_is_gone_is_given_up_in_time(timeout: int) -> None:
    def total_ns(retries: int) -> int:
        return sum(1 << n for n in [0] * 8 + list(range(1, retries + 1))) * (
            TIMEOUT_UNIT_NS << timeout
        )

    retries = exponential_retries(timeout, linear_retries=7)
    assert retries == 0 or total_ns(retries) <= GIVE_UP_NS
    most = QpDefaults().exponential_retries
    assert retries == most or total_ns(retries + 1) > GIVE_UP_NS


def test_short_round_trips_keep_the_endpoint_s_own_defaults() -> None:
    assert qp_defaults_of(5424, 20_000) == QpDefaults()


def test_long_round_trips_make_all_times_longer() -> None:
    slow = qp_defaults_of(6_000_000, 30_000_000)
    assert TIMEOUT_UNIT_NS << slow.timeout >= 36_000_000
    assert slow.sack_delay_ns == 600_000
    assert slow.exponential_retries < QpDefaults().exponential_retries
    assert qp_defaults_of(10**9, 0).sack_delay_ns == 1_000_000


def test_a_timeout_that_is_given_stays_and_retries_follow_it() -> None:
    given = qp_defaults_of(5424, 20_000, timeout=20)
    assert given.timeout == 20 and given.exponential_retries == 0
