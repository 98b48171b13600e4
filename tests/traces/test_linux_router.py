"""A Linux router beside the P4 switch: the same packets in, the same bytes out of both.

The kernel's `seg6local action End flavors next-csid lblen 32 nflen 16` is the other implementation
of RFC 9800 here. It runs the tables of `linux_router.trace`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.inet6 import IPv6ExtHdrSegmentRouting as SRH
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from tests.traces.format import CASES, Trace, read
from tests.traces.observation import compare, differences, dump
from tests.traces.targets.in_process import SoftswitchInProcess, make_switch
from tests.traces.targets.linux_router import LinuxRouter, RouterError

pytestmark = pytest.mark.netns

TRACE = read(CASES / "linux_router.trace")
MACS = {1: "02:00:00:00:08:01", 3: "02:00:00:00:08:03"}


@pytest.fixture(scope="module")
def router() -> Iterator[LinuxRouter]:
    if shutil.which("ip") is None:
        pytest.skip("ip is not installed (make setup installs iproute2)")
    try:
        router = LinuxRouter(TRACE)
        router.__enter__()
    except RouterError as error:
        if "seg6local" in str(error):
            pytest.skip(f"this kernel or iproute2 knows no SRv6 NEXT-C-SID: {error}")
        raise
    with router:
        yield router


def test_both_do_what_the_trace_demands(router: LinuxRouter) -> None:
    linux = router.run(TRACE)
    switch = SoftswitchInProcess().run(TRACE)
    assert linux.frames == switch.frames
    linux.counters = switch.counters  # the kernel has no such counters
    assert not list(differences(TRACE, linux))
    assert not list(differences(TRACE, switch))


# ---- packets at random ---------------------------------------------------------------------------

# What the two are not asked to agree on, since the switch is stricter on purpose: a neighbour's
# uSID in front (the kernel has one table for all routes, the switch forwards only what it shifted),
# and an own uSID behind an own one (the kernel goes round again, the switch has no way on).
OWN_USIDS = st.sampled_from([0x0801, 0x0C03])
NEXT_USIDS = st.sampled_from([0x1001, 0x1002, 0x1801, 0x1802, 0x0802, 0x10FF, 0, 1])
UNKNOWN_USIDS = st.sampled_from([0x0802, 0x10FF, 0, 1])
PLAIN = st.sampled_from(["fd00:2::1", "fd00:3::1", "5f01:0:801:1001::"])


def address(usids: list[int]) -> str:
    padded = (usids + [0] * 6)[:6]
    return "5f00:0:" + ":".join(f"{usid:x}" for usid in padded)


def carriers(first: st.SearchStrategy[int]) -> st.SearchStrategy[str]:
    rest = st.one_of(st.lists(NEXT_USIDS, max_size=0), st.lists(NEXT_USIDS, max_size=5))
    return st.builds(lambda usid, others: address([usid, *others]), first, rest)


DESTINATIONS = st.one_of(carriers(OWN_USIDS), carriers(OWN_USIDS), carriers(UNKNOWN_USIDS), PLAIN)
SEGMENTS = st.one_of(carriers(NEXT_USIDS), PLAIN)


@st.composite
def segment_routing_headers(draw: st.DrawFn) -> Packet:
    """SRHs without TLVs; segments left and last entry may be more than there are.

    What stands behind the last entry are TLVs (RFC 8754, section 2.1). The kernel drops a packet in
    which they do not add up, the switch does not look at them: so there are none.
    """
    segments = draw(st.lists(SEGMENTS, min_size=1, max_size=8))
    last = len(segments) - 1
    last_entry = draw(st.one_of(st.just(last), st.integers(last, 9)))
    segments_left = draw(st.integers(0, len(segments) + 1))
    return SRH(addresses=segments, segleft=segments_left, lastentry=last_entry)


@st.composite
def packets(draw: st.DrawFn) -> tuple[int, Packet]:
    """A port, and an IPv6 packet for the router there."""
    port = draw(st.sampled_from(sorted(MACS)))
    outer = IPv6(
        src="fd00:1::1",
        dst=draw(DESTINATIONS),
        hlim=draw(st.one_of(st.integers(0, 3), st.integers(0, 255))),
        tc=draw(st.integers(0, 255)),
        fl=draw(st.integers(0, 0xFFFFF)),
    )
    layers = Ether(src="02:00:00:00:00:01", dst=MACS[port]) / outer
    has_srh = draw(st.booleans())
    if has_srh:
        layers /= draw(segment_routing_headers())
    if draw(st.booleans()):
        layers /= IPv6(src="fd00:1::1", dst="fd00:2::1", hlim=draw(st.integers(0, 255)))
    layers /= UDP(sport=draw(st.integers(0, 65535)), dport=4791, chksum=0)
    # Ten segments fit behind any SRH: a packet that ends within the list that its last entry claims
    # is a parser error to the switch, and to the kernel only where it needs the list.
    least = 160 if has_srh else 0
    size = draw(st.one_of(st.integers(least, 200), st.integers(least, 8192)))
    return port, layers / Raw(bytes(size))


def switch_frames(trace: Trace, inputs: list[tuple[int, bytes]]) -> dict[int, list[bytes]]:
    switch = make_switch(trace)
    frames: dict[int, list[bytes]] = {port: [] for port in trace.ports}
    for port, frame in inputs:
        switch.receive(port, frame, 0)
        for out_port, out in switch.transmit(0):
            frames[out_port].append(out)
    return frames


@given(st.lists(packets(), min_size=1, max_size=10))
# No shrinking: the kernel would be asked for minutes
@settings(max_examples=60, deadline=None, derandomize=True, phases=[Phase.generate])
def test_both_do_the_same_with_any_packets(
    router: LinuxRouter, described: list[tuple[int, Packet]]
) -> None:
    inputs = [(port, bytes(packet)) for port, packet in described]
    ours = switch_frames(TRACE, inputs)
    linux = router.forward(inputs, {port: len(frames) for port, frames in ours.items()})
    for port in TRACE.ports:
        for from_linux, from_us in zip(linux[port], ours[port], strict=False):
            assert from_us == from_linux, f"port {port}:\n{compare(from_linux, from_us)}"
        for who, extra in (
            ("Linux", linux[port][len(ours[port]) :]),
            ("the switch", ours[port][len(linux[port]) :]),
        ):
            assert not extra, f"port {port}: only {who} sent:\n{dump(extra[0])}"
