"""The ICRC against scapy.contrib.roce, an implementation that is none of ours."""

from __future__ import annotations

from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.contrib import roce
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6

from host.wire import DecodeError, IcrcError, decode
from host.wire.icrc import icrc, icrc_of_ip_and_udp, icrc_of_transport
from tests.host.wire.vectors import WHOLE, Vector


def _roce_packet(inner: bytes) -> bytes:
    """The packet from its inner IPv6 header on, rebuilt by scapy.contrib.roce with its own ICRC."""
    ip = IPv6(inner[:40])
    udp = UDP(inner[40:48])
    bth = inner[48:60]
    rebuilt = (
        IPv6(src=ip.src, dst=ip.dst, tc=ip.tc, fl=ip.fl, hlim=ip.hlim)
        / UDP(sport=udp.sport, dport=udp.dport, chksum=udp.chksum)
        / roce.BTH(
            opcode=bth[0],
            solicited=bth[1] >> 7,
            migreq=bth[1] >> 6 & 1,
            padcount=bth[1] >> 4 & 3,
            version=bth[1] & 15,
            pkey=int.from_bytes(bth[2:4], "big"),
            fecn=bth[4] >> 7,
            becn=bth[4] >> 6 & 1,
            resv6=bth[4] & 63,
            dqpn=int.from_bytes(bth[5:8], "big"),
            ackreq=bth[8] >> 7,
            resv7=bth[8] & 127,
            psn=int.from_bytes(bth[9:12], "big"),
        )
        / inner[60:-4]
    )
    return bytes(rebuilt)


def _inner(vector: Vector) -> bytes:
    return vector.frame[decode(vector.frame).envelope.bth_offset - 48 :]


@pytest.mark.parametrize("vector", WHOLE, ids=lambda vector: vector.name)
def test_is_what_roce_computes(vector: Vector) -> None:
    inner = _inner(vector)
    assert _roce_packet(inner) == inner
    assert icrc(inner[:-4]) == inner[-4:]


@given(st.binary(min_size=12, max_size=200))
def test_is_the_crc_of_the_masked_packet(transport: bytes) -> None:
    headers = WHOLE[0].frame[54:102]
    masked = bytearray(b"\xff" * 8 + headers + transport)
    for at in (9, 10, 11, 8 + 7, 8 + 46, 8 + 47, 8 + 48 + 4):
        masked[at] = 0xFF
    masked[8] |= 0x0F
    assert icrc_of_transport(transport, icrc_of_ip_and_udp(headers)) == crc32(masked)


#: Bytes that may change on the way, from the inner IPv6 header: traffic class and flow label, hop
#: limit, UDP checksum, BTH's variant byte
_MASKED = {1, 2, 3, 7, 46, 47, 52}
_HEADERS_BYTES = 60  # IPv6, UDP, BTH

_WITHOUT_CHECKSUM = [v for v in WHOLE if v.below["udp"]["checksum"] == "0x0000"]


@pytest.mark.parametrize("vector", _WITHOUT_CHECKSUM, ids=lambda vector: vector.name)
def test_every_flipped_bit_that_it_covers_is_noticed(vector: Vector) -> None:
    inner_offset = decode(vector.frame).envelope.bth_offset - 48
    for at in range(inner_offset, len(vector.frame)):
        place = at - inner_offset
        for bit in range(8):
            if place in _MASKED or (place == 0 and bit < 4):
                continue
            corrupted = bytearray(vector.frame)
            corrupted[at] ^= 1 << bit
            with pytest.raises(DecodeError) as caught:
                decode(bytes(corrupted))
            # Up to the BTH a header may be wrong in itself, before it comes to the ICRC
            if vector.kind == "Write" and place >= _HEADERS_BYTES:
                assert isinstance(caught.value, IcrcError)


@pytest.mark.parametrize("vector", _WITHOUT_CHECKSUM, ids=lambda vector: vector.name)
def test_what_changes_on_the_way_is_not_covered(vector: Vector) -> None:
    inner_offset = decode(vector.frame).envelope.bth_offset - 48
    for place in _MASKED - {46, 47}:  # a UDP checksum other than 0 would have to be right
        changed = bytearray(vector.frame)
        changed[inner_offset + place] ^= 0xFF
        assert decode(bytes(changed))[1:] == decode(vector.frame)[1:]


def test_can_be_left_unverified() -> None:
    vector = next(vector for vector in WHOLE if vector.kind == "Write")
    corrupted = vector.frame[:-1] + bytes([vector.frame[-1] ^ 1])
    with pytest.raises(IcrcError) as caught:
        decode(corrupted)
    assert caught.value.header == "ICRC"
    assert caught.value.offset == len(corrupted) - 4
    assert decode(corrupted, verify_icrc=False) == decode(vector.frame)
