"""The vectors as this package's codec sees them, and what makes them good vectors."""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import Any

import pytest

from host.wire import (
    AETH,
    BTH,
    EETH,
    ERTH,
    METH,
    NETH,
    PETH,
    RETH,
    SETH,
    TSETH,
    CCState,
    Envelope,
    Ethernet,
    ImmDt,
    Ipv6,
    Opcode,
    Packet,
    Srh,
    Trimmed,
    Udp,
    Write,
    decode,
    encode,
)
from host.wire.constants import TRIM_BYTES
from host.wire.layouts import LAYOUTS, Header, Kind
from tests.host.wire.vectors import ALL, TRIMMED, VECTORS, WHOLE, Vector

HEADERS: dict[str, type[Header]] = {
    "bth": BTH,
    "meth": METH,
    "tseth": TSETH,
    "reth": RETH,
    "immdt": ImmDt,
    "aeth": AETH,
    "seth": SETH,
    "cc_state": CCState,
    "neth": NETH,
    "peth": PETH,
    "erth": ERTH,
    "eeth": EETH,
}


def _mac(text: str) -> int:
    return int(text.replace(":", ""), 16)


def _ipv6(values: dict[str, Any]) -> Ipv6:
    return Ipv6(
        src=int(IPv6Address(values["src"])),
        dst=int(IPv6Address(values["dst"])),
        traffic_class=int(values["traffic_class"], 0),
        flow_label=int(values["flow_label"], 0),
        hop_limit=values["hop_limit"],
    )


def envelope_of(vector: Vector) -> Envelope:
    below = vector.below
    srh = below.get("srh")
    return Envelope(
        Ethernet(_mac(below["ethernet"]["dst"]), _mac(below["ethernet"]["src"])),
        _ipv6(below["outer"]) if "outer" in below else None,
        _ipv6(below["inner"]),
        Udp(
            int(below["udp"]["src_port"], 0),
            below["udp"]["dst_port"],
            int(below["udp"]["checksum"], 0),
        ),
        srh
        and Srh(
            tuple(int(IPv6Address(address)) for address in srh["segments"]),
            srh["segments_left"],
            srh["flags"],
            int(srh["tag"], 0),
        ),
    )


def header_of(name: str, values: dict[str, int]) -> Header:
    header: Any = HEADERS[name]
    kinds = {field.name: field.kind for field in LAYOUTS[header].fields}
    made: Header = header(
        **{
            field: bool(value) if kinds[field] is Kind.FLAG else value
            for field, value in values.items()
            if field in header._fields
        }
    )
    return made


def headers_in(packet: Packet) -> dict[str, Any]:
    names: dict[Any, str] = {header: name for name, header in HEADERS.items()}
    return {names[type(part)]: part for part in packet if type(part) in names}


@pytest.mark.parametrize("vector", ALL, ids=lambda vector: vector.name)
def test_decodes_to_the_values(vector: Vector) -> None:
    packet = decode(vector.frame)
    assert type(packet).__name__ == vector.kind
    assert packet.envelope == envelope_of(vector)
    assert headers_in(packet) == {
        name: header_of(name, values) for name, values in vector.transport.items()
    }
    if isinstance(packet, Write):
        assert packet.payload == vector.payload
    if isinstance(packet, Trimmed):
        assert packet.rest == vector.rest
        assert packet.original_bytes == vector.original_bytes
        assert packet.payload_bytes == vector.payload_bytes
        bth = vector.transport["bth"]
        assert (packet.pad, packet.ts) == (bth["pad"], bth["ts"])


@pytest.mark.parametrize("vector", ALL, ids=lambda vector: vector.name)
def test_encodes_to_the_same_bytes(vector: Vector) -> None:
    assert encode(decode(vector.frame)) == vector.frame


def test_there_is_one_for_every_opcode() -> None:
    assert len(ALL) == len(list(VECTORS.iterdir())) > len(Opcode)
    assert {vector.transport["bth"]["opcode"] for vector in WHOLE} == set(Opcode)


@pytest.mark.parametrize("vector", ALL, ids=lambda vector: vector.name)
def test_values_are_distinct(vector: Vector) -> None:
    # Else a decoder that mixes two of them up would pass
    values = [
        (header, field, value)
        for header, fields in vector.transport.items()
        for field, value in fields.items()
        if value.bit_length() > 2
        # BTH.PSN repeats these
        and (header, field) not in {("seth", "cack_psn"), ("neth", "nack_psn")}
    ]
    assert len({value for *_, value in values}) == len(values)


@pytest.mark.parametrize("header", HEADERS)
def test_every_flag_is_set_alone_in_one(header: str) -> None:
    flags = [field.name for field in LAYOUTS[HEADERS[header]].fields if field.kind is Kind.FLAG]
    for flag in flags:
        assert any(
            vector.transport[header][flag] == 1
            and sum(vector.transport[header][other] for other in flags) == 1
            for vector in ALL
            if header in vector.transport
        ), f"{header}.{flag} is nowhere set alone"


def test_every_kind_of_padding_is_there() -> None:
    assert {vector.transport["bth"]["pad"] for vector in WHOLE} == {0, 1, 2, 3}


def test_trimmed_ones_are_as_long_as_a_switch_leaves_them() -> None:
    lengths = {vector.name: len(vector.frame) for vector in TRIMMED}
    assert lengths.pop("trimmed_plain_ipv6") == TRIM_BYTES - 40
    assert lengths.pop("trimmed_within_reth") < TRIM_BYTES
    assert set(lengths.values()) == {TRIM_BYTES}
