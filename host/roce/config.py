"""Settings of a RoCE NIC that an MRC NIC does not have."""

from __future__ import annotations

from dataclasses import dataclass, field

from host.config import QpDefaults, check_range
from host.congestion.dcqcn import DcqcnConfig

#: More PSNs outstanding cannot be told from duplicates (IBTA volume 1, section 9.7.1)
MAX_WINDOW_PSNS = 1 << 23
#: Of RNR retries: for ever (IBTA volume 1, section 9.7.5.2.8)
RNR_RETRIES_FOR_EVER = 7
MAX_RETRIES = 7

#: RNR NAK timer codes, in units of 10 µs (IBTA volume 1, table 45)
RNR_TIMER_UNIT_NS = 10_000
_RNR_TIMERS = (
    *(65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192),
    *(256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288),
    *(16384, 24576, 32768, 49152),
)


def rnr_timer_ns(code: int) -> int:
    """How long a requestor waits after an RNR NAK with this timer code, 0..31."""
    return _RNR_TIMERS[code] * RNR_TIMER_UNIT_NS


#: Attributes of a RoCE queue pair. 7 retries are what RC applications ask for. The timeout of
#: 1.05 ms is far below theirs (perftest 67 ms), so that the baseline does not suffer from it.
ROCE_QP_DEFAULTS = QpDefaults(
    timeout=10, linear_retries=MAX_RETRIES, exponential_retries=0, sack_packets=16, trim_nack=False
)


@dataclass(frozen=True, slots=True)
class RoceConfig:
    """What a RoCE NIC does. Raises ValueError, naming the field, for what cannot be.

    Attributes:
        dcqcn: of each queue pair; None: no congestion control.
        window_psns: PSNs that may be unacknowledged.
        rnr_retries: after RNR NAKs in a row, without progress; 7: for ever.
        rnr_timer: code of the time that this NIC's RNR NAKs ask for; 1: 10 µs.
        cnp_interval_ns: least time between two CNPs of a queue pair (Zhu et al., section 3.1).
    """

    dcqcn: DcqcnConfig | None = field(default_factory=DcqcnConfig)
    window_psns: int = MAX_WINDOW_PSNS
    rnr_retries: int = RNR_RETRIES_FOR_EVER
    rnr_timer: int = 1
    cnp_interval_ns: int = 50_000

    def __post_init__(self) -> None:
        for name, low, high in (
            ("window_psns", 1, MAX_WINDOW_PSNS),
            ("rnr_retries", 0, RNR_RETRIES_FOR_EVER),
            ("rnr_timer", 0, len(_RNR_TIMERS) - 1),
            ("cnp_interval_ns", 0, 10**9),
        ):
            check_range(name, getattr(self, name), low, high)
