"""Whole frames: round trips, templates, what is refused and in which words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from ipaddress import IPv6Address
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet6 import IPv6, in6_chksum

from host.wire import (
    BTH,
    METH,
    RETH,
    SETH,
    TSETH,
    Ack,
    CCState,
    DecodeError,
    Decoder,
    EncodeError,
    Envelope,
    FieldError,
    FrameTemplate,
    ImmDt,
    LengthError,
    NotMrcError,
    Opcode,
    Packet,
    Sack,
    Trimmed,
    TruncatedError,
    Udp,
    UdpChecksumError,
    UnknownOpcodeError,
    Write,
    WrongDestinationError,
    decode,
    encode,
    trim,
)
from host.wire.constants import IMMEDIATE_OPCODES, TRIM_BYTES, WRITE_OPCODES
from host.wire.ip import udp_checksum, udp_checksum_is_right
from host.wire.layouts import LAYOUTS, Kind
from tests.host.wire.strategies import envelopes, headers, packets, writes
from tests.host.wire.vectors import ALL, WHOLE, Vector
from topologies.addressing import AddressPlan, HostId, encode_ev
from topologies.traffic_class import DEFAULT_TRAFFIC_CLASSES, TrafficClasses

BY_NAME = {vector.name: vector for vector in ALL}
FIRST = BY_NAME["rdma_write_first"].frame
SACK = BY_NAME["reliability_sack"].frame
PLAIN = BY_NAME["plain_ipv6"].frame
SRH = BY_NAME["srh"].frame


def _decode_write(frame: bytes) -> Write:
    packet = decode(frame)
    assert isinstance(packet, Write)
    return packet


# --- round trips ---------------------------------------------------------------------------------


@given(packets)
def test_decode_gives_back_what_encode_got(packet: Packet) -> None:
    assert decode(encode(packet)) == packet


@given(packets)
def test_a_udp_checksum_is_computed_and_verified(packet: Packet) -> None:
    envelope = packet.envelope
    wanted = replace(envelope, udp=envelope.udp._replace(checksum=1))
    frame = encode(packet._replace(envelope=wanted))
    decoded = decode(frame)
    checksum = decoded.envelope.udp.checksum
    assert checksum != 0
    assert decoded[1:] == packet[1:]
    at = envelope.bth_offset - 2
    with pytest.raises(UdpChecksumError) as caught:
        decode(frame[:at] + (checksum % 0xFFFF + 1).to_bytes(2, "big") + frame[at + 2 :])
    assert caught.value.offset == at


def test_a_udp_checksum_is_verified_in_every_frame() -> None:
    frame = BY_NAME["udp_checksum"].frame
    decoder = Decoder()
    decoder.decode(frame)
    with pytest.raises(UdpChecksumError):
        decoder.decode(_set(frame, len(frame) - 5, frame[-5] ^ 1))


@given(st.binary(min_size=32, max_size=32), st.binary(min_size=8, max_size=99))
def test_udp_checksum_is_what_scapy_computes(addresses: bytes, datagram: bytes) -> None:
    ip = IPv6(src=str(IPv6Address(addresses[:16])), dst=str(IPv6Address(addresses[16:])))
    cleared = _set(datagram, 6, 0, 0)
    checksum = udp_checksum(addresses, datagram)
    assert checksum == (in6_chksum(17, ip, cleared) or 0xFFFF)
    assert udp_checksum_is_right(addresses, _set(datagram, 6, *checksum.to_bytes(2, "big")))


@given(writes(st.binary(min_size=200, max_size=300)), st.sampled_from([12, 16]), st.data())
def test_a_trimmed_packet_decodes_to_what_is_left(
    packet: Write, dscp: int, data: st.DataObject
) -> None:
    whole = encode(packet)
    keep = data.draw(st.none() | st.integers(packet.envelope.bth_offset + 12, len(whole) - 1))
    frame = trim(whole, dscp, keep)
    left = decode(frame)
    assert isinstance(left, Trimmed)
    assert left.bth == packet.bth
    assert left.envelope.dscp == dscp
    assert left.envelope.ecn == packet.envelope.ecn
    assert left.envelope.ev == packet.envelope.ev
    assert left.original_bytes == len(whole)
    assert left.payload_bytes == len(packet.payload)
    for part in ("meth", "tseth", "reth", "immdt"):
        assert getattr(left, part) in (None, getattr(packet, part))
    if keep is None:
        assert (left.meth, left.tseth, left.reth, left.immdt) == packet[2:6]
    assert encode(left) == frame


@given(packets, st.binary(min_size=1, max_size=46))
def test_ethernet_padding_is_passed_over(packet: Packet, padding: bytes) -> None:
    assert decode(encode(packet) + padding) == packet


def test_other_buffers_than_bytes() -> None:
    expected = decode(FIRST)
    assert decode(bytearray(FIRST)) == expected  # type: ignore[arg-type]
    assert decode(memoryview(FIRST)) == expected  # type: ignore[arg-type]


def test_a_payload_is_a_view_of_the_frame() -> None:
    packet = decode(FIRST)
    assert isinstance(packet, Write)
    assert isinstance(packet.payload, memoryview)
    assert packet.payload.obj is FIRST


# --- templates -----------------------------------------------------------------------------------

uint16 = st.integers(0, 2**16 - 1)
uint24 = st.integers(0, 2**24 - 1)
uint32 = st.integers(0, 2**32 - 1)


@given(
    envelopes(),
    st.sampled_from(sorted(WRITE_OPCODES)),
    uint24,
    st.lists(st.tuples(uint24, uint16, uint16, st.integers(0, 2**64 - 1)), min_size=1, max_size=3),
    uint32,
    st.none() | uint16,
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.binary(max_size=20),
)
def test_template_writes_what_encode_does(
    envelope: Envelope,
    opcode: Opcode,
    dest_qp: int,
    numbers: list[tuple[int, int, int, int]],
    word: int,
    timestamp: int | None,
    rtx: bool,
    ack_request: bool,
    checksum: bool,
    payload: bytes,
) -> None:
    envelope = replace(envelope, udp=envelope.udp._replace(checksum=int(checksum)))
    template = FrameTemplate(envelope)
    immdt = word if opcode in IMMEDIATE_OPCODES else None
    for psn, rqmsn, msn, va in numbers:  # the later ones find what the first left in the template
        frame = template.write(
            opcode,
            dest_qp,
            psn,
            rqmsn,
            msn,
            va,
            word ^ 0xFFFF,
            word,
            memoryview(payload),
            tx_timestamp=timestamp,
            immdt=immdt,
            rtx=rtx,
            ack_request=ack_request,
        )
        assert frame == encode(
            Write(
                envelope,
                BTH(opcode, dest_qp, psn, ack_request, rtx),
                METH(rqmsn, msn),
                None if timestamp is None else TSETH(timestamp),
                RETH(va, word ^ 0xFFFF, word),
                None if immdt is None else ImmDt(immdt),
                payload,
            )
        )


@given(envelopes(), uint24, headers(SETH), headers(CCState), st.booleans())
def test_template_sacks_as_encode_does(
    envelope: Envelope, dest_qp: int, seth: SETH, cc_state: CCState, checksum: bool
) -> None:
    envelope = replace(envelope, udp=envelope.udp._replace(checksum=int(checksum)))
    bth = BTH(Opcode.RELIABILITY_SACK, dest_qp, seth.cack_psn)
    frame = FrameTemplate(envelope).sack(dest_qp, seth, cc_state)
    assert frame == encode(Sack(envelope, bth, seth, cc_state))


def test_template_memory_is_bounded() -> None:
    template = FrameTemplate(decode(FIRST).envelope)
    for size in range(0, 4000, 4):
        template.write(Opcode.RDMA_WRITE_ONLY, 1, 2, 3, 4, 5, 6, size, bytes(size))
        template.frame(BTH(Opcode.RDMA_WRITE_ONLY, 1, 2).pack() + bytes(size))
        assert len(template._starts) <= 32
        assert len(template._below) <= 32


def test_decoder_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("host.wire.decoder._CACHE_ENTRIES", 16)
    decoder = Decoder()
    packet = decode(FIRST)
    for port in range(100):
        envelope = replace(packet.envelope, udp=Udp(port))
        assert decoder.decode(encode(packet._replace(envelope=envelope))).envelope == envelope
        assert len(decoder._cache) <= 16


WRITE_ARGUMENTS: dict[str, Any] = {
    "opcode": Opcode.RDMA_WRITE_ONLY_WITH_IMMEDIATE,
    "dest_qp": 1,
    "psn": 2,
    "rqmsn": 3,
    "msn": 4,
    "va": 5,
    "r_key": 6,
    "dma_length": 7,
    "payload": b"seven..",
    "tx_timestamp": 8,
    "immdt": 9,
}


@pytest.mark.parametrize(
    ("argument", "bits", "header", "field"),
    [
        ("dest_qp", 24, "BTH", "dest_qp"),
        ("psn", 24, "BTH", "psn"),
        ("rqmsn", 16, "METH", "rqmsn"),
        ("msn", 16, "METH", "msn"),
        ("va", 64, "RETH", "va"),
        ("r_key", 32, "RETH", "r_key"),
        ("dma_length", 32, "RETH", "dma_length"),
        ("tx_timestamp", 16, "TSETH", "tx_timestamp"),
        ("immdt", 32, "ImmDt", "value"),
    ],
)
def test_template_write_refuses_what_does_not_fit(
    argument: str, bits: int, header: str, field: str
) -> None:
    template = FrameTemplate(decode(FIRST).envelope)
    template.write(**WRITE_ARGUMENTS | {argument: 2**bits - 1})
    for value in (2**bits, -1):
        with pytest.raises(EncodeError) as caught:
            template.write(**WRITE_ARGUMENTS | {argument: value})
        assert (caught.value.header, caught.value.field) == (header, field)


SETH_VALUES = SETH(1, False, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
CC_VALUES = CCState(1, 2, False, 3, 4)


@pytest.mark.parametrize("header", [SETH_VALUES, CC_VALUES], ids=["SETH", "CC_STATE"])
def test_template_sack_refuses_what_does_not_fit(header: Any) -> None:
    template = FrameTemplate(decode(SACK).envelope)
    for field in LAYOUTS[type(header)].fields:
        if field.kind not in (Kind.UNSIGNED, Kind.SIGNED):
            continue
        low, high = field.limits
        for value, fits in ((low, True), (high, True), (low - 1, False), (high + 1, False)):
            changed = header._replace(**{field.name: value})
            arguments = (changed, CC_VALUES) if header is SETH_VALUES else (SETH_VALUES, changed)
            if fits:
                assert decode(template.sack(1, *arguments))[2:] == arguments
                continue
            with pytest.raises(EncodeError) as caught:
                template.sack(1, *arguments)
            # cack_psn is BTH.PSN first of all
            assert caught.value.field == ("psn" if field.name == "cack_psn" else field.name)


# --- the envelope --------------------------------------------------------------------------------


def test_envelope_over_a_path_of_the_addressing_plan() -> None:
    plan = AddressPlan()
    source, destination = HostId(1, 2), HostId(3, 4)
    ev = encode_ev(5, 6)
    envelope = Envelope.over_path(
        dst_mac=1,
        src_mac=2,
        carrier=plan.template(source, destination).address(ev),
        dst=plan.host_address(destination),
        src=plan.host_address(source),
        ev=ev,
        dscp=4,
        ecn=2,
    )
    frame = encode(Ack(envelope, BTH(Opcode.ACKNOWLEDGE, 7, 8), decode_ack_header()))
    decoded = decode(frame).envelope
    assert (decoded.ev, decoded.dscp, decoded.ecn) == (ev, 4, 2)
    assert decoded.outer is not None
    assert plan.path_of_carrier(decoded.outer.dst, source).ev == ev
    assert decoded.outer.flow_label == decoded.inner.flow_label
    assert decoded.bth_offset == 102


def decode_ack_header() -> Any:
    packet = decode(BY_NAME["acknowledge"].frame)
    assert isinstance(packet, Ack)
    return packet.aeth


@given(uint32)
def test_an_ev_travels_in_source_port_and_flow_label(ev: int) -> None:
    envelope = Envelope.over_path(dst_mac=0, src_mac=0, carrier=None, dst=1, src=2, ev=ev, dscp=0)
    assert envelope.udp.src_port == ev & 0xFFFF
    assert envelope.inner.flow_label == ev >> 16
    assert envelope.ev == ev


def test_dscp_and_ecn_are_the_outermost_headers() -> None:
    packet = decode(BY_NAME["rdma_write_first"].frame)
    assert packet.envelope.outer is not None
    assert packet.envelope.dscp == packet.envelope.outer.dscp
    assert packet.envelope.ecn == packet.envelope.outer.ecn == 3
    assert packet.envelope.inner.ecn == 2


def test_an_srh_needs_an_outer_header() -> None:
    envelope = decode(SRH).envelope
    with pytest.raises(ValueError, match="outer IPv6"):
        replace(envelope, outer=None)


@pytest.mark.parametrize(
    ("change", "header", "field"),
    [
        (lambda e: replace(e, ethernet=e.ethernet._replace(dst=2**48)), "Ethernet", "dst"),
        (lambda e: replace(e, ethernet=e.ethernet._replace(src=-1)), "Ethernet", "src"),
        (lambda e: replace(e, outer=e.outer._replace(dst=2**128)), "outer IPv6", "dst"),
        (lambda e: replace(e, outer=e.outer._replace(hop_limit=256)), "outer IPv6", "hop_limit"),
        (lambda e: replace(e, inner=e.inner._replace(src=-1)), "inner IPv6", "src"),
        (
            lambda e: replace(e, inner=e.inner._replace(traffic_class=256)),
            "inner IPv6",
            "traffic_class",
        ),
        (
            lambda e: replace(e, inner=e.inner._replace(flow_label=2**20)),
            "inner IPv6",
            "flow_label",
        ),
        (lambda e: replace(e, udp=Udp(65536)), "UDP", "src_port"),
        (lambda e: replace(e, udp=Udp(1, -1)), "UDP", "dst_port"),
        (lambda e: replace(e, srh=e.srh._replace(segments=())), "SRH", "segments"),
        (lambda e: replace(e, srh=e.srh._replace(segments_left=4)), "SRH", "segments_left"),
        (lambda e: replace(e, srh=e.srh._replace(tag=65536)), "SRH", "tag"),
        (lambda e: replace(e, srh=e.srh._replace(tlvs=b"1234567")), "SRH", "tlvs"),
    ],
)
def test_an_envelope_that_does_not_fit_is_refused(
    change: Callable[[Envelope], Envelope], header: str, field: str
) -> None:
    with pytest.raises(EncodeError) as caught:
        FrameTemplate(change(decode(SRH).envelope))
    assert (caught.value.header, caught.value.field) == (header, field)


def test_a_packet_that_is_too_long_is_refused() -> None:
    packet = _decode_write(FIRST)
    with pytest.raises(EncodeError, match=r"UDP\.length: 65584"):
        encode(packet._replace(payload=bytes(65536)))


def test_opcode_and_kind_must_agree() -> None:
    ack = decode(BY_NAME["acknowledge"].frame)
    with pytest.raises(EncodeError, match=r"BTH\.opcode: 0xca .* 0xd1 in a Ack"):
        encode(ack._replace(bth=ack.bth._replace(opcode=Opcode.RDMA_WRITE_ONLY)))
    write = _decode_write(FIRST)
    with pytest.raises(EncodeError, match=r"BTH\.opcode"):
        encode(write._replace(bth=write.bth._replace(opcode=Opcode.ACKNOWLEDGE)))
    with pytest.raises(EncodeError, match="ImmDt"):
        encode(write._replace(bth=write.bth._replace(opcode=0xC9)))
    with pytest.raises(EncodeError, match="ImmDt"):
        encode(write._replace(immdt=ImmDt(1)))


def test_a_trimmed_packet_lacks_something() -> None:
    left = decode(BY_NAME["trimmed"].frame)
    assert isinstance(left, Trimmed)
    with pytest.raises(EncodeError, match=r"UDP\.length"):
        encode(left._replace(udp_length=40))


# --- what decode refuses -------------------------------------------------------------------------


def _set(frame: bytes, at: int, *values: int) -> bytes:
    return frame[:at] + bytes(values) + frame[at + len(values) :]


@pytest.mark.parametrize(
    ("frame", "error", "header", "offset", "words"),
    [
        (b"", TruncatedError, "Ethernet", 0, "14 bytes are needed, 0 are there"),
        (FIRST[:13], TruncatedError, "Ethernet", 0, "13 are there"),
        (_set(FIRST, 12, 8, 0), NotMrcError, "Ethernet", 12, "EtherType 0x0800"),
        (FIRST[:53], TruncatedError, "IPv6", 14, "40 bytes are needed, 39"),
        (_set(FIRST, 14, 0x40), FieldError, "outer IPv6", 14, "version 4 must be 6"),
        (_set(FIRST, 20, 6), NotMrcError, "outer IPv6", 20, "next header 6"),
        (_set(FIRST, 18, 0, 47), LengthError, "outer IPv6", 18, "less than the 48 bytes"),
        (FIRST[:-1], TruncatedError, "outer IPv6", 14, "the frame has"),
        (_set(FIRST, 54, 0x50), FieldError, "inner IPv6", 54, "version 5"),
        (_set(FIRST, 60, 58), NotMrcError, "inner IPv6", 60, "next header 58"),
        (_set(FIRST, 58, 0, 9), LengthError, "inner IPv6", 58, "is not the UDP length"),
        (_set(FIRST + bytes(8), 19, FIRST[19] + 8), LengthError, "UDP", 98, "8 bytes less than"),
        (_set(FIRST, 96, 0, 53), NotMrcError, "UDP", 96, "destination port 53"),
        (_set(FIRST, 98, 0, 23), LengthError, "UDP", 98, "no room for BTH and ICRC"),
        (_set(FIRST, 18, 0, 100), TruncatedError, "UDP", 94, "DSCP 4 does not say trimmed"),
        (_set(FIRST, 100, 1, 2), UdpChecksumError, "UDP", 100, "0x0102 is wrong"),
        (_set(FIRST, 102, 0x0A), UnknownOpcodeError, "BTH", 102, "0x0a is none of MRC's"),
        (_set(FIRST, 103, 0x81), FieldError, "BTH", 103, "transport version 1"),
        (_set(FIRST, 103, 0x90), Exception, "ICRC", 154, "is"),
        (_set(SACK, 110, 0x10), FieldError, "BTH", 110, "TSETH present"),
        (_set(SACK, 103, 0x10), FieldError, "BTH", 103, "pad count must be 0"),
        (_set(SACK, 114, 0x10), FieldError, "SETH", 114, "type 1 and next 0"),
        (_set(SACK, 102, 0xD1), LengthError, "AETH", 118, "32 bytes follow it"),
        (_set(SRH, 56, 2), NotMrcError, "SRH", 56, "routing type 2"),
        (_set(SRH, 55, 3), LengthError, "SRH", 55, "no room for 2 segments"),
        (_set(SRH, 57, 3), FieldError, "SRH", 57, "segments left 3 is more than 2"),
        (_set(SRH, 54, 17), NotMrcError, "SRH", 54, "next header 17"),
        (PLAIN[:60], TruncatedError, "IPv6", 14, "the frame has 60"),
        (_set(PLAIN, 14, 0x70), FieldError, "IPv6", 14, "version 7"),
    ],
)
def test_errors_say_where_and_what(
    frame: bytes, error: type[DecodeError], header: str, offset: int, words: str
) -> None:
    with pytest.raises(error, match=words) as caught:
        decode(frame)
    assert isinstance(caught.value, DecodeError)
    assert (caught.value.header, caught.value.offset) == (header, offset)
    assert str(caught.value).startswith(f"{header} at byte {offset}: ")


def _shortened(vector: Vector, transport_bytes: int) -> bytes:
    """A whole packet with a right ICRC whose transport part, ICRC included, is shorter."""
    packet = decode(vector.frame)
    offset = packet.envelope.bth_offset
    transport = vector.frame[offset : offset + transport_bytes - 4]
    return FrameTemplate(packet.envelope).frame(transport)


@pytest.mark.parametrize(
    ("name", "transport_bytes", "header", "offset"),
    [
        ("rdma_write_first", 19, "METH", 114),
        ("rdma_write_first", 23, "TSETH", 118),
        ("rdma_write_first", 39, "RETH", 122),
        ("rdma_write_only", 18, "METH", 114),
        ("rdma_write_only", 22, "RETH", 118),
        ("rdma_write_last_with_immediate", 41, "ImmDt", 138),
        ("reliability_sack", 20, "SETH", 114),
        ("reliability_sack", 44, "CC_STATE", 142),
        ("reliability_nack", 33, "NETH", 114),
        ("reliability_probe_request", 17, "PETH", 114),
        ("endpoint_request_ev_probe", 31, "ERTH", 114),
        ("endpoint_response", 51, "EETH", 114),
        ("acknowledge", 16, "AETH", 114),
    ],
)
def test_a_packet_too_short_for_its_headers(
    name: str, transport_bytes: int, header: str, offset: int
) -> None:
    with pytest.raises(TruncatedError) as caught:
        decode(_shortened(BY_NAME[name], transport_bytes))
    assert (caught.value.header, caught.value.offset) == (header, offset)


def test_payload_and_padding_must_go_together() -> None:
    envelope = decode(FIRST).envelope
    template = FrameTemplate(envelope)
    fixed = BTH(Opcode.RDMA_WRITE_ONLY, 1, 2).pack() + METH(1, 2).pack() + RETH(1, 2, 3).pack()
    with pytest.raises(LengthError, match="pad count 0"):
        decode(template.frame(fixed + b"abc"))
    with pytest.raises(LengthError, match="pad count 1"):
        decode(template.frame(_set(fixed, 1, 0x10)))
    packet = decode(template.frame(_set(fixed, 1, 0x10) + b"abc\0"))
    assert isinstance(packet, Write)
    assert packet.payload == b"abc"


def test_a_nic_takes_only_what_is_its_own() -> None:
    for vector in ALL:
        packet = decode(vector.frame)
        own = packet.envelope.inner.dst
        decoder = Decoder(own)
        assert decoder.decode(vector.frame) == packet
        with pytest.raises(WrongDestinationError, match="another NIC's") as caught:
            Decoder(own ^ 1).decode(vector.frame)
        assert caught.value.offset == packet.envelope.bth_offset - 48 + 24


def test_the_udp_port_is_configurable() -> None:
    packet = decode(FIRST)
    envelope = replace(packet.envelope, udp=packet.envelope.udp._replace(dst_port=4000))
    frame = encode(packet._replace(envelope=envelope))
    assert Decoder(udp_port=4000).decode(frame).envelope == envelope
    with pytest.raises(NotMrcError):
        decode(frame)


def test_the_dscps_are_configurable() -> None:
    frame = trim(encode(_decode_write(FIRST)._replace(payload=bytes(100))), 20)
    with pytest.raises(TruncatedError):
        decode(frame)
    classes = TrafficClasses(trimmed=20)
    assert isinstance(Decoder(traffic_classes=classes).decode(frame), Trimmed)


# --- trimming ------------------------------------------------------------------------------------


def test_a_packet_no_longer_than_what_is_kept_comes_whole() -> None:
    probe = BY_NAME["reliability_probe_request"].frame
    assert len(probe) < TRIM_BYTES
    frame = trim(probe, DEFAULT_TRAFFIC_CLASSES.trimmed)
    assert len(frame) == len(probe)
    packet = decode(frame)
    assert packet.envelope.dscp == DEFAULT_TRAFFIC_CLASSES.trimmed
    assert packet[1:] == decode(probe)[1:]


def test_trimming_keeps_all_headers_whatever_the_encapsulation() -> None:
    for frame in (PLAIN, FIRST, SRH):
        packet = _decode_write(frame)
        left = decode(trim(encode(packet._replace(payload=bytes(500))), 12))
        assert isinstance(left, Trimmed)
        assert (left.meth, left.tseth, left.reth) == (packet.meth, packet.tseth, packet.reth)
        assert len(left.rest) == 4  # the place of an ImmDt


@pytest.mark.parametrize("keep", [62, 101, 113])
def test_a_cut_within_the_bth_leaves_nothing_to_decode(keep: int) -> None:
    long = encode(_decode_write(FIRST)._replace(payload=bytes(500)))
    with pytest.raises((TruncatedError, LengthError)):
        decode(trim(long, 12, keep))


# --- robustness ----------------------------------------------------------------------------------


def _survives(decoder: Decoder, frame: bytes) -> None:
    try:
        packet = decoder.decode(frame)
    except DecodeError as error:
        assert 0 <= error.offset <= max(len(frame), 14)
        assert error.header
    else:
        assert packet.envelope.bth_offset + 12 <= len(frame)


@settings(max_examples=300)
@given(st.binary(max_size=300))
def test_random_bytes(frame: bytes) -> None:
    _survives(Decoder(), frame)


@settings(max_examples=300)
@given(st.sampled_from(ALL), st.data())
def test_random_bytes_behind_headers_that_are_right(vector: Vector, data: st.DataObject) -> None:
    keep = data.draw(st.integers(14, len(vector.frame)))
    size = len(vector.frame) - keep
    tail = data.draw(st.binary(min_size=size, max_size=size))
    _survives(Decoder(verify_icrc=False), vector.frame[:keep] + tail)


@pytest.mark.parametrize("vector", ALL, ids=lambda vector: vector.name)
def test_truncation_anywhere(vector: Vector) -> None:
    decoder = Decoder()
    decoder.decode(vector.frame)  # so that what it remembers is tried as well
    for size in range(len(vector.frame)):
        with pytest.raises(TruncatedError):
            decoder.decode(vector.frame[:size])


@pytest.mark.parametrize("vector", ALL, ids=lambda vector: vector.name)
@pytest.mark.parametrize("verify_icrc", [True, False])
def test_every_flipped_bit(vector: Vector, verify_icrc: bool) -> None:
    decoder = Decoder(verify_icrc=verify_icrc)
    for at in range(len(vector.frame)):
        for bit in range(8):
            _survives(decoder, _set(vector.frame, at, vector.frame[at] ^ 1 << bit))


@settings(max_examples=300)
@given(st.sampled_from(WHOLE), st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255))))
def test_random_changes(vector: Vector, changes: list[tuple[int, int]]) -> None:
    frame = bytearray(vector.frame)
    for at, value in changes:
        frame[at % len(frame)] = value
    _survives(Decoder(verify_icrc=False), bytes(frame))
