"""Time constants of an endpoint that follow from its network, in real as in virtual time.

ACK timeout   longer than an answer can take where nothing is lost: base RTT, full queues, and
              whatever else may hold packets up. It is also the interval of EV probes.
retries       so many that a peer that is gone is given up after seconds, not hours
SACK delay    a small part of a round trip: what it adds to the round trip is felt by all control
"""

from __future__ import annotations

from typing import Final

from host.config import MAX_LINEAR_RETRIES, MAX_TIMEOUT, TIMEOUT_UNIT_NS, QpDefaults

#: A peer that never answers is given up within this time, all retries together
GIVE_UP_NS: Final = 6 * 10**9
#: What a SACK may wait for further packets, as a part of the base RTT
_SACK_DELAY_PART: Final = 10
_MAX_SACK_DELAY_NS: Final = 1_000_000


def timeout_exponent(longest_answer_ns: int) -> int:
    """The least local ACK timeout, as its exponent, that is no shorter than this."""
    exponent = max(longest_answer_ns - 1, 0) // TIMEOUT_UNIT_NS
    return min(exponent.bit_length(), MAX_TIMEOUT)


def exponential_retries(timeout: int, linear_retries: int) -> int:
    """As many as `QpDefaults` has, or fewer, so that all retries together end in `GIVE_UP_NS`."""
    timeout_ns = TIMEOUT_UNIT_NS << timeout
    retries = QpDefaults().exponential_retries
    # The first timeout, the linear ones, then 2, 4, ... 2^n of them
    while retries and (linear_retries + (2 << retries) - 1) * timeout_ns > GIVE_UP_NS:
        retries -= 1
    return retries


def sack_delay_ns(base_rtt_ns: int) -> int:
    """How long after a packet a SACK is due; the endpoint's own default for short round trips."""
    return min(max(base_rtt_ns // _SACK_DELAY_PART, QpDefaults().sack_delay_ns), _MAX_SACK_DELAY_NS)


def qp_defaults_of(base_rtt_ns: int, queueing_ns: int, timeout: int | None = None) -> QpDefaults:
    """Defaults of queue pairs for a network.

    Args:
        base_rtt_ns: of a full frame and its SACK through empty queues.
        queueing_ns: what full queues on the way add to that.
        timeout: the local ACK timeout where it is given, as its exponent.
    """
    delay_ns = sack_delay_ns(base_rtt_ns)
    if timeout is None:
        timeout = timeout_exponent(base_rtt_ns + queueing_ns + delay_ns)
    return QpDefaults(
        timeout=timeout,
        linear_retries=MAX_LINEAR_RETRIES,
        exponential_retries=exponential_retries(timeout, MAX_LINEAR_RETRIES),
        sack_delay_ns=delay_ns,
    )
