"""NSCC, the network signal based congestion control of UET 1.0, at the sender.

mrc-protocol.md, section 5. Two signals a SACK: ECN and queueing delay, the RTT beyond the base RTT.

======  ===============  ===========================================================================
ECN     delay            reaction
======  ===============  ===========================================================================
no      below target     proportional increase; after a full window of next to no delay, fast
                         increase instead
no      at or above it   fair increase
yes     at or above it   multiplicative decrease by the average delay, at most once per base RTT
yes     below            none: the EV is passed over, that is all
======  ===============  ===========================================================================

A trimmed packet, or one lost, takes its bytes off the window. Quick adapt, once per base RTT and
target delay: where that much was lost, trimmed or queued that the period brought less than a
fraction of the largest window, the window is what the period brought.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any

from host.congestion.base import CongestionController
from host.congestion.network import REFERENCE_BDP_BYTES, REFERENCE_RTT_NS, Network
from host.congestion.registry import register

#: The name in mrc_ctl.h
ALGORITHM = "uet-1.0-nscc"

#: Fast increase is for delays below this, of a reference network
_REFERENCE_FAST_DELAY_NS = 1_000
#: RTTs are known to 128 ns only: less than two units is no delay
_LEAST_FAST_DELAY_NS = 256

#: Of `rcv_cwnd_pen`: one packet per RTT
FULL_PENALTY = 127


@dataclass(frozen=True, slots=True)
class NsccConfig:
    """The knobs. Those of `mrc_ctl_cc_nscc_cfg` have their names there; None: scaled (`scaled`).

    Raises ValueError, naming the knob, for a value that cannot be.
    """

    disable_qa: bool = False
    #: Bytes acknowledged after which the gathered increase is added to the window
    adjust_bytes_threshold: int | None = None
    #: ns after which it is, whatever was acknowledged
    adjust_period_threshold: int | None = None
    #: ns; 0: the least that was measured, or what `Network` says
    base_rtt: int = 0
    #: Bytes added to the window every `adjust_period_threshold`
    eta: float | None = None
    #: Bytes added per window acknowledged, in fair increase
    fi: float | None = None
    #: Part of the acknowledged bytes added to the window, in fast increase
    fi_scale: float | None = None
    gamma: float = 0.8
    #: The window shrinks to this part of itself at most, in one multiplicative decrease
    max_md_jump: float = 0.5
    #: Bytes
    max_cwnd: int | None = None
    #: Quick adapt is for periods that brought less than max_cwnd / 2^qa_gate
    qa_gate: int = 3
    #: ns of queueing delay that call for quick adapt
    qa_threshold: int | None = None
    #: ns of queueing delay
    target_delay: int | None = None

    # --- UET has these, mrc_ctl.h does not ---
    #: Bytes per ns below target, added per window acknowledged, in proportional increase
    alpha: float | None = None
    #: Weight of a sample in the average delay
    delay_alpha: float = 0.0125
    #: ns of queueing delay below which there is next to none
    fast_increase_delay: int | None = None
    #: Bytes; None: max_cwnd
    initial_cwnd: int | None = None

    def __post_init__(self) -> None:
        for name, low, high in (
            ("adjust_bytes_threshold", 1, None),
            ("adjust_period_threshold", 1, None),
            ("base_rtt", 0, None),
            ("eta", 0, None),
            ("fi", 0, None),
            ("fi_scale", 0, None),
            ("gamma", 0, 1),
            ("max_md_jump", 0, 1),
            ("max_cwnd", 1, None),
            ("qa_gate", 0, 255),
            ("qa_threshold", 0, None),
            ("target_delay", 1, None),
            ("alpha", 0, None),
            ("delay_alpha", 0, 1),
            ("fast_increase_delay", 0, None),
            ("initial_cwnd", 1, None),
        ):
            value = getattr(self, name)
            if value is None:
                continue
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not (number and isfinite(value)):
                raise ValueError(f"{name}: {value!r} does not fit: it must be a number")
            if not (low <= value and (high is None or value <= high)):
                limits = f"at least {low}" if high is None else f"{low}..{high}"
                raise ValueError(f"{name}: {value} does not fit: it must be {limits}")


@dataclass(frozen=True, slots=True)
class NsccConstants:
    """What the controller works with: the knobs, with those that were None scaled."""

    base_rtt_ns: int
    target_delay_ns: int
    max_cwnd_bytes: int
    min_cwnd_bytes: int
    alpha: float
    fi: float
    fi_scale: float
    eta_bytes: float
    gamma: float
    max_md_jump: float
    delay_alpha: float
    fast_increase_delay_ns: int
    adjust_bytes: int
    adjust_period_ns: int
    qa_threshold_ns: int
    #: Quick adapt is for periods that brought less
    qa_gate_bytes: int


def scaled(config: NsccConfig, network: Network, base_rtt_ns: int) -> NsccConstants:
    """The constants for a network with this base RTT.

    With A = BDP / (100 Gb/s * 12 µs) and B = target / 12 µs, as in UET 1.0.
    """

    def known(knob: Any, otherwise: float) -> Any:
        return otherwise if knob is None else knob

    bdp_bytes = network.bdp_bytes(base_rtt_ns)
    a = bdp_bytes / REFERENCE_BDP_BYTES
    mss = network.mss_bytes
    target = int(
        known(config.target_delay, base_rtt_ns * 3 // 4 if network.trimming else base_rtt_ns)
    )
    target = max(target, 1)
    b = target / REFERENCE_RTT_NS
    min_cwnd = network.frame_bytes
    max_cwnd = max(int(known(config.max_cwnd, 1.5 * bdp_bytes)), min_cwnd)
    fast = _REFERENCE_FAST_DELAY_NS * base_rtt_ns // REFERENCE_RTT_NS
    return NsccConstants(
        base_rtt_ns=base_rtt_ns,
        target_delay_ns=target,
        max_cwnd_bytes=max_cwnd,
        min_cwnd_bytes=min_cwnd,
        alpha=known(config.alpha, 4 * mss * a * b / target),
        fi=known(config.fi, 5 * mss * a),
        fi_scale=known(config.fi_scale, 0.25 * a),
        eta_bytes=known(config.eta, 0.15 * mss * a),
        gamma=config.gamma,
        max_md_jump=config.max_md_jump,
        delay_alpha=config.delay_alpha,
        fast_increase_delay_ns=known(config.fast_increase_delay, max(fast, _LEAST_FAST_DELAY_NS)),
        adjust_bytes=known(config.adjust_bytes_threshold, 8 * network.frame_bytes),
        adjust_period_ns=known(config.adjust_period_threshold, base_rtt_ns),
        qa_threshold_ns=known(config.qa_threshold, 4 * target),
        qa_gate_bytes=max_cwnd >> config.qa_gate,
    )


@register(ALGORITHM)
class Nscc(CongestionController):
    """NSCC towards one destination.

    Where neither the knob nor the network tells the base RTT it is the least RTT that was measured,
    and every constant that is scaled follows it.
    """

    __slots__ = (
        "_achieved_bytes",
        "_assumed_max_cwnd_bytes",
        "_avg_delay_ns",
        "_base_rtt_known",
        "_cwnd",
        "_fast_bytes",
        "_fast_increasing",
        "_ignored_bytes",
        "_inc_bytes",
        "_last_adjust_ns",
        "_last_decrease_ns",
        "_measures_base_rtt",
        "_penalty",
        "_qa_end_ns",
        "_received_bytes",
        "_to_ignore_bytes",
        "_trigger_qa",
        "_unpenalised_cwnd",
        "config",
        "constants",
        "network",
        "stats",
    )

    def __init__(self, network: Network, config: NsccConfig | None = None) -> None:
        self.config = NsccConfig() if config is None else config
        self.network = network
        base_rtt_ns = self.config.base_rtt or network.base_rtt_ns
        #: The first sample is whatever it is, the next ones only ever lower it
        self._measures_base_rtt = not base_rtt_ns
        self._base_rtt_known = bool(base_rtt_ns)
        self.constants = scaled(self.config, network, base_rtt_ns or REFERENCE_RTT_NS)
        constants = self.constants
        self._assumed_max_cwnd_bytes = constants.max_cwnd_bytes
        self._cwnd = float(
            constants.max_cwnd_bytes
            if self.config.initial_cwnd is None
            else min(
                max(self.config.initial_cwnd, constants.min_cwnd_bytes), constants.max_cwnd_bytes
            )
        )
        super().__init__(int(self._cwnd))
        self._avg_delay_ns = 0.0
        #: Increase gathered, times the window
        self._inc_bytes = 0.0
        self._received_bytes = 0
        self._last_adjust_ns = 0
        #: Acknowledged in a row with next to no delay
        self._fast_bytes = 0
        self._fast_increasing = False
        self._last_decrease_ns: int | None = None
        #: Quick adapt: bytes acknowledged in this period, its end, whether something was trimmed
        self._achieved_bytes = 0
        self._qa_end_ns: int | None = None
        self._trigger_qa = False
        #: Of the bytes in flight at the last quick adapt, those that were heard of since
        self._to_ignore_bytes = 0
        self._ignored_bytes = 0
        self._penalty = 0
        self._unpenalised_cwnd = 0.0
        self.stats = NsccStats()

    @classmethod
    def make(cls, network: Network, **knobs: Any) -> Nscc:
        """With knobs of `NsccConfig`."""
        return cls(network, NsccConfig(**knobs))

    @property
    def avg_delay_ns(self) -> float:
        """The average queueing delay."""
        return self._avg_delay_ns

    # --- signals ---

    def on_ack(self, acked_bytes: int, ecn: bool, rtt_ns: int | None, now_ns: int) -> None:
        """The table above."""
        self._achieved_bytes += acked_bytes
        self._received_bytes += acked_bytes
        self._ignored_bytes += acked_bytes
        constants = self.constants
        if rtt_ns is None:
            # No sample: the average stands in, and stays
            delay_ns: float = self._avg_delay_ns
        else:
            if self._measures_base_rtt:
                constants = self._measure_base_rtt(rtt_ns)
            delay_ns = rtt_ns - constants.base_rtt_ns
            if delay_ns < 0:
                delay_ns = 0
            self._avg_delay_ns += constants.delay_alpha * (delay_ns - self._avg_delay_ns)

        if ecn and self._ignored_bytes < self._to_ignore_bytes:
            self._inc_bytes = 0.0
            self._received_bytes = 0
            return
        if (self._qa_end_ns is None or now_ns > self._qa_end_ns) and self._end_period(
            delay_ns > constants.qa_threshold_ns, now_ns
        ):
            return

        cwnd = self._cwnd
        target_ns = constants.target_delay_ns
        if not ecn:
            if delay_ns >= target_ns:
                self._inc_bytes += constants.fi * acked_bytes
                self._fast_increasing = False
                self._fast_bytes = 0
            elif delay_ns < constants.fast_increase_delay_ns:
                self._fast_bytes += acked_bytes
                if self._fast_increasing or self._fast_bytes > cwnd:
                    self._fast_increasing = True
                    cwnd += acked_bytes * constants.fi_scale
                else:
                    self._inc_bytes += constants.alpha * acked_bytes * (target_ns - delay_ns)
            else:
                self._fast_increasing = False
                self._fast_bytes = 0
                self._inc_bytes += constants.alpha * acked_bytes * (target_ns - delay_ns)
        elif delay_ns >= target_ns:
            self._fast_increasing = False
            self._fast_bytes = 0
            avg_ns = self._avg_delay_ns
            last_ns = self._last_decrease_ns
            if avg_ns > target_ns and (last_ns is None or now_ns - last_ns > constants.base_rtt_ns):
                factor = 1 - constants.gamma * (avg_ns - target_ns) / avg_ns
                if factor < constants.max_md_jump:
                    factor = constants.max_md_jump
                cwnd *= factor
                self._last_decrease_ns = now_ns
                self.stats.decreases += 1

        if cwnd > constants.max_cwnd_bytes:
            cwnd = constants.max_cwnd_bytes
        elif cwnd < constants.min_cwnd_bytes:
            cwnd = constants.min_cwnd_bytes
        since_ns = now_ns - self._last_adjust_ns
        if self._received_bytes >= constants.adjust_bytes or since_ns >= constants.adjust_period_ns:
            cwnd += self._inc_bytes / cwnd
            if since_ns >= constants.adjust_period_ns:
                cwnd += constants.eta_bytes
                self._last_adjust_ns = now_ns
            self._inc_bytes = 0.0
            self._received_bytes = 0
            if cwnd > constants.max_cwnd_bytes:
                cwnd = constants.max_cwnd_bytes
        self._cwnd = cwnd
        self.cwnd_bytes = int(cwnd) if not self._penalty else self._penalised()

    def on_trim(self, size_bytes: int, last_hop: bool, now_ns: int) -> None:
        """The window loses the packet's bytes."""
        self.stats.trims += 1
        if self._take_off(size_bytes, now_ns):
            self._trigger_qa = True

    def on_loss(self, size_bytes: int, now_ns: int) -> None:
        """As if it had been trimmed: without trimming, loss is what tells of a full queue."""
        self.stats.losses += 1
        self._take_off(size_bytes, now_ns)

    def on_peer_penalty(self, rcv_cwnd_pen: int, restore_cwnd: bool, now_ns: int) -> None:
        """The responder scales the window down, or gives it back as it was before."""
        if rcv_cwnd_pen and not self._penalty:
            self._unpenalised_cwnd = self._cwnd
        self._penalty = min(max(rcv_cwnd_pen, 0), FULL_PENALTY)
        if restore_cwnd:
            self._cwnd = max(
                self._cwnd, min(self._unpenalised_cwnd, float(self.constants.max_cwnd_bytes))
            )
            self._unpenalised_cwnd = 0.0
        self._publish()

    # --- parts ---

    def _take_off(self, size_bytes: int, now_ns: int) -> bool:
        """Bytes did not arrive. False: they were in flight at a quick adapt, or called for one."""
        self._ignored_bytes += size_bytes
        if self._ignored_bytes < self._to_ignore_bytes:
            self._inc_bytes = 0.0
            self._received_bytes = 0
            return False
        if (self._qa_end_ns is None or now_ns > self._qa_end_ns) and self._end_period(True, now_ns):
            return False
        self._fast_increasing = False
        self._fast_bytes = 0
        self._cwnd = max(self._cwnd - size_bytes, float(self.constants.min_cwnd_bytes))
        self._publish()
        return True

    def _end_period(self, congested: bool, now_ns: int) -> bool:
        """A period of quick adapt is over, or the first begins. True: the window was adapted."""
        constants = self.constants
        achieved_bytes = self._achieved_bytes
        adapt = (
            self._qa_end_ns is not None
            and (congested or self._trigger_qa)
            and achieved_bytes < constants.qa_gate_bytes
            and not self.config.disable_qa
        )
        if adapt:
            self._cwnd = float(max(achieved_bytes, constants.min_cwnd_bytes))
            self._to_ignore_bytes = self.inflight_bytes
            self._ignored_bytes = 0
            self._inc_bytes = 0.0
            self._received_bytes = 0
            self._fast_increasing = False
            self._fast_bytes = 0
            self.stats.quick_adapts += 1
            self._publish()
        # What was trimmed in a period speaks for that period only
        self._trigger_qa = False
        self._achieved_bytes = 0
        self._qa_end_ns = now_ns + constants.base_rtt_ns + constants.target_delay_ns
        return adapt

    def _measure_base_rtt(self, rtt_ns: int) -> NsccConstants:
        """A sample where nobody told the base RTT: the least one is it."""
        constants = self.constants
        if self._base_rtt_known and rtt_ns >= constants.base_rtt_ns:
            return constants
        first = not self._base_rtt_known
        self._base_rtt_known = True
        constants = scaled(self.config, self.network, max(rtt_ns, 1))
        self.constants = constants
        if first and self.config.initial_cwnd is None:
            # The window had been that of a network that this is not; keep the part that is left
            self._cwnd *= constants.max_cwnd_bytes / self._assumed_max_cwnd_bytes
        self._cwnd = float(min(max(self._cwnd, constants.min_cwnd_bytes), constants.max_cwnd_bytes))
        return constants

    def _penalised(self) -> int:
        scaled_down = self._cwnd * (FULL_PENALTY - self._penalty) / FULL_PENALTY
        return max(int(scaled_down), self.constants.min_cwnd_bytes)

    def _publish(self) -> None:
        self.cwnd_bytes = self._penalised() if self._penalty else int(self._cwnd)


@dataclass(slots=True)
class NsccStats:
    """What moved the window down, and how often."""

    decreases: int = 0
    quick_adapts: int = 0
    trims: int = 0
    losses: int = 0
