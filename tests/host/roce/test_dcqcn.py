"""DCQCN against numbers worked out by hand from the paper's equations and figure 7."""

from __future__ import annotations

import pytest

from host.congestion.dcqcn import Dcqcn, DcqcnConfig

LINE = 40_000_000_000
G = 1 / 256
#: The paper's increase, and R_HAI made easy to tell from it
CONFIG = DcqcnConfig(rate_hai_bps=300_000_000, clamp_target=True)
T_NS, B = 55_000, 10_000_000


@pytest.fixture(name="dcqcn")
def _dcqcn() -> Dcqcn:
    return Dcqcn(CONFIG, LINE)


def test_the_papers_parameters() -> None:
    config = DcqcnConfig()
    assert (config.g, config.alpha_timer_ns, config.rate_timer_ns) == (1 / 256, 55_000, 55_000)
    assert (config.byte_counter_bytes, config.fast_recovery_steps) == (10_000_000, 5)
    assert (config.rate_ai_bps, config.initial_alpha) == (40_000_000, 1.0)


def test_it_starts_at_line_rate_and_limits_nothing(dcqcn: Dcqcn) -> None:
    assert dcqcn.rate_bps == LINE
    for now_ns in (0, 1, 2):
        dcqcn.on_send(4200, now_ns)
        assert dcqcn.ready_ns(now_ns) == now_ns
    assert dcqcn.next_timer() is None


def test_cuts(dcqcn: Dcqcn) -> None:
    dcqcn.on_cnp(0)
    # alpha was 1: half the rate; and alpha stays 1
    assert (dcqcn.rate_bps, dcqcn.target_bps, dcqcn.alpha) == (20_000_000_000, LINE, 1.0)
    dcqcn.on_cnp(50_000)
    assert (dcqcn.rate_bps, dcqcn.target_bps) == (10_000_000_000, 20_000_000_000)
    # 110 µs without a CNP: twice times 255/256, then it weighs in again
    dcqcn.on_cnp(160_000)
    alpha = (255 / 256) ** 2
    assert dcqcn.rate_bps == pytest.approx(10_000_000_000 * (1 - alpha / 2), rel=1e-9)
    assert dcqcn.alpha == pytest.approx((1 - G) * alpha + G, rel=1e-12)


def test_alpha_falls_from_the_first_cnp_on_only(dcqcn: Dcqcn) -> None:
    dcqcn.on_cnp(10**9)
    assert dcqcn.rate_bps == LINE // 2


def test_fast_recovery_then_additive_increase_by_time(dcqcn: Dcqcn) -> None:
    dcqcn.on_cnp(0)
    rates = []
    for step in range(1, 7):
        dcqcn.handle_timer(step * T_NS)
        rates.append((dcqcn.rate_bps, dcqcn.target_bps))
    # Four halvings of the distance, then each time R_AI on the target, which is the line's already
    assert rates[:4] == [
        (30_000_000_000, LINE),
        (35_000_000_000, LINE),
        (37_500_000_000, LINE),
        (38_750_000_000, LINE),
    ]
    assert rates[4:] == [(39_375_000_000, LINE), (39_687_500_000, LINE)]


def test_additive_increase(dcqcn: Dcqcn) -> None:
    dcqcn.on_cnp(0)
    dcqcn.on_cnp(0)
    target = 20_000_000_000
    assert (dcqcn.rate_bps, dcqcn.target_bps) == (10_000_000_000, target)
    for step in range(1, 5):
        dcqcn.handle_timer(step * T_NS)
    assert (dcqcn.rate_bps, dcqcn.target_bps) == (19_375_000_000, target)
    dcqcn.handle_timer(5 * T_NS)
    assert dcqcn.target_bps == target + 40_000_000
    assert dcqcn.rate_bps == (19_375_000_000 + 20_040_000_000) // 2
    # The time alone never makes it hyper
    dcqcn.handle_timer(20 * T_NS)
    assert dcqcn.target_bps == target + 16 * 40_000_000


def test_bytes_count_as_time_does(dcqcn: Dcqcn) -> None:
    dcqcn.on_cnp(0)
    dcqcn.on_send(B - 1, 1)
    assert dcqcn.rate_bps == 20_000_000_000
    dcqcn.on_send(1, 2)
    assert dcqcn.rate_bps == 30_000_000_000


def test_hyper_increase_takes_both_counters_beyond_f(dcqcn: Dcqcn) -> None:
    for _ in range(3):
        dcqcn.on_cnp(0)
    for step in range(1, 7):
        dcqcn.handle_timer(step * T_NS)
    target = 10_000_000_000 + 2 * 40_000_000
    assert dcqcn.target_bps == target
    now_ns = 6 * T_NS
    for step in range(1, 6):
        dcqcn.on_send(B, now_ns)
        target += 40_000_000
        assert dcqcn.target_bps == target, step
    dcqcn.on_send(B, now_ns)
    # min(6, 6) is beyond 5
    assert dcqcn.target_bps == target + 300_000_000


def test_a_cnp_starts_everything_afresh(dcqcn: Dcqcn) -> None:
    dcqcn.on_cnp(0)
    dcqcn.on_send(B - 1, 1)
    dcqcn.handle_timer(4 * T_NS)
    dcqcn.on_cnp(4 * T_NS + 10)
    rate = dcqcn.rate_bps
    assert dcqcn.next_timer() == 5 * T_NS + 10
    dcqcn.on_send(1, 4 * T_NS + 20)
    dcqcn.handle_timer(5 * T_NS)
    assert dcqcn.rate_bps == rate


def test_a_target_that_is_not_clamped() -> None:
    dcqcn = Dcqcn(DcqcnConfig(), LINE)
    dcqcn.on_cnp(0)
    dcqcn.on_cnp(50_000)
    # The rate timer never ran in between: the target is still what it was
    assert (dcqcn.rate_bps, dcqcn.target_bps) == (10_000_000_000, LINE)
    dcqcn.handle_timer(50_000 + T_NS)
    rate_bps = dcqcn.rate_bps
    assert rate_bps == 25_000_000_000
    dcqcn.on_cnp(50_000 + T_NS)
    assert dcqcn.target_bps == rate_bps


def test_the_least_rate() -> None:
    dcqcn = Dcqcn(DcqcnConfig(min_rate_bps=1_000_000_000), LINE)
    for _ in range(100):
        dcqcn.on_cnp(0)
    assert dcqcn.rate_bps == 1_000_000_000
    # A line that is slower than the least rate has its own
    slow = Dcqcn(DcqcnConfig(), 50_000_000)
    slow.on_cnp(0)
    assert slow.rate_bps == 50_000_000


def test_it_lets_go_at_line_rate(dcqcn: Dcqcn) -> None:
    dcqcn.on_cnp(0)
    step = 0
    while dcqcn.is_limited:
        step += 1
        dcqcn.handle_timer(step * T_NS)
    assert dcqcn.rate_bps == LINE
    # From a half to less than 1/1024 below
    assert step == 9
    assert dcqcn.next_timer() is None


def test_pacing_keeps_the_rate_to_the_ns(dcqcn: Dcqcn) -> None:
    dcqcn.on_cnp(0)
    now_ns, sent = 0, 0
    while now_ns < T_NS - 1000:
        dcqcn.on_send(1250, now_ns)
        sent += 1250
        now_ns = dcqcn.ready_ns(now_ns)
    # 20 Gb/s: 1,250 bytes in 500 ns
    assert now_ns == sent * 8 / 20


def test_a_pause_is_not_made_up_for(dcqcn: Dcqcn) -> None:
    dcqcn.on_cnp(0)
    dcqcn.on_send(1250, 0)
    now_ns, frames = 50_000, 0
    while dcqcn.ready_ns(now_ns) == now_ns:
        dcqcn.on_send(1250, now_ns)
        frames += 1
    # What was saved is one frame of 4,200 bytes
    assert frames == 4


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("g", 0.0),
        ("g", 1.5),
        ("initial_alpha", 0),
        ("rate_timer_ns", 0),
        ("byte_counter_bytes", -1),
        ("rate_ai_bps", 0.5),
        ("fast_recovery_steps", True),
        ("clamp_target", 1),
    ],
)
def test_wrong_parameters_are_named(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"^{field}: {value!r} does not fit: it must be"):
        DcqcnConfig(**{field: value})  # type: ignore[arg-type]
