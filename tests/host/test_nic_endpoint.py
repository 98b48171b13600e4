"""Endpoint operations and the probes that paths ask for."""

from __future__ import annotations

import pytest

from host.config import TIMEOUT_UNIT_NS, ForwardingMode
from host.nic import QpEvEvent
from host.paths.base import EvEvent
from host.paths.round_robin import FixedReverseEvs
from host.qp.endpoint import MAX_REQUESTS, MAX_TOLD, EndpointResult
from host.qp.states import QpState
from host.wire import (
    BTH,
    EETH,
    ERTH,
    EndpointOp,
    EndpointRequest,
    EndpointResponse,
    Opcode,
    Probe,
)
from tests.host.listener import ListenerProfiles
from tests.host.peer import Peer
from topologies.addressing import AddressingError, encode_ev

UNIT = TIMEOUT_UNIT_NS << 5


def request(
    peer: Peer, op: int, mask: int = 0, *, src: int | None = None, at: int = 0, request_id: int = 9
) -> None:
    peer.receive(
        EndpointRequest(
            peer.envelope(src=src),
            BTH(Opcode.ENDPOINT_REQUEST, 2, request_id),
            ERTH(op, mask, at),
        )
    )


def respond(peer: Peer, asked: EndpointRequest, **changes: int) -> None:
    op = changes.get("op", asked.erth.op)
    peer.receive(
        EndpointResponse(
            peer.envelope(src=changes.get("src")),
            BTH(Opcode.ENDPOINT_RESPONSE, 2, changes.get("request_id", asked.bth.psn)),
            EETH(op, asked.erth.tx_timestamp),
        ),
        port=3,
    )


class TestRequests:
    def test_ev_probe(self) -> None:
        peer = Peer()
        peer.now_ns = 5_000
        ev = encode_ev(2, 1)
        request_id = peer.nic.probe_ev(peer.peer_config.address, ev, peer.now_ns, dscp=4)
        ((port, asked),) = [(port, packet) for port, packet in zip([2], peer.sent(), strict=True)]
        assert isinstance(asked, EndpointRequest)
        assert (asked.envelope.ev, port, asked.envelope.dscp) == (ev, 2, 4)
        assert asked.bth.psn == request_id and asked.bth.dest_qp == 2
        assert asked.erth.op == EndpointOp.EV_PROBE
        peer.now_ns += 4_321
        respond(peer, asked)
        assert peer.nic.next_event() == EndpointResult(
            asked.bth.psn, EndpointOp.EV_PROBE, peer.peer_config.address, ev, 4_321, 3
        )
        respond(peer, asked)
        assert peer.nic.next_event() is None
        assert peer.wait(10**9) == []

    def test_without_an_answer_it_times_out(self) -> None:
        peer = Peer()
        peer.nic.probe_ev(peer.peer_config.address, 0, 0)
        assert len(peer.wait(10**9)) == 1
        result = peer.nic.next_event()
        assert isinstance(result, EndpointResult) and result.rtt_ns is None

    @pytest.mark.parametrize("wrong", [{"op": 0}, {"request_id": 77}, {"src": 5}])
    def test_a_response_to_something_else(self, wrong: dict[str, int]) -> None:
        peer = Peer()
        peer.nic.probe_ev(peer.peer_config.address, 0, 0)
        (asked,) = peer.sent_of(EndpointRequest)
        respond(peer, asked, **wrong)
        assert peer.nic.drops["endpoint response to nothing"] == 1
        assert peer.nic.next_event() is None

    def test_wrong_addresses_and_evs(self) -> None:
        peer = Peer()
        with pytest.raises(ValueError, match="no QP is connected"):
            peer.nic.probe_ev(1, 0, 0)
        with pytest.raises(AddressingError):
            peer.nic.probe_ev(peer.peer_config.address, 1 << 31, 0)
        assert peer.wait(10**9) == []

    def test_unanswered_requests_are_bounded(self) -> None:
        peer = Peer()
        ids = {peer.nic.probe_ev(peer.peer_config.address, 0, 0) for _ in range(MAX_REQUESTS)}
        assert len(ids) == MAX_REQUESTS and None not in ids
        assert peer.nic.probe_ev(peer.peer_config.address, 0, 0) is None


class TestResponses:
    @pytest.mark.parametrize("op", EndpointOp)
    def test_every_request_is_answered(self, op: EndpointOp) -> None:
        peer = Peer()
        request(peer, op, 0b11110, at=0xBEEF, request_id=0x1234)
        (answer,) = peer.sent_of(EndpointResponse)
        assert answer.bth == BTH(Opcode.ENDPOINT_RESPONSE, 2, 0x1234)
        assert answer.eeth == (op, 0xBEEF)
        assert answer.envelope.inner.dst == peer.peer_config.address
        assert answer.envelope.dscp == peer.nic.config.traffic.control

    def test_strangers_are_answered_and_not_remembered(self) -> None:
        peer = Peer()
        stranger = peer.peer_config.address + 1  # h3
        request(peer, EndpointOp.EV_PROBE, src=stranger)
        (answer,) = peer.sent_of(EndpointResponse)
        assert answer.envelope.inner.dst == stranger
        assert peer.nic.peer(stranger) is None
        request(peer, EndpointOp.EV_PROBE, src=stranger + 100)  # no host at all
        request(peer, 3)
        assert peer.sent() == []
        assert peer.nic.drops["endpoint request without answer"] == 2

    def test_only_a_peer_changes_planes(self) -> None:
        peer = Peer()
        assert peer.qp.evs is not None
        request(peer, EndpointOp.PORT_STATUS_UPDATE, 0, src=peer.peer_config.address + 1)
        assert peer.qp.evs.usable_planes() == 0b1111
        request(peer, EndpointOp.PORT_STATUS_UPDATE, 0b00110)
        assert peer.qp.evs.usable_planes() == 0b0011
        request(peer, EndpointOp.PORT_STATUS_UPDATE, 0xFFFFFFFF)
        assert peer.qp.evs.usable_planes() == 0b1111

    def test_an_older_update_that_comes_late_is_passed_over(self) -> None:
        peer = Peer()
        assert peer.qp.evs is not None
        request(peer, EndpointOp.PORT_STATUS_UPDATE, 0b00110, at=1)
        request(peer, EndpointOp.PORT_STATUS_UPDATE, 0b11110, at=0xFFFF)
        assert peer.qp.evs.usable_planes() == 0b0011
        # Timestamps come round: after a while any is new
        peer.now_ns += 5_000_000
        request(peer, EndpointOp.PORT_STATUS_UPDATE, 0b11110, at=0xFFFF)
        assert peer.qp.evs.usable_planes() == 0b1111

    def test_what_strangers_tell_is_bounded(self) -> None:
        peer = Peer()
        for number in range(MAX_TOLD + 50):
            request(peer, EndpointOp.PORT_STATUS_UPDATE, 2, src=1 << 64 | number)
        assert len(peer.nic._endpoint._told) == MAX_TOLD


class TestProbesOfPaths:
    def test_a_probe_goes_on_its_ev_and_its_answer_is_told(self) -> None:
        profiles = ListenerProfiles()
        peer = Peer(profiles=profiles)
        ev = encode_ev(3, 1)
        profiles.evs.probes = [ev, encode_ev(1, 0)]
        profiles.evs.probe_at_ns = 1_000
        peer.post(1, b"x")
        peer.sent()
        peer.sack(0)  # the core looks at the paths' timer after feedback
        peer.ack(0)
        probes = [packet for _, packet in peer.wait(2_000) if isinstance(packet, Probe)]
        assert [probe.envelope.ev for probe in probes] == [ev, encode_ev(1, 0)]
        peer.sack(0, probe_id=probes[0].peth.probe_id, ev=ev)
        peer.wait(UNIT)
        heard = [entry for entry in profiles.evs.heard if "answer" in str(entry[0])]
        assert heard == [("answer", ev), ("no answer", encode_ev(1, 0))]
        assert peer.wait(10**9) == []

    def test_changes_of_evs_are_events_of_the_queue_pair(self) -> None:
        profiles = ListenerProfiles()
        peer = Peer(profiles=profiles)
        change = EvEvent(5, encode_ev(3, 1), "GOOD", "SKIP", "SACK M=1")
        profiles.evs.events.append(change)
        peer.post(1, b"x")
        peer.sent()
        peer.sack(0)
        assert peer.nic.next_event() == QpEvEvent(peer.qp.number, change)
        assert profiles.evs.events == []

    def test_a_probe_on_a_dead_port_is_not_answered(self) -> None:
        profiles = ListenerProfiles()
        peer = Peer(profiles=profiles)
        peer.nic.set_port_up(2, False, 0)
        profiles.evs.probes = [encode_ev(2, 0)]
        profiles.evs.probe_at_ns = 0
        peer.post(1, b"x")
        peer.sent()
        peer.ack(0)
        assert not any(isinstance(packet, Probe) for _, packet in peer.wait(1_000))
        assert ("no answer", encode_ev(2, 0)) in profiles.evs.heard

    def test_a_queue_pair_in_error_probes_no_more(self) -> None:
        profiles = ListenerProfiles()
        peer = Peer(profiles=profiles)
        profiles.evs.probes = [0]
        profiles.evs.probe_at_ns = 5_000
        peer.post(1, b"x")
        peer.sent()
        peer.sack(0)
        peer.qp.modify(QpState.ERROR)
        assert peer.wait(10**9) == []
        assert peer.nic.next_timer() is None and profiles.evs.probes == [0]

    def test_the_reverse_set_probes_too(self) -> None:
        peer = Peer()
        reverse = Reverse([encode_ev(plane, 0) for plane in range(4)])
        known = peer.nic.peer(peer.peer_config.address)
        assert known is not None
        known.reverse = reverse
        reverse.wanted = [encode_ev(1, 1), encode_ev(2, 1)]
        reverse.at_ns = 100
        peer.nic._arm_peer(known)
        sent = [packet for _, packet in peer.wait(200)]
        assert [packet.envelope.ev for packet in sent] == [encode_ev(1, 1), encode_ev(2, 1)]
        assert isinstance(sent[0], EndpointRequest)
        respond(peer, sent[0])
        peer.wait(2 * UNIT)
        assert reverse.told == [("good", encode_ev(1, 1)), ("bad", encode_ev(2, 1))]


class Reverse(FixedReverseEvs):
    """Wants EVs probed at a time."""

    __slots__ = ("at_ns", "told", "wanted")

    def __init__(self, evs: list[int]) -> None:
        super().__init__(evs)
        self.wanted: list[int] = []
        self.at_ns: int | None = None
        self.told: list[tuple[str, int]] = []

    def next_timer(self) -> int | None:
        return self.at_ns

    def next_probe(self, now_ns: int) -> int | None:
        if self.at_ns is None or now_ns < self.at_ns:
            return None
        ev = self.wanted.pop(0)
        if not self.wanted:
            self.at_ns = None
        return ev

    def heard(self, ev: int) -> None:
        pass

    def refresh(self, ev: int, now_ns: int) -> None:
        self.told.append(("good", ev))

    def on_probe_timeout(self, ev: int, now_ns: int) -> None:
        self.told.append(("bad", ev))


@pytest.mark.parametrize("forwarding", [ForwardingMode.STEV, ForwardingMode.ECMP])
@pytest.mark.parametrize(
    "source", [0, 1, 0xFF02 << 112 | 1, (1 << 128) - 1], ids=["::", "::1", "ff02::1", "ffff…"]
)
def test_no_answer_goes_to_many_or_to_nobody(source: int, forwarding: ForwardingMode) -> None:
    """Where a route needs no carrier, anything may stand as the source of a request."""
    peer = Peer(forwarding=forwarding)
    for op in EndpointOp:
        request(peer, op, 0b1111, src=source)
    assert peer.sent() == []
    assert peer.nic.drops["endpoint request without answer"] == len(EndpointOp)
    request(peer, EndpointOp.EV_PROBE, src=(0x2001 << 112) + 5)
    assert len(peer.sent()) == 1
