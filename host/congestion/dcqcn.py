"""DCQCN: a rate for each queue pair, cut when a CNP comes and raised by timer and bytes.

Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015, section 3.1, the
reaction point. Parameters are those of the paper's deployment (its table of figure 14), not those
that QCN began with (1.5 ms, 150 KB, g = 1/16). What the paper leaves to QCN and gives no number
for is marked.

Rates count bytes as they are on the wire, with preamble, FCS and gap. Not a `CongestionController`:
that has a window for a destination.
"""

from __future__ import annotations

from dataclasses import dataclass

_NS = 10**9
#: What a queue pair that could not send for a while may have saved: a frame, bits times 10^9
_MAX_CREDIT = 4200 * 8 * _NS


@dataclass(frozen=True, slots=True)
class DcqcnConfig:
    """Parameters. Raises ValueError, naming the one that does not fit."""

    #: Weight of a CNP, or of a time without one, in alpha
    g: float = 1 / 256
    #: Of alpha at the beginning
    initial_alpha: float = 1.0
    #: Without a CNP for so long, alpha falls: K, a little more than the interval of CNPs
    alpha_timer_ns: int = 55_000
    #: Rates rise after so long, T ...
    rate_timer_ns: int = 55_000
    #: ... and after so many bytes, B
    byte_counter_bytes: int = 10_000_000
    #: Rises that only recover what was lost, F
    fast_recovery_steps: int = 5
    #: Of the target in each additive increase
    rate_ai_bps: int = 40_000_000
    #: ... and in each hyper increase; our choice: ten times that, the ratio in QCN (802.1Qau)
    rate_hai_bps: int = 400_000_000
    #: No rate is lower; not in the paper, but the default of the ns-3 RDMA simulator
    min_rate_bps: int = 100_000_000
    #: Every CNP sets the target to the rate, as equation 1 has it. False: not one that comes before
    #: the rate timer ran since the last, as in NICs and by default in the ns-3 RDMA simulator. Our
    #: choice: it is what baselines are measured with, and the better of the two
    clamp_target: bool = False

    def __post_init__(self) -> None:
        for name in ("g", "initial_alpha"):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or not 0 < value <= 1:
                raise ValueError(f"{name}: {value!r} does not fit: it must be above 0, at most 1")
        if not isinstance(self.clamp_target, bool):
            raise ValueError(
                f"clamp_target: {self.clamp_target!r} does not fit: it must be true or false"
            )
        for name in (
            "alpha_timer_ns",
            "rate_timer_ns",
            "byte_counter_bytes",
            "fast_recovery_steps",
            "rate_ai_bps",
            "rate_hai_bps",
            "min_rate_bps",
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name}: {value!r} does not fit: it must be an integer above 0")


class Dcqcn:
    """The rate of one queue pair, which starts at that of its port.

    A queue pair may send when `ready_ns` says so, and tells of each frame with `on_send`. Nothing
    is limited at line rate.
    """

    __slots__ = (
        "_alpha_ns",
        "_byte_count",
        "_byte_steps",
        "_config",
        "_due_ns",
        "_line_rate_bps",
        "_min_rate_bps",
        "_owed",
        "_owed_ns",
        "_timer_steps",
        "alpha",
        "rate_bps",
        "target_bps",
    )

    def __init__(self, config: DcqcnConfig, line_rate_bps: int) -> None:
        self._config = config
        self._line_rate_bps = line_rate_bps
        self._min_rate_bps = min(config.min_rate_bps, line_rate_bps)
        self.alpha = config.initial_alpha
        #: R_C, what is sent at, and R_T, what it rises to
        self.rate_bps = line_rate_bps
        self.target_bps = line_rate_bps
        #: When alpha last changed, or may have; None: there was no CNP yet
        self._alpha_ns: int | None = None
        self._byte_count = 0
        self._byte_steps = 0
        self._timer_steps = 0
        #: When the rate timer is due; None: at line rate, nothing is to be raised
        self._due_ns: int | None = None
        #: Bits times 10^9 that were sent beyond what the rate allowed up to `_owed_ns`
        self._owed = 0
        self._owed_ns = 0

    @property
    def is_limited(self) -> bool:
        """Whether the rate is below the line's."""
        return self._due_ns is not None

    # --- sending ---

    def ready_ns(self, now_ns: int) -> int:
        """When the next frame may start: now or later."""
        if self._due_ns is None:
            return now_ns
        self._pay(now_ns)
        if self._owed <= 0:
            return now_ns
        return now_ns + -(-self._owed // self.rate_bps)

    def on_send(self, wire_bytes: int, now_ns: int) -> None:
        """A frame starts."""
        if self._due_ns is None:
            return
        self._pay(now_ns)
        self._owed += wire_bytes * 8 * _NS
        self._byte_count += wire_bytes
        while self._byte_count >= self._config.byte_counter_bytes and self._due_ns is not None:
            self._byte_count -= self._config.byte_counter_bytes
            self._byte_steps += 1
            self._increase(now_ns)

    def _pay(self, now_ns: int) -> None:
        """Time went by at the present rate; what was not used is lost, but for a frame's worth."""
        self._owed -= (now_ns - self._owed_ns) * self.rate_bps
        self._owed_ns = now_ns
        if self._owed < -_MAX_CREDIT:
            self._owed = -_MAX_CREDIT

    # --- cutting ---

    def on_cnp(self, now_ns: int) -> None:
        """A CNP came: equation 1 of the paper, and all counters start afresh."""
        self._age_alpha(now_ns)
        config = self._config
        if self._due_ns is None:
            self._owed = 0
            self._owed_ns = now_ns
        else:
            self._pay(now_ns)
        if config.clamp_target or not self.is_limited or self._timer_steps:
            self.target_bps = self.rate_bps
        self.rate_bps = max(round(self.rate_bps * (1 - self.alpha / 2)), self._min_rate_bps)
        self.alpha = (1 - config.g) * self.alpha + config.g
        self._alpha_ns = now_ns
        self._byte_count = self._byte_steps = self._timer_steps = 0
        self._due_ns = now_ns + config.rate_timer_ns

    def _age_alpha(self, now_ns: int) -> None:
        """Equation 2, once for each `alpha_timer_ns` that went by without a CNP."""
        if self._alpha_ns is None:
            return
        config = self._config
        times = (now_ns - self._alpha_ns) // config.alpha_timer_ns
        if times > 0:
            self.alpha *= (1 - config.g) ** times
            self._alpha_ns += times * config.alpha_timer_ns

    # --- rising ---

    def next_timer(self) -> int | None:
        """When the rate rises next by time; None: it is the line's."""
        return self._due_ns

    def handle_timer(self, now_ns: int) -> None:
        """Time has come, perhaps several times."""
        while self._due_ns is not None and self._due_ns <= now_ns:
            due_ns = self._due_ns
            self._due_ns = due_ns + self._config.rate_timer_ns
            self._timer_steps += 1
            self._increase(due_ns)

    def _increase(self, now_ns: int) -> None:
        """Fast recovery, additive or hyper increase, by what both counters say (figure 7)."""
        config = self._config
        self._pay(max(now_ns, self._owed_ns))
        steps = config.fast_recovery_steps
        if max(self._timer_steps, self._byte_steps) >= steps:
            hyper = min(self._timer_steps, self._byte_steps) > steps
            rise_bps = config.rate_hai_bps if hyper else config.rate_ai_bps
            self.target_bps = min(self.target_bps + rise_bps, self._line_rate_bps)
        self.rate_bps = (self.rate_bps + self.target_bps) // 2
        # Halves never get there: the limiter is released when next to nothing is missing
        if self.rate_bps >= self._line_rate_bps - self._line_rate_bps // 1024:
            self.rate_bps = self.target_bps = self._line_rate_bps
            self._due_ns = None
