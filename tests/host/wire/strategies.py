"""Hypothesis strategies for packets of every kind, all fields over their whole range."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

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
    Ack,
    CCState,
    EndpointRequest,
    EndpointResponse,
    Envelope,
    Ethernet,
    ImmDt,
    Ipv6,
    Nack,
    Opcode,
    Packet,
    Probe,
    Sack,
    Srh,
    Udp,
    Write,
)
from host.wire.constants import IMMEDIATE_OPCODES, ROCE_V2_UDP_PORT, WRITE_OPCODES
from host.wire.layouts import LAYOUTS, VALUES, Header, Kind
from topologies.traffic_class import DEFAULT_TRAFFIC_CLASSES

_TRIMMED = (DEFAULT_TRAFFIC_CLASSES.trimmed, DEFAULT_TRAFFIC_CLASSES.trimmed_lasthop)


def headers(kind: type[Header], **fixed: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Headers of a kind, every value as its layout allows."""
    values: dict[str, st.SearchStrategy[Any]] = {}
    for field in LAYOUTS[kind].fields:
        if field.kind in VALUES:
            low, high = field.limits
            values[field.name] = (
                st.booleans() if field.kind is Kind.FLAG else st.integers(low, high)
            )
    made: Any = kind
    return st.builds(made, **values | fixed)


macs = st.integers(0, 2**48 - 1)
addresses = st.integers(0, 2**128 - 1)
untrimmed_dscps = st.integers(0, 63).filter(lambda dscp: dscp not in _TRIMMED)
ipv6_headers = st.builds(
    Ipv6,
    src=addresses,
    dst=addresses,
    traffic_class=st.builds(lambda dscp, ecn: dscp << 2 | ecn, untrimmed_dscps, st.integers(0, 3)),
    flow_label=st.integers(0, 2**20 - 1),
    hop_limit=st.integers(0, 255),
)


@st.composite
def srhs(draw: st.DrawFn) -> Srh:
    segments = draw(st.lists(addresses, min_size=1, max_size=4))
    return Srh(
        tuple(segments),
        draw(st.integers(0, len(segments))),
        draw(st.integers(0, 255)),
        draw(st.integers(0, 65535)),
        draw(st.binary(max_size=3)) * 8,
    )


@st.composite
def envelopes(draw: st.DrawFn) -> Envelope:
    outer = draw(st.none() | ipv6_headers)
    return Envelope(
        draw(st.builds(Ethernet, macs, macs)),
        outer,
        draw(ipv6_headers),
        Udp(draw(st.integers(0, 65535)), ROCE_V2_UDP_PORT),
        None if outer is None else draw(st.none() | srhs()),
    )


@st.composite
def writes(draw: st.DrawFn, payloads: st.SearchStrategy[bytes] = st.binary(max_size=64)) -> Write:  # noqa: B008
    opcode = draw(st.sampled_from(sorted(WRITE_OPCODES)))
    return Write(
        draw(envelopes()),
        draw(headers(BTH, opcode=st.just(opcode))),
        draw(headers(METH)),
        draw(st.none() | headers(TSETH)),
        draw(headers(RETH)),
        draw(headers(ImmDt)) if opcode in IMMEDIATE_OPCODES else None,
        draw(payloads),
    )


def _control(kind: Any, opcode: Opcode, *parts: type[Header]) -> st.SearchStrategy[Any]:
    return st.builds(
        kind,
        envelopes(),
        headers(BTH, opcode=st.just(opcode)),
        *(headers(part) for part in parts),
    )


control_packets: st.SearchStrategy[Packet] = st.one_of(
    _control(Ack, Opcode.ACKNOWLEDGE, AETH),
    _control(Sack, Opcode.RELIABILITY_SACK, SETH, CCState),
    _control(Nack, Opcode.RELIABILITY_NACK, NETH),
    _control(Probe, Opcode.RELIABILITY_PROBE_REQUEST, PETH),
    _control(EndpointRequest, Opcode.ENDPOINT_REQUEST, ERTH),
    _control(EndpointResponse, Opcode.ENDPOINT_RESPONSE, EETH),
)
packets: st.SearchStrategy[Packet] = st.one_of(writes(), control_packets)
