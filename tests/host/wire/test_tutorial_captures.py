"""The captures in docs/captures hold what docs/tutorial.md says of them."""

from __future__ import annotations

from ipaddress import IPv6Address
from pathlib import Path

from scapy.utils import RawPcapReader

from host.wire import Nack, Probe, Sack, Trimmed, Write, decode
from host.wire.constants import NackReason

CAPTURES = Path(__file__).parents[3] / "docs" / "captures"
MACS = range(12)
HOP_LIMIT = 21
OUTER_DESTINATION = slice(38, 54)
USIDS = range(42, 50)
TRIM_BYTES = 142


def frames(name: str) -> list[bytes]:
    with RawPcapReader(str(CAPTURES / name)) as reader:
        return [data for data, _ in reader]


def test_one_packet_changes_in_its_outer_header_only() -> None:
    *hops, answer = frames("one-packet.pcap")
    carriers = [
        "5f00:0:800:1001:801:1801::",
        "5f00:0:1001:801:1801::",
        "5f00:0:801:1801::",
        "5f00:0:1801::",
    ]
    assert [str(IPv6Address(hop[OUTER_DESTINATION])) for hop in hops] == carriers
    assert [hop[HOP_LIMIT] for hop in hops] == [64, 63, 62, 61]
    changed = {at for at, (a, b) in enumerate(zip(hops[0], hops[-1], strict=True)) if a != b}
    assert changed <= {*MACS, HOP_LIMIT, *USIDS}
    sack = decode(answer)
    assert isinstance(sack, Sack)
    assert sack.seth.cack_psn == decode(hops[0]).bth.psn == 14007212


def test_a_trimmed_packet_is_asked_for_and_sent_again() -> None:
    captured = frames("trimmed-packet.pcap")
    first, trimmed, nack, again, sack = map(decode, captured)
    assert isinstance(first, Write) and isinstance(again, Write)
    assert isinstance(trimmed, Trimmed) and isinstance(nack, Nack) and isinstance(sack, Sack)
    assert len(captured[1]) == TRIM_BYTES
    assert trimmed.original_bytes == len(captured[0])
    assert nack.neth.reason == NackReason.TRIMMED_LASTHOP
    assert first.bth.psn == trimmed.bth.psn == nack.neth.nack_psn == again.bth.psn == 9047581
    assert again.bth.rtx and again.reth.va == first.reth.va
    assert again.payload == first.payload


def test_probes_are_answered_three_times() -> None:
    packets = [decode(frame) for frame in frames("probes.pcap")]
    probes = [packet for packet in packets if isinstance(packet, Probe)]
    answers = [packet for packet in packets if isinstance(packet, Sack)]
    assert [probe.peth.probe_id for probe in probes] == list(range(1, 11))
    assert [answer.seth.ack_psn_offset for answer in answers] == [8, 9, 10]
    assert all(answer.seth.pr and answer.seth.entropy == 0 for answer in answers)
    assert all(answer.envelope.ev != 0 for answer in answers)
