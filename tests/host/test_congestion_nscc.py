"""NSCC against numbers computed by hand, row by row of its table.

The network of most tests is the reference: 100 Gb/s and a base RTT of 12 µs, so that A = 1 and
BDP = 150,000 bytes; with trimming the target is 9 µs, B = 0.75. A segment has 4,000 bytes.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host.congestion.network import Network
from host.congestion.nscc import ALGORITHM, Nscc, NsccConfig, scaled

REFERENCE = Network(
    base_rtt_ns=12_000, rate_bps=100 * 10**9, frame_bytes=4200, mss_bytes=4000, trimming=True
)
BASE = 12_000
MAX_CWND = 225_000
#: 4 * 4000 * 1 * 0.75 / 9000 bytes per ns
ALPHA = 4 / 3


def nscc(network: Network = REFERENCE, **knobs: Any) -> Nscc:
    return Nscc.make(network, **knobs)


def at(cwnd: int, **knobs: Any) -> Nscc:
    """A controller with this window, that adjusts with every acknowledgement, at time 0."""
    return nscc(initial_cwnd=cwnd, **{"adjust_bytes_threshold": 1, "eta": 0, **knobs})


class TestConstants:
    def test_in_the_reference_network(self) -> None:
        constants = scaled(NsccConfig(), REFERENCE, BASE)
        assert constants.target_delay_ns == 9000
        assert constants.max_cwnd_bytes == MAX_CWND
        assert constants.min_cwnd_bytes == 4200
        assert constants.alpha == pytest.approx(ALPHA)
        assert constants.fi == 20_000
        assert constants.fi_scale == 0.25
        assert constants.eta_bytes == 600
        assert constants.gamma == 0.8
        assert constants.max_md_jump == 0.5
        assert constants.delay_alpha == 0.0125
        assert constants.fast_increase_delay_ns == 1000
        assert constants.adjust_bytes == 33_600
        assert constants.adjust_period_ns == 12_000
        assert constants.qa_threshold_ns == 36_000
        assert constants.qa_gate_bytes == 28_125

    def test_without_trimming_the_target_is_the_whole_rtt(self) -> None:
        network = Network(12_000, 100 * 10**9, 4200, 4000, trimming=False)
        constants = scaled(NsccConfig(), network, BASE)
        assert constants.target_delay_ns == 12_000
        # B / target is the same
        assert constants.alpha == pytest.approx(ALPHA)
        assert constants.qa_threshold_ns == 48_000

    def test_scale_with_rate_and_rtt(self) -> None:
        """800 Gb/s and 6 µs: A = 4."""
        network = Network(6_000, 800 * 10**9, 4200, 4000)
        constants = scaled(NsccConfig(), network, 6_000)
        assert constants.max_cwnd_bytes == 900_000
        assert constants.target_delay_ns == 4_500
        assert constants.fi == 80_000
        assert constants.fi_scale == 1.0
        assert constants.eta_bytes == 2400
        assert constants.alpha == pytest.approx(4 * ALPHA)
        assert constants.fast_increase_delay_ns == 500

    def test_every_knob_can_be_set(self) -> None:
        knobs: dict[str, Any] = {
            "disable_qa": True,
            "adjust_bytes_threshold": 1,
            "adjust_period_threshold": 2,
            "base_rtt": 3,
            "eta": 4.0,
            "fi": 5.0,
            "fi_scale": 6.0,
            "gamma": 0.7,
            "max_md_jump": 0.8,
            "max_cwnd": 90_000,
            "qa_gate": 1,
            "qa_threshold": 11,
            "target_delay": 12,
            "alpha": 13.0,
            "delay_alpha": 0.14,
            "fast_increase_delay": 15,
            "initial_cwnd": 16_000,
        }
        made = nscc(**knobs)
        constants = made.constants
        assert made.cwnd_bytes == 16_000
        assert constants.base_rtt_ns == 3
        assert (constants.adjust_bytes, constants.adjust_period_ns) == (1, 2)
        assert (constants.eta_bytes, constants.fi, constants.fi_scale) == (4.0, 5.0, 6.0)
        assert (constants.gamma, constants.max_md_jump) == (0.7, 0.8)
        assert (constants.max_cwnd_bytes, constants.qa_gate_bytes) == (90_000, 45_000)
        assert (constants.qa_threshold_ns, constants.target_delay_ns) == (11, 12)
        assert (constants.alpha, constants.delay_alpha) == (13.0, 0.14)
        assert constants.fast_increase_delay_ns == 15

    def test_the_knobs_of_mrc_ctl_are_there_under_their_names(self) -> None:
        names = (
            "disable_qa adjust_bytes_threshold adjust_period_threshold base_rtt eta fi fi_scale "
            "gamma max_md_jump max_cwnd qa_gate qa_threshold target_delay"
        )
        assert set(names.split()) <= set(NsccConfig.__slots__)
        assert ALGORITHM == "uet-1.0-nscc"

    @pytest.mark.parametrize(
        ("knob", "value", "limits"),
        [
            ("gamma", 1.5, r"0\.\.1"),
            ("max_md_jump", -0.1, r"0\.\.1"),
            ("qa_gate", 256, r"0\.\.255"),
            ("target_delay", 0, "at least 1"),
            ("max_cwnd", 0, "at least 1"),
            ("base_rtt", -1, "at least 0"),
            ("fi", "much", "a number"),
            ("fi", True, "a number"),
        ],
    )
    def test_knobs_that_cannot_be_are_named(self, knob: str, value: Any, limits: str) -> None:
        with pytest.raises(ValueError, match=rf"{knob}: .* does not fit: it must be {limits}"):
            NsccConfig(**{knob: value})


class TestTable:
    def test_it_begins_with_the_largest_window(self) -> None:
        assert nscc().cwnd_bytes == MAX_CWND
        assert nscc(initial_cwnd=1).cwnd_bytes == 4200
        assert nscc(initial_cwnd=10**9).cwnd_bytes == MAX_CWND

    def test_no_ecn_below_target_proportional_increase(self) -> None:
        """Delay 3 µs, 6 µs below target: a window's worth of alpha * 4200 * 6000 / 100000 = 336."""
        controller = at(100_000)
        controller.on_ack(4200, False, BASE + 3_000, 100)
        assert controller.cwnd_bytes == 100_336

    def test_a_whole_window_acknowledged_adds_alpha_times_the_distance(self) -> None:
        controller = nscc(initial_cwnd=84_000, eta=0, adjust_bytes_threshold=84_000)
        for _ in range(20):
            controller.on_ack(4200, False, BASE + 3_000, 100)
        assert controller.cwnd_bytes == 84_000 + 8000

    def test_no_ecn_at_target_fair_increase(self) -> None:
        """5 segments a window: 20,000 * 4200 / 100,000 = 840."""
        for delay_ns in (9_000, 30_000):
            controller = at(100_000)
            controller.on_ack(4200, False, BASE + delay_ns, 100)
            assert controller.cwnd_bytes == 100_840

    def test_next_to_no_delay_for_a_window_fast_increase(self) -> None:
        """From then on a quarter of what is acknowledged."""
        controller = nscc(initial_cwnd=42_000, eta=0, alpha=0)
        for _ in range(10):
            controller.on_ack(4200, False, BASE + 999, 100)
        assert controller.cwnd_bytes == 42_000
        controller.on_ack(4200, False, BASE + 999, 100)
        assert controller.cwnd_bytes == 43_050
        controller.on_ack(4200, False, BASE - 5, 100)
        assert controller.cwnd_bytes == 44_100

    def test_delay_ends_fast_increase(self) -> None:
        controller = nscc(initial_cwnd=42_000, eta=0, alpha=0)
        for _ in range(11):
            controller.on_ack(4200, False, BASE, 100)
        controller.on_ack(4200, False, BASE + 1000, 100)
        before = controller.cwnd_bytes
        # and a whole window is asked for again
        for _ in range(10):
            controller.on_ack(4200, False, BASE, 100)
        assert controller.cwnd_bytes == before

    def test_ecn_at_target_multiplicative_decrease(self) -> None:
        """The average is at once the sample here: 18 µs, so 1 - 0.8 * 9/18 = 0.6."""
        controller = at(100_000, delay_alpha=1)
        controller.on_ack(4200, True, BASE + 18_000, 100)
        assert controller.cwnd_bytes == 60_000
        assert controller.stats.decreases == 1

    def test_the_decrease_is_by_the_average_delay(self) -> None:
        """Weight 1/8 of 80 µs is 10 µs: 1 - 0.8 * 1/10 = 0.92."""
        controller = at(100_000, delay_alpha=0.125, qa_threshold=10**6)
        controller.on_ack(4200, True, BASE + 80_000, 100)
        assert controller.avg_delay_ns == 10_000
        assert controller.cwnd_bytes == 92_000

    def test_no_decrease_while_the_average_is_below_target(self) -> None:
        controller = at(100_000)
        controller.on_ack(4200, True, BASE + 20_000, 100)
        assert controller.avg_delay_ns == 250
        assert controller.cwnd_bytes == 100_000

    def test_it_never_falls_below_max_md_jump_at_once(self) -> None:
        controller = at(100_000, delay_alpha=1, qa_threshold=10**9, disable_qa=True)
        controller.on_ack(4200, True, BASE + 900_000, 100)
        assert controller.cwnd_bytes == 50_000

    def test_it_decreases_at_most_once_per_base_rtt(self) -> None:
        controller = at(100_000, delay_alpha=1)
        controller.on_ack(4200, True, BASE + 18_000, 100)
        controller.on_ack(4200, True, BASE + 18_000, 101)
        controller.on_ack(4200, True, BASE + 18_000, 100 + BASE)
        assert controller.cwnd_bytes == 60_000
        controller.on_ack(4200, True, BASE + 18_000, 101 + BASE)
        assert controller.cwnd_bytes == 36_000

    def test_ecn_below_target_nothing(self) -> None:
        controller = at(100_000)
        controller.on_ack(4200, True, BASE + 8_999, 100)
        assert controller.cwnd_bytes == 100_000

    def test_without_a_sample_the_average_stands_in(self) -> None:
        controller = at(100_000, delay_alpha=1)
        controller.on_ack(0, False, BASE + 3_000, 100)
        controller.on_ack(4200, False, None, 100)
        assert controller.cwnd_bytes == 100_336
        assert controller.avg_delay_ns == 3_000


class TestAdjustment:
    def test_is_made_when_enough_is_acknowledged(self) -> None:
        controller = nscc(initial_cwnd=100_000, eta=0)
        for _ in range(7):
            controller.on_ack(4200, False, BASE + 9_000, 100)
        assert controller.cwnd_bytes == 100_000
        controller.on_ack(4200, False, BASE + 9_000, 100)
        assert controller.cwnd_bytes == 100_000 + 8 * 840

    def test_or_when_a_period_is_over_and_then_eta_is_added(self) -> None:
        controller = nscc(initial_cwnd=100_000)
        controller.on_ack(4200, False, BASE + 9_000, BASE - 1)
        assert controller.cwnd_bytes == 100_000
        controller.on_ack(0, False, BASE + 9_000, BASE)
        assert controller.cwnd_bytes == 100_000 + 840 + 600
        controller.on_ack(0, False, BASE + 9_000, BASE + 1)
        assert controller.cwnd_bytes == 101_440

    def test_the_window_is_bounded(self) -> None:
        controller = at(224_999, eta=10_000)
        controller.on_ack(4200, False, BASE, 10**6)
        assert controller.cwnd_bytes == MAX_CWND


class TestTrimAndLoss:
    def test_a_trimmed_packet_takes_its_bytes_off(self) -> None:
        controller = nscc()
        controller.on_trim(4200, True, 100)
        controller.on_trim(4200, False, 100)
        assert controller.cwnd_bytes == MAX_CWND - 8400
        assert controller.stats.trims == 2

    def test_so_does_a_lost_one(self) -> None:
        controller = nscc()
        controller.on_loss(4200, 100)
        assert controller.cwnd_bytes == MAX_CWND - 4200
        assert controller.stats.losses == 1

    def test_down_to_one_packet(self) -> None:
        controller = nscc(initial_cwnd=10_000)
        for _ in range(5):
            controller.on_trim(4200, True, 100)
        assert controller.cwnd_bytes == 4200


class TestQuickAdapt:
    """A period is base RTT and target, 21 µs; the gate is max_cwnd / 8 = 28,125 bytes."""

    def start(self, **knobs: Any) -> Nscc:
        controller = nscc(**{"eta": 0, "alpha": 0, "fi": 0, **knobs})
        controller.on_ack(
            4200, False, BASE + 5_000, 0
        )  # the first period begins, and ends at 21 µs
        return controller

    def test_after_a_trim_the_window_is_what_the_period_brought(self) -> None:
        controller = self.start()
        for _ in range(3):
            controller.on_ack(4200, False, BASE + 5_000, 10_000)
        controller.on_trim(4200, True, 11_000)
        assert controller.cwnd_bytes == MAX_CWND - 4200
        controller.inflight_bytes = 100_000
        controller.on_ack(4200, False, BASE + 5_000, 21_001)
        # The first acknowledgement was before the period began
        assert controller.cwnd_bytes == 4 * 4200
        assert controller.stats.quick_adapts == 1

    def test_not_before_the_period_is_over(self) -> None:
        controller = self.start()
        controller.on_trim(4200, True, 11_000)
        controller.on_ack(4200, False, BASE + 5_000, 21_000)
        assert controller.stats.quick_adapts == 0

    def test_not_if_the_period_brought_enough(self) -> None:
        controller = self.start()
        controller.on_trim(4200, True, 11_000)
        controller.on_ack(28_125, False, BASE + 5_000, 21_001)
        assert controller.stats.quick_adapts == 0
        enough_less_one = self.start()
        enough_less_one.on_trim(4200, True, 11_000)
        enough_less_one.on_ack(28_124, False, BASE + 5_000, 21_001)
        assert enough_less_one.cwnd_bytes == 28_124

    def test_not_without_a_reason(self) -> None:
        controller = self.start()
        controller.on_ack(4200, False, BASE + 36_000, 21_001)
        assert controller.stats.quick_adapts == 0

    def test_a_long_delay_is_a_reason(self) -> None:
        controller = self.start()
        controller.on_ack(4200, False, BASE + 36_001, 21_001)
        assert controller.cwnd_bytes == 4200

    def test_a_loss_is_a_reason(self) -> None:
        controller = self.start()
        controller.on_ack(8400, False, BASE + 5_000, 10_000)
        controller.on_loss(4200, 21_001)
        assert controller.cwnd_bytes == 8400

    def test_a_trim_counts_for_its_own_period_only(self) -> None:
        controller = self.start()
        controller.on_trim(4200, True, 11_000)
        controller.on_ack(30_000, False, BASE + 5_000, 21_001)
        controller.on_ack(4200, False, BASE + 5_000, 42_002)
        assert controller.stats.quick_adapts == 0

    def test_it_leaves_one_packet_at_least(self) -> None:
        controller = self.start()
        controller.on_trim(4200, True, 21_001)
        assert controller.cwnd_bytes == 4200

    def test_what_was_in_flight_is_ignored_then(self) -> None:
        controller = self.start()
        controller.on_ack(21_000, False, BASE + 5_000, 10_000)
        controller.inflight_bytes = 42_000
        controller.on_trim(4200, True, 21_001)
        assert controller.cwnd_bytes == 21_000
        for _ in range(9):
            controller.on_trim(4200, True, 21_002)
        assert controller.cwnd_bytes == 21_000
        # 42,000 bytes were heard of: from the tenth packet on trims count again
        controller.on_trim(4200, True, 21_003)
        assert controller.cwnd_bytes == 16_800

    def test_marks_on_what_was_in_flight_are_ignored_too(self) -> None:
        controller = self.start(delay_alpha=1)
        controller.on_ack(21_000, False, BASE + 5_000, 10_000)
        controller.inflight_bytes = 42_000
        controller.on_trim(4200, True, 21_001)
        controller.on_ack(37_799, True, BASE + 18_000, 21_002)
        assert controller.cwnd_bytes == 21_000
        controller.on_ack(4201, True, BASE + 18_000, 21_003)
        assert controller.cwnd_bytes == 12_600

    def test_can_be_disabled(self) -> None:
        controller = self.start(disable_qa=True)
        controller.on_trim(4200, True, 21_001)
        assert controller.cwnd_bytes == MAX_CWND - 4200


class TestPenalty:
    @pytest.mark.parametrize(
        ("penalty", "cwnd"), [(0, 127_000), (1, 126_000), (64, 63_000), (126, 4200), (127, 4200)]
    )
    def test_scales_the_window_down_to_one_packet(self, penalty: int, cwnd: int) -> None:
        controller = nscc(initial_cwnd=127_000)
        controller.on_peer_penalty(penalty, False, 0)
        assert controller.cwnd_bytes == cwnd

    def test_stays_in_force_while_the_window_moves(self) -> None:
        controller = at(100_000)
        controller.on_peer_penalty(127, False, 0)
        controller.on_ack(4200, False, BASE + 9_000, 100)
        assert controller.cwnd_bytes == 4200
        controller.on_peer_penalty(0, False, 200)
        assert controller.cwnd_bytes == 100_840

    def test_restore_gives_the_window_back_as_it_was(self) -> None:
        controller = nscc(initial_cwnd=100_000)
        controller.on_peer_penalty(100, False, 0)
        for _ in range(10):
            controller.on_trim(4200, True, 10)
        controller.on_peer_penalty(0, True, 20)
        assert controller.cwnd_bytes == 100_000

    def test_restore_never_shrinks_it(self) -> None:
        controller = nscc()
        controller.on_peer_penalty(0, True, 0)
        assert controller.cwnd_bytes == MAX_CWND


class TestMeasuredBaseRtt:
    NETWORK = Network(0, 100 * 10**9, 4200, 4000)

    def test_the_first_sample_and_then_the_least_is_the_base_rtt(self) -> None:
        controller = nscc(self.NETWORK)
        for rtt_ns, base_ns in ((80_000, 80_000), (60_000, 60_000), (90_000, 60_000)):
            controller.on_ack(0, False, rtt_ns, 0)
            assert controller.constants.base_rtt_ns == base_ns
            assert controller.constants.max_cwnd_bytes == base_ns * 12.5 * 1.5

    def test_the_window_that_was_assumed_is_scaled_once(self) -> None:
        controller = nscc(self.NETWORK)
        assert controller.cwnd_bytes == MAX_CWND
        controller.on_ack(0, False, 24_000, 0)
        assert controller.cwnd_bytes == 2 * MAX_CWND
        controller.on_ack(0, False, 6_000, 0)
        assert controller.cwnd_bytes == MAX_CWND // 2

    def test_a_base_rtt_that_is_told_stays(self) -> None:
        for controller in (nscc(), nscc(self.NETWORK, base_rtt=12_000)):
            controller.on_ack(0, False, 100, 0)
            assert controller.constants.base_rtt_ns == 12_000


signals = st.one_of(
    st.tuples(
        st.just("ack"), st.integers(0, 10**6), st.booleans(), st.none() | st.integers(0, 10**7)
    ),
    st.tuples(st.just("trim"), st.integers(1, 9000), st.booleans(), st.none()),
    st.tuples(st.just("loss"), st.integers(1, 9000), st.booleans(), st.none()),
    st.tuples(st.just("penalty"), st.integers(0, 127), st.booleans(), st.none()),
)


@given(
    steps=st.lists(st.tuples(signals, st.integers(0, 10**6), st.integers(0, 10**7)), max_size=60),
    base_rtt=st.sampled_from([0, 1, 5_400, 10**6]),
    rate_bps=st.sampled_from([1000, 10**9, 8 * 10**11]),
)
def test_whatever_comes_the_window_stays_within_its_bounds(
    steps: list[tuple[tuple[str, int, bool, int | None], int, int]], base_rtt: int, rate_bps: int
) -> None:
    controller = nscc(Network(base_rtt, rate_bps, 4200, 4000))
    now_ns = 0
    for (what, number, flag, rtt_ns), step_ns, inflight in steps:
        now_ns += step_ns
        controller.inflight_bytes = inflight
        if what == "ack":
            controller.on_ack(number, flag, rtt_ns, now_ns)
        elif what == "trim":
            controller.on_trim(number, flag, now_ns)
        elif what == "loss":
            controller.on_loss(number, now_ns)
        else:
            controller.on_peer_penalty(number, flag, now_ns)
        assert 4200 <= controller.cwnd_bytes <= controller.constants.max_cwnd_bytes
        assert controller.next_timer() is None
