"""RoCE frames against scapy.contrib.roce, an implementation that is none of ours."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.contrib import roce
from scapy.layers.inet6 import UDP, IPv6
from scapy.layers.l2 import Ether

from host.roce.packet import (
    Ack,
    Bth,
    Cnp,
    Opcode,
    RoceDecoder,
    Write,
    ack_frame,
    cnp_frame,
    write_frame,
)
from host.roce.path import RocePath, flow_label, udp_source_port
from host.wire.errors import (
    DecodeError,
    IcrcError,
    LengthError,
    NotMrcError,
    TruncatedError,
    UnknownOpcodeError,
)
from host.wire.headers import AETH, RETH, ImmDt
from tests.host.network import config
from tests.roce import bth_of

RETH_VALUES = RETH(0x0102030405060708, 0xAABBCCDD, 0x00010203)
FIRST, MIDDLE, LAST = (
    Opcode.RDMA_WRITE_FIRST,
    Opcode.RDMA_WRITE_MIDDLE,
    Opcode.RDMA_WRITE_LAST,
)
KINDS: list[tuple[Opcode, RETH | None, int | None, bytes]] = [
    (FIRST, RETH_VALUES, None, bytes(range(64))),
    (MIDDLE, None, None, bytes(range(64))),
    (LAST, None, None, b"abc"),
    (Opcode.RDMA_WRITE_LAST_WITH_IMMEDIATE, None, 0x11223344, b"abcd"),
    (Opcode.RDMA_WRITE_ONLY, RETH_VALUES, None, b"a"),
    (Opcode.RDMA_WRITE_ONLY_WITH_IMMEDIATE, RETH_VALUES, 0x11223344, b"ab"),
]


def path() -> RocePath:
    return RocePath(config("h0"), config("h2").address, 0x123456, 0x654321)


def data_frame(opcode: Opcode, reth: RETH | None, imm: int | None, payload: bytes) -> bytes:
    return write_frame(path().data, Bth(opcode, 0x654321, 0xABCDEF, True), reth, imm, payload)


def rebuilt(frame: bytes) -> bytes:
    """The frame, built once more by scapy with its own lengths and ICRC."""
    packet = Ether(frame)
    bth = bth_of(packet)
    del packet[IPv6].plen
    del packet[UDP].len
    bth.icrc = None
    # A zero checksum means none; scapy would compute one
    packet[UDP].chksum = 0
    return bytes(packet)


@pytest.mark.parametrize(("opcode", "reth", "imm", "payload"), KINDS)
def test_data_packets(opcode: Opcode, reth: RETH | None, imm: int | None, payload: bytes) -> None:
    frame = data_frame(opcode, reth, imm, payload)
    assert rebuilt(frame) == frame
    packet = Ether(frame)
    bth: Any = bth_of(packet)
    assert roce._bth_opcodes[bth.opcode] == f"RC_{opcode.name}"
    assert (bth.dqpn, bth.psn, bth.ackreq, bth.version, bth.pkey) == (
        0x654321,
        0xABCDEF,
        1,
        0,
        0xFFFF,
    )
    assert (bth.becn, bth.fecn, bth.padcount) == (0, 0, -len(payload) % 4)
    behind = b""
    if reth is not None:
        behind += struct.pack("!QII", *reth)
    if imm is not None:
        behind += struct.pack("!I", imm)
    assert bytes(bth.payload) == behind + payload + bytes(bth.padcount)
    assert packet[UDP].dport == 4791
    assert packet[IPv6].tc & 3 == 2  # ECT(0)

    decoded = RoceDecoder().decode(frame)
    assert isinstance(decoded, Write)
    assert decoded.bth == Bth(opcode, 0x654321, 0xABCDEF, True)
    assert decoded.reth == reth
    assert decoded.immdt == (None if imm is None else ImmDt(imm))
    assert bytes(decoded.payload) == payload


@pytest.mark.parametrize("syndrome", [0x1F, 0x21, 0x60, 0x61, 0x62, 0x63])
def test_acks_and_naks(syndrome: int) -> None:
    frame = ack_frame(path().answers, 0x654321, 0xABCDEF, AETH(syndrome, 0x010203))
    assert rebuilt(frame) == frame
    packet = Ether(frame)
    bth = bth_of(packet)
    assert roce._bth_opcodes[bth.opcode] == "RC_ACKNOWLEDGE"
    aeth = bth[roce.AETH]
    assert (aeth.syndrome, aeth.msn) == (syndrome, 0x010203)
    decoded = RoceDecoder().decode(frame)
    assert isinstance(decoded, Ack)
    assert decoded.aeth == AETH(syndrome, 0x010203)


def test_cnps() -> None:
    frame = cnp_frame(path().cnps, 0x654321)
    assert rebuilt(frame) == frame
    packet = Ether(frame)
    ours = bth_of(packet)
    theirs = roce.cnp(0x654321)
    for name in ("opcode", "becn", "fecn", "dqpn", "psn", "ackreq", "padcount"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert bytes(ours.payload) == bytes(theirs.payload) == bytes(16)
    # In the class of control, and never marked itself
    assert packet[IPv6].tc == config("h0").traffic.control << 2
    assert isinstance(RoceDecoder().decode(frame), Cnp)


def test_one_flow_label_and_one_source_port_for_each_queue_pair() -> None:
    first = Ether(data_frame(*KINDS[0]))
    label = flow_label(0x123456, 0x654321)
    assert first[IPv6].fl == label == flow_label(0x654321, 0x123456)
    assert first[UDP].sport == udp_source_port(label) >= 0xC000
    labels = {flow_label(0x123456, other) for other in range(0x11, 0x111)}
    ports = {udp_source_port(label) for label in labels}
    assert len(labels) > 250 and len(ports) > 230


def test_planes_are_shared_evenly_by_queue_pairs() -> None:
    near, far = config("h0"), config("h2")
    planes = [RocePath(near, far.address, number, number + 7).port for number in range(17, 1041)]
    for plane in range(len(near.ports)):
        assert planes.count(plane) == pytest.approx(256, abs=64)


class TestRefused:
    @given(st.binary(max_size=200))
    def test_noise(self, noise: bytes) -> None:
        with pytest.raises(DecodeError):
            RoceDecoder().decode(noise)

    @given(st.sampled_from(KINDS), st.data())
    def test_any_bit_that_the_icrc_covers(
        self, kind: tuple[Opcode, RETH | None, int | None, bytes], data: st.DataObject
    ) -> None:
        frame = bytearray(data_frame(*kind))
        # From the addresses on, but not BTH byte 4, which may change on the way
        byte = data.draw(
            st.integers(22, len(frame) - 1).filter(lambda byte: byte not in (60, 61, 66))
        )
        frame[byte] ^= 1 << data.draw(st.integers(0, 7))
        with pytest.raises(DecodeError):
            RoceDecoder().decode(bytes(frame))

    def test_a_wrong_icrc(self) -> None:
        frame = bytearray(data_frame(*KINDS[0]))
        frame[-1] ^= 1
        with pytest.raises(IcrcError):
            RoceDecoder().decode(bytes(frame))

    def test_the_end_cut_off(self) -> None:
        decoder = RoceDecoder()
        frame = data_frame(*KINDS[0])
        decoder.decode(frame)
        # Twice: from the wire, and with the headers remembered
        with pytest.raises(TruncatedError):
            decoder.decode(frame[:-8])

    @pytest.mark.parametrize(
        ("transport", "error"),
        [
            (Bth(0xCA, 1, 1).pack() + bytes(24), UnknownOpcodeError),
            (Bth(Opcode.ACKNOWLEDGE, 1, 1).pack() + bytes(8), LengthError),
            (Bth(Opcode.ACKNOWLEDGE, 1, 1).pack(pad=1) + bytes(4), LengthError),
            (Bth(Opcode.CNP, 1, 1).pack() + bytes(12), LengthError),
            (Bth(FIRST, 1, 1).pack() + bytes(12), TruncatedError),
            (Bth(MIDDLE, 1, 1).pack(pad=1), LengthError),
        ],
    )
    def test_wrong_lengths_and_opcodes(self, transport: bytes, error: type[DecodeError]) -> None:
        with pytest.raises(error):
            RoceDecoder().decode(path().data.frame(transport))

    def test_a_packet_in_a_packet(self) -> None:
        frame = data_frame(*KINDS[0])
        outer = frame[14:18] + (len(frame) - 14).to_bytes(2, "big") + b"\x29\x40" + frame[22:54]
        with pytest.raises(NotMrcError):
            RoceDecoder().decode(frame[:14] + outer + frame[14:])
