"""Overflow at a rate-limited port, in virtual time: nothing is lost that is not counted.

Bursts of any size, of any mix of data and control, into a port of any rate with any limits. See
`test_overflow_real_time.py` for the same on real interfaces.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.contrib.roce import BTH
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.inet6 import IPv6ExtHdrSegmentRouting as SRH
from scapy.layers.l2 import Ether

from softswitch.switch import Switch
from softswitch.tables import ActionCall, Entry
from tests.roce import bth_of
from tests.traces.frames import WRITE_ONLY, WRITE_ONLY_IMM, mrc
from tests.traces.targets.in_process import loaded

IN, OUT = 1, 3
TRIMMABLE, RETX, NO_TRIM, UNLISTED = 4, 8, 0, 5
CONTROL_CLASS = CONTROL, TRIMMED, TRIMMED_LASTHOP = 46, 12, 16
ECT_0, CE = 2, 3
KEPT_BYTES = 142
ETHERNET_BYTES, IPV6_BYTES = 14, 40
ADMISSION = "FabricIngress.admission"


@dataclass(frozen=True)
class QueueSetup:
    """The port under test. Rate in bits per second; ECN as (min, max, probability of 65536)."""

    rate_bps: int | None
    data_limit: int
    control_limit: int
    trimmed_dscp: int = TRIMMED
    ecn: tuple[int, int, int] | None = None
    seed: int = 0


class Overflow:
    """A switch with one way out, and everything that came out of it with its time of departure."""

    def __init__(self, setup: QueueSetup) -> None:
        self.setup = setup
        self.switch = Switch(seed=setup.seed, priority_queues=2)
        self.switch.add_port(IN)
        self.switch.add_port(OUT, rate_bps=setup.rate_bps)
        self.pipeline = self.switch.load(loaded("fabric"))
        self.out: list[tuple[int, bytes]] = []
        self.received = 0
        tables: Mapping[str, Mapping[int, tuple[str | int, ...]]] = {
            "FabricIngress.srv6.my_sid": {0x5F0000000801: ("FabricIngress.srv6.un",)},
            "FabricIngress.srv6.next_sid": {0x5F0000001001: ("FabricIngress.srv6.to_port", OUT)},
            f"{ADMISSION}.traffic_class": {
                **dict.fromkeys(CONTROL_CLASS, (f"{ADMISSION}.set_control",)),
                **dict.fromkeys((TRIMMABLE, RETX), (f"{ADMISSION}.set_trimmable",)),
                NO_TRIM: (f"{ADMISSION}.set_no_trim",),
            },
            f"{ADMISSION}.port_queue": {
                OUT: (
                    f"{ADMISSION}.set_limits",
                    setup.data_limit,
                    setup.control_limit,
                    setup.trimmed_dscp,
                )
            },
            f"{ADMISSION}.trim_size": {41: (f"{ADMISSION}.keep", KEPT_BYTES)},
            f"{ADMISSION}.ecn_marking": (
                {OUT: (f"{ADMISSION}.set_marking", *setup.ecn)} if setup.ecn else {}
            ),
        }
        for table, entries in tables.items():
            for match, (name, *args) in entries.items():
                assert isinstance(name, str)
                self.pipeline.tables[table].insert(
                    Entry((match,), ActionCall(name, tuple(int(arg) for arg in args)))
                )

    def receive(self, frame: bytes, now_ns: int) -> None:
        self._collect(now_ns)
        self.switch.receive(IN, frame, now_ns)
        self.received += 1

    def drain(self, now_ns: int) -> None:
        """Let time pass until everything is out."""
        self._collect(now_ns)
        while (timer := self.switch.next_timer()) is not None:
            now_ns = max(now_ns, timer)
            self._collect(now_ns)

    def _collect(self, now_ns: int) -> None:
        while (timer := self.switch.next_timer()) is not None and timer <= now_ns:
            self.out += [(timer, frame) for _, frame in self.switch.transmit(timer)]
        self.out += [(now_ns, frame) for _, frame in self.switch.transmit(now_ns)]

    @property
    def frames(self) -> list[bytes]:
        return [frame for _, frame in self.out]

    def count(self, name: str) -> int:
        """Packets in a counter, over all ports."""
        (array,) = (a for n, a in self.pipeline.counters.items() if n.endswith(f".{name}"))
        return sum(array.read(index)[0] for index in range(array.size))

    def occupancy(self, kind: str) -> int:
        return sum(self.pipeline.registers[f"{kind}_occupancy_bytes"].values)

    def assert_nothing_lost(self) -> None:
        """Sent = whole + trimmed; received = sent + counted drops; the books are closed at 0."""
        drops = sum(
            self.count(name)
            for name in ("dropped_data_full", "dropped_control_full", "dropped_no_queue")
        )
        assert self.count("received") == self.received
        assert self.count("sent_data") + self.count("sent_control") == len(self.frames)
        assert len(self.frames) + drops == self.received
        assert self.occupancy("data") == 0
        assert self.occupancy("control") == 0
        stats = self.switch.stats()
        assert stats.unaccounted == 0
        assert stats.queued == 0
        # Only the program drops: the queues behind it were deep enough
        assert set(stats.dropped) <= {"ingress_drop"}


def dscp_of(frame: bytes) -> int:
    return (frame[14] & 0x0F) << 2 | frame[15] >> 6


def ecn_of(frame: bytes) -> int:
    return frame[15] >> 4 & 3


def write(
    number: int,
    size: int | None,
    dscp: int,
    ecn: int = 0,
    *,
    immediate: bool = False,
    segments: int = 0,
) -> bytes:
    """An MRC write in a uSID carrier, `number` being its PSN; with an SRH if it has segments.

    Without payload it is 142 bytes long, without an SRH. `size` None leaves out everything behind
    the BTH: 118 bytes, less than trimming keeps.
    """
    outer = IPv6(src="fd00:1::1", dst="5f00:0:801:1001:802::", tc=dscp << 2 | ecn, fl=7, hlim=64)
    inner = IPv6(src="fd00:1::1", dst="fd00:2::1", tc=TRIMMABLE << 2, fl=7, hlim=64)
    header = Ether(src="02:00:00:00:0a:01", dst="02:00:00:00:08:01") / outer
    if segments:
        header /= SRH(addresses=["5f00:0:802::"] * segments, segleft=0, lastentry=segments - 1)
    opcode = WRITE_ONLY_IMM if immediate else WRITE_ONLY
    if size is None:
        bth = BTH(opcode=opcode, pkey=0xFFFF, dqpn=0x11, psn=number)
        return bytes(header / inner / UDP(sport=0xC001, dport=4791, chksum=0) / bth)
    return bytes(header / inner / mrc(opcode, psn=number, size=size))


@dataclass(frozen=True)
class Sent:
    """A packet of a burst: payload size in bytes, gap to the one before it in ns."""

    size: int | None
    dscp: int
    ecn: int
    immediate: bool
    segments: int
    gap_ns: int


PACKETS = st.builds(
    Sent,
    # From packets below what trimming keeps to jumbo
    size=st.sampled_from([None, 0, 1, 3, 4, 5, 100, 1024, 4096, 4096, 8192]),
    dscp=st.sampled_from(
        [TRIMMABLE] * 4 + [RETX, RETX, NO_TRIM, UNLISTED, CONTROL, TRIMMED, TRIMMED_LASTHOP]
    ),
    ecn=st.integers(0, 3),
    immediate=st.booleans(),
    segments=st.sampled_from([0, 0, 0, 1, 3]),
    gap_ns=st.sampled_from([0, 0, 0, 0, 100, 10_000, 1_000_000]),
)
SETUPS = st.builds(
    QueueSetup,
    rate_bps=st.sampled_from([None, 1_000_000, 100_000_000, 10_000_000_000, 800_000_000_000]),
    data_limit=st.sampled_from([0, 100, 142, 4300, 20_000, 100_000, 10_000_000]),
    control_limit=st.sampled_from([0, 141, 142, 1000, 20_000, 10_000_000]),
    trimmed_dscp=st.sampled_from([TRIMMED, TRIMMED_LASTHOP]),
    ecn=st.sampled_from([None, (0, 0, 0), (5_000, 50_000, 32_768)]),
    seed=st.integers(0, 3),
)


@given(SETUPS, st.lists(PACKETS, min_size=1, max_size=60), st.sampled_from([1, 1, 5]))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_any_burst_is_accounted_for(setup: QueueSetup, burst: Sequence[Sent], rounds: int) -> None:
    """Whole, trimmed or counted as dropped: every packet, and each in the form that is due."""
    overflow = Overflow(setup)
    originals: dict[int, bytes] = {}
    now_ns = 0
    for _ in range(rounds):
        for packet in burst:
            number = len(originals)
            originals[number] = write(
                number,
                packet.size,
                packet.dscp,
                packet.ecn,
                immediate=packet.immediate,
                segments=packet.segments,
            )
            now_ns += packet.gap_ns
            overflow.receive(originals[number], now_ns)
    overflow.drain(now_ns)
    overflow.assert_nothing_lost()

    forms: Counter[str] = Counter()
    for frame in overflow.frames:
        forms[form_of(frame, originals, setup)] += 1
    trimmed_on_the_way = overflow.count("trimmed") - forms["trimmed"]
    assert (
        trimmed_on_the_way >= 0
    )  # those found no room in the control class, and are counted there
    assert trimmed_on_the_way <= overflow.count("dropped_control_full")
    assert forms["trimmed"] + forms["control"] == overflow.count("sent_control")
    assert forms["data"] == overflow.count("sent_data")
    # Each at most once
    psns = [psn_of(frame) for frame in overflow.frames]
    assert len(set(psns)) == len(psns)


def psn_of(frame: bytes) -> int:
    return int(bth_of(Ether(frame)).psn)


def form_of(frame: bytes, originals: dict[int, bytes], setup: QueueSetup) -> str:
    """Check a frame that came out against what went in; "data", "control" or "trimmed"."""
    packet = Ether(frame)
    original = originals[psn_of(frame)]
    went_in = Ether(original)
    outer, outer_in = packet[IPv6], went_in[IPv6]
    inner, inner_in = packet.getlayer(IPv6, 2), went_in.getlayer(IPv6, 2)
    assert outer.dst == "5f00:0:1001:802::"
    assert outer.hlim == outer_in.hlim - 1
    assert outer.fl == outer_in.fl
    # What the outer length says is what is there: every frame is a well-formed IPv6 packet
    assert outer.plen == len(frame) - ETHERNET_BYTES - IPV6_BYTES
    # Inner lengths as they were: they tell the first size
    assert inner.plen == inner_in.plen
    assert packet[UDP].len == went_in[UDP].len
    assert inner.tc == inner_in.tc
    assert bytes(packet[UDP].payload)[:12] == bytes(went_in[UDP].payload)[:12]
    behind = slice(ETHERNET_BYTES + IPV6_BYTES, None)
    kind = dscp_of(original)
    if kind in CONTROL_CLASS:
        assert frame[behind] == original[behind]
        assert outer.tc == outer_in.tc  # neither trimmed nor marked
        return "control"
    if dscp_of(frame) == kind:
        assert frame[behind] == original[behind]
        if ecn_of(frame) != ecn_of(original):
            assert ecn_of(original) in (1, 2)
            assert ecn_of(frame) == CE
            assert setup.ecn is not None
        return "data"
    assert kind in (TRIMMABLE, RETX)
    assert dscp_of(frame) == setup.trimmed_dscp
    assert ecn_of(frame) == ecn_of(original)
    srh_bytes = len(bytes(went_in[SRH])) - len(bytes(went_in[SRH].payload)) if SRH in went_in else 0
    assert len(frame) == min(KEPT_BYTES + srh_bytes, len(original))
    # All of METH, TSETH, RETH, and ImmDt where there is one, is kept
    assert frame[behind] == original[behind][: len(frame) - ETHERNET_BYTES - IPV6_BYTES]
    return "trimmed"


# ---- single properties ---------------------------------------------------------------------------


def test_a_burst_comes_out_partly_whole_and_partly_trimmed() -> None:
    """The scene of the README: 100 jumbo writes at once into 1 Gb/s with room for 12 more."""
    overflow = Overflow(QueueSetup(10**9, data_limit=53_000, control_limit=100_000))
    for number in range(100):
        overflow.receive(write(number, 4096, TRIMMABLE), 0)
    overflow.drain(0)
    overflow.assert_nothing_lost()
    whole = [frame for frame in overflow.frames if len(frame) > KEPT_BYTES]
    trimmed = [frame for frame in overflow.frames if len(frame) == KEPT_BYTES]
    # One was on the wire already; 12 of 4,238 bytes fit in the limit
    assert len(write(0, 4096, TRIMMABLE)) == 4238
    assert (len(whole), len(trimmed)) == (13, 87)
    assert sorted(psn_of(frame) for frame in overflow.frames) == list(range(100))
    assert overflow.count("dropped_data_full") == overflow.count("dropped_control_full") == 0


def test_no_trim_data_over_the_limit_is_dropped_and_counted() -> None:
    overflow = Overflow(QueueSetup(10**9, data_limit=10_000, control_limit=10_000))
    for number in range(20):
        overflow.receive(write(number, 4096, NO_TRIM), 0)
    overflow.drain(0)
    overflow.assert_nothing_lost()
    assert len(overflow.frames) == 3
    assert overflow.count("dropped_data_full") == 17
    assert overflow.count("trimmed") == 0


def test_a_flood_of_control_fills_its_own_limit_only() -> None:
    overflow = Overflow(QueueSetup(10**9, data_limit=50_000, control_limit=1_500))
    for number in range(50):
        overflow.receive(write(number, 0, CONTROL), 0)  # 142 bytes
    for number in range(50, 55):
        overflow.receive(write(number, 4096, TRIMMABLE), 0)
    overflow.drain(0)
    overflow.assert_nothing_lost()
    assert overflow.count("sent_control") == 1 + 1_500 // 142
    assert overflow.count("dropped_control_full") == 50 - 11
    assert overflow.count("sent_data") == 5


def test_trimmed_packets_without_room_in_the_control_class_are_counted() -> None:
    overflow = Overflow(QueueSetup(10**9, data_limit=5_000, control_limit=300))
    for number in range(30):
        overflow.receive(write(number, 4096, TRIMMABLE), 0)
    overflow.drain(0)
    overflow.assert_nothing_lost()
    assert overflow.count("trimmed") == 28
    assert overflow.count("sent_control") == 2
    assert overflow.count("dropped_control_full") == 26


def test_registers_reset_while_packets_wait_do_not_shut_the_port() -> None:
    """A control plane may write a register at any time; what leaves afterwards was not counted."""
    overflow = Overflow(QueueSetup(rate_bps=10**9, data_limit=50_000, control_limit=10_000))
    for number in range(8):
        overflow.receive(write(number, 4096, TRIMMABLE), 0)
        overflow.receive(write(100 + number, 64, CONTROL), 0)
    for kind in ("data", "control"):
        assert overflow.occupancy(kind) > 0
        register = overflow.pipeline.registers[f"{kind}_occupancy_bytes"]
        register.values[:] = [0] * len(register.values)
    overflow.drain(0)
    overflow.receive(write(8, 4096, TRIMMABLE), 10**9)
    overflow.receive(write(108, 64, CONTROL), 10**9)
    overflow.drain(10**9)
    overflow.assert_nothing_lost()
    assert overflow.count("trimmed") == 0


def test_control_overtakes_all_waiting_data() -> None:
    """Strict priority: control that comes last leaves right behind the frame on the wire."""
    overflow = Overflow(QueueSetup(10**9, data_limit=10**6, control_limit=10**6))
    for number in range(20):
        overflow.receive(write(number, 4096, TRIMMABLE), 0)
    for number in range(20, 25):
        overflow.receive(write(number, 0, CONTROL), 0)
    overflow.drain(0)
    overflow.assert_nothing_lost()
    order = [psn_of(frame) for frame in overflow.frames]
    assert order == [0, 20, 21, 22, 23, 24, *range(1, 20)]


def test_the_link_rate_is_kept() -> None:
    """The last bit of n frames is out after n times (bytes + 24) * 8 / rate."""
    overflow = Overflow(QueueSetup(10**9, data_limit=10**6, control_limit=10**6))
    frames = [write(number, 4096, TRIMMABLE) for number in range(20)]
    for frame in frames:
        overflow.receive(frame, 0)
    overflow.drain(0)
    assert [at_ns for at_ns, _ in overflow.out] == [
        (number + 1) * (len(frames[0]) + 24) * 8 for number in range(20)
    ]


# ---- ECN -----------------------------------------------------------------------------------------


def marked(overflow: Overflow) -> set[int]:
    return {psn_of(frame) for frame in overflow.frames if ecn_of(frame) == CE}


def test_marking_starts_at_min_and_is_sure_from_max_on() -> None:
    """A burst fills the queue a frame at a time; min and max are ten frames."""
    size = len(write(0, 4096, TRIMMABLE))
    setup = QueueSetup(10**9, 10**6, 10**6, ecn=(10 * size, 10 * size, 65_535))
    overflow = Overflow(setup)
    for number in range(30):
        overflow.receive(write(number, 4096, TRIMMABLE, ECT_0), 0)
    overflow.drain(0)
    # Number 0 is on the wire at once; number n finds n - 1 waiting
    assert marked(overflow) == set(range(11, 30))
    assert overflow.count("marked_ce") == 19


@pytest.mark.parametrize("ecn", [0, CE])
def test_what_is_not_ect_is_never_marked(ecn: int) -> None:
    overflow = Overflow(QueueSetup(10**9, 10**6, 10**6, ecn=(0, 0, 0)))
    for number in range(10):
        overflow.receive(write(number, 4096, TRIMMABLE, ecn), 0)
    overflow.drain(0)
    assert all(ecn_of(frame) == ecn for frame in overflow.frames)
    assert overflow.count("marked_ce") == 0


def test_control_is_never_marked_however_much_waits() -> None:
    overflow = Overflow(QueueSetup(10**9, 10**6, 10**6, ecn=(0, 0, 0)))
    for number in range(10):
        overflow.receive(write(number, 4096, TRIMMABLE), 0)
    for number in range(10, 20):
        overflow.receive(write(number, 64, CONTROL, ECT_0), 0)
    overflow.drain(0)
    assert not marked(overflow)


def test_a_port_without_thresholds_never_marks() -> None:
    """So do ports that face hosts."""
    overflow = Overflow(QueueSetup(10**9, 10**6, 10**6, ecn=None))
    for number in range(50):
        overflow.receive(write(number, 4096, TRIMMABLE, ECT_0), 0)
    overflow.drain(0)
    assert not marked(overflow)


def test_trimmed_packets_are_not_marked() -> None:
    overflow = Overflow(QueueSetup(10**9, 5_000, 10**6, ecn=(0, 0, 0)))
    for number in range(20):
        overflow.receive(write(number, 4096, TRIMMABLE, ECT_0), 0)
    overflow.drain(0)
    assert marked(overflow) == {0, 1}
    assert overflow.count("trimmed") == 18


@pytest.mark.parametrize(
    ("occupancy", "max_probability", "expected"),
    [
        (100_000, 65_535, 0.0),
        (125_000, 65_535, 0.25),
        (150_000, 65_535, 0.5),
        (150_000, 32_768, 0.25),
        (199_999, 32_768, 0.5),
        (175_000, 6_554, 0.075),
    ],
)
def test_probability_rises_in_a_line(occupancy: int, max_probability: int, expected: float) -> None:
    """4,000 draws at one occupancy, with a fixed seed: within 4 standard deviations."""
    draws = 4_000
    setup = QueueSetup(None, 10**7, 10**6, ecn=(100_000, 200_000, max_probability), seed=1)
    overflow = Overflow(setup)
    register = overflow.pipeline.registers["data_occupancy_bytes"]
    register.values[OUT] = occupancy  # an idle port gives back what it is charged: it stays so
    frame = write(0, 64, TRIMMABLE, ECT_0)
    for now_ns in range(draws):
        overflow.receive(frame, now_ns)
    deviation = (draws * expected * (1 - expected)) ** 0.5
    assert abs(overflow.count("marked_ce") - draws * expected) <= 4 * deviation
    assert register.values[OUT] == occupancy
