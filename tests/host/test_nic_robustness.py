"""Malformed and malicious frames: never an exception, never a byte of memory that is not granted.

Three attackers: noise, a stranger who can send well-formed packets, and the peer itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from host.adapter import MAX_PORT_CONTROL_FRAMES
from host.config import EXPONENTIAL_RETRIES_FOR_EVER, ForwardingMode, QpDefaults
from host.nic import Nic
from host.profiles import MrcProfiles, PlainProfiles, Profiles
from host.qp.queue_pair import QueuePair
from host.qp.reliability_probes import MAX_PROBES
from host.qp.responder import MAX_WAITING_ANSWERS
from host.qp.states import QpState
from host.qp.work import WriteRequest
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
    ImmDt,
    Nack,
    Opcode,
    Packet,
    Probe,
    Sack,
    Write,
    encode,
    trim,
)
from host.wire.constants import IMMEDIATE_OPCODES, WRITE_OPCODES
from tests.host.network import Faults, Network, pair
from tests.host.peer import MTU, PEER_QP, RQ_PSN, SQ_PSN, Peer

relaxed = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))

u8, u16, u24, u32 = (st.integers(0, 2**bits - 1) for bits in (8, 16, 24, 32))


def near(*centres: int, spread: int = 140, bits: int = 24) -> st.SearchStrategy[int]:
    """Numbers near something that matters, or anywhere."""
    close = st.tuples(st.sampled_from(centres), st.integers(-spread, spread))
    return st.one_of(
        close.map(lambda pair: (pair[0] + pair[1]) % 2**bits), st.integers(0, 2**bits - 1)
    )


psns = near(SQ_PSN, RQ_PSN, SQ_PSN + 2**23)
msns = near(0, 2**15, spread=5, bits=16)
flags = st.booleans()
#: Of the smallest path selection and congestion control, and of EV sets, NSCC and fan-in
profiles = st.sampled_from([PlainProfiles, MrcProfiles])


@dataclass(frozen=True)
class Attack:
    """A packet, and how it is sent."""

    kind: type[Packet]
    values: dict[str, Any]
    payload: bytes
    ecn: int
    ev: int
    dscp: str
    cut: bool
    stranger: bool
    port: int
    after_ns: int


kinds: dict[type[Packet], dict[str, st.SearchStrategy[Any]]] = {
    Write: {
        "opcode": st.sampled_from(sorted(WRITE_OPCODES)),
        "psn": psns,
        "msn": msns,
        "rqmsn": msns,
        "va": st.one_of(st.integers(-200, 400), st.integers(0, 2**64 - 1)),
        "right_key": st.sampled_from([True, True, True, False]),
        "dma_length": st.one_of(st.none(), st.none(), st.integers(0, 400), u32),
        "imm": u32,
        "rtx": flags,
        "ack_request": flags,
        "timestamp": st.one_of(st.none(), u16),
    },
    Sack: {
        "m": st.integers(0, 3),
        "pr": flags,
        "ack_psn_offset": st.integers(-(2**15), 2**15 - 1),
        "entropy": u32,
        "right": st.sampled_from([True, True, True, False]),
        "cack_psn": psns,
        "mpr": u8,
        "sack_offset": st.one_of(st.integers(-70, 140), st.integers(-(2**15), 2**15 - 1)),
        "sack_bitmap": st.one_of(st.integers(0, 255), st.integers(0, 2**64 - 1)),
        "timestamp": u16,
        "penalty": st.integers(0, 127),
        "restore": flags,
    },
    Nack: {
        "reason": st.one_of(st.sampled_from([1, 2, 6, 7, 10, 11]), u8),
        "entropy": st.one_of(st.integers(0, 15), u32),
        "right": st.sampled_from([True, True, False]),
        "psn": psns,
        "timestamp": u16,
    },
    Ack: {"syndrome": st.one_of(st.sampled_from([0, 0x1F]), u8), "msn": near(0, spread=5)},
    Probe: {"probe_id": u16, "right": flags, "timestamp": u16},
    EndpointRequest: {"id": u24, "op": st.integers(0, 3), "mask": u32, "timestamp": u16},
    EndpointResponse: {"id": u24, "op": st.integers(0, 3), "timestamp": u16},
}

attacks = st.sampled_from(sorted(kinds, key=lambda kind: kind.__name__)).flatmap(
    lambda kind: st.builds(
        Attack,
        kind=st.just(kind),
        values=st.fixed_dictionaries(kinds[kind]),
        payload=st.one_of(
            st.binary(max_size=MTU + 2), st.sampled_from([bytes(MTU), b"x", bytes(MTU - 1)])
        ),
        ecn=st.integers(0, 3),
        ev=st.one_of(st.integers(0, 15), u32),
        dscp=st.sampled_from(["trimmable", "control", "trimmed", "trimmed_lasthop"]),
        cut=flags,
        stranger=st.just(False),
        port=st.integers(0, 3),
        after_ns=st.sampled_from([0, 0, 100, 50_000]),
    )
)


def frame_of(attack: Attack, peer: Peer, *, src: int | None = None) -> bytes:
    """The frame of an attack on the queue pair of `peer.nic`."""
    values = attack.values
    traffic = peer.nic.config.traffic
    dscp = getattr(traffic, attack.dscp)
    envelope = peer.envelope(dscp, attack.ecn, attack.ev, src)
    number = peer.qp.number
    here = number & 0xFFFF
    there = PEER_QP & 0xFFFF if values.get("right", True) else 0x1234
    packet: Packet
    if attack.kind is Write:
        opcode = Opcode(values["opcode"])
        va = values["va"] + peer.region.va if abs(values["va"]) < 1000 else values["va"]
        timestamp = values["timestamp"]
        length = values["dma_length"]
        packet = Write(
            envelope,
            BTH(opcode, number, values["psn"], values["ack_request"], values["rtx"]),
            METH(values["rqmsn"], values["msn"]),
            None if timestamp is None else TSETH(timestamp),
            RETH(
                va,
                peer.region.rkey if values["right_key"] else 0x5555,
                len(attack.payload) if length is None else length,
            ),
            ImmDt(values["imm"]) if opcode in IMMEDIATE_OPCODES else None,
            attack.payload,
        )
    elif attack.kind is Sack:
        packet = Sack(
            envelope,
            BTH(Opcode.RELIABILITY_SACK, number, values["cack_psn"]),
            SETH(
                values["m"],
                values["pr"],
                values["ack_psn_offset"],
                values["entropy"],
                there,
                here,
                values["cack_psn"],
                values["mpr"],
                values["sack_offset"],
                values["sack_bitmap"],
            ),
            CCState(values["timestamp"], 0, values["restore"], values["penalty"], 0),
        )
    elif attack.kind is Nack:
        packet = Nack(
            envelope,
            BTH(Opcode.RELIABILITY_NACK, number, values["psn"]),
            NETH(
                values["reason"], values["entropy"], there, here, values["psn"], values["timestamp"]
            ),
        )
    elif attack.kind is Ack:
        packet = Ack(
            envelope,
            BTH(Opcode.ACKNOWLEDGE, number, 0),
            AETH(values["syndrome"], values["msn"]),
        )
    elif attack.kind is Probe:
        packet = Probe(
            envelope,
            BTH(Opcode.RELIABILITY_PROBE_REQUEST, number, 0),
            PETH(values["probe_id"], there, here, values["timestamp"]),
        )
    elif attack.kind is EndpointRequest:
        packet = EndpointRequest(
            envelope,
            BTH(Opcode.ENDPOINT_REQUEST, 2, values["id"]),
            ERTH(values["op"], values["mask"], values["timestamp"]),
        )
    else:
        packet = EndpointResponse(
            envelope,
            BTH(Opcode.ENDPOINT_RESPONSE, 2, values["id"]),
            EETH(values["op"], values["timestamp"]),
        )
    frame = encode(packet)
    if attack.cut and dscp in (traffic.trimmed, traffic.trimmed_lasthop):
        frame = trim(frame, dscp)
    return frame


def check_bounded(nic: Nic, qp: QueuePair) -> None:
    """State is where the specification and its limits allow it."""
    requestor, responder = qp.requestor, qp.responder
    assert requestor is not None and responder is not None
    attributes = qp.attributes
    assert requestor.controller.inflight_bytes >= 0
    in_flight = sum(
        packet.size_bytes for packet in requestor.flight.packets.values() if packet.in_flight
    ) + (
        requestor.flight.solicit.size_bytes
        if requestor.flight.solicit is not None and requestor.flight.solicit.in_flight
        else 0
    )
    assert requestor.controller.inflight_bytes == in_flight
    assert len(requestor.flight.packets) <= 255 * 128
    assert requestor.flight.una <= requestor.flight.next_psn
    if not attributes.dynamic_mpr:  # a responder may take back what it had granted
        assert requestor.flight._mpr_psns == attributes.mpr_psns
        assert requestor.flight.next_psn <= requestor.flight.edge + 1
    assert requestor.flight.edge == requestor.flight.una - 1 + requestor.flight._mpr_psns
    assert requestor.flight.sacked.bit_length() <= requestor.flight.next_psn - requestor.flight.una
    assert requestor.probes.out() <= MAX_PROBES
    assert responder._bitmap & 1 == 0 or qp.state is QpState.ERROR
    assert responder._bitmap.bit_length() <= attributes.mpr_dest_psns
    assert responder._ends_bitmap & ~responder._bitmap == 0
    assert len(responder._ends) == responder._ends_bitmap.bit_count()
    assert len(responder._answers) <= MAX_WAITING_ANSWERS
    assert all(len(port.control) <= MAX_PORT_CONTROL_FRAMES for port in nic._ports)
    assert set(nic._peers) == {attributes.peer_address}


@relaxed
@given(
    attacks=st.lists(attacks, min_size=1, max_size=60),
    lengths=st.lists(st.integers(1, 5 * MTU), max_size=5),
    receives=st.integers(0, 4),
    make_profiles=profiles,
    forwarding=st.sampled_from(ForwardingMode),
    dynamic_mpr=flags,
)
def test_a_malicious_peer(
    attacks: list[Attack],
    lengths: list[int],
    receives: int,
    make_profiles: Callable[[], Profiles],
    forwarding: ForwardingMode,
    dynamic_mpr: bool,
) -> None:
    peer = Peer(
        profiles=make_profiles(),
        forwarding=forwarding,
        dynamic_mpr=dynamic_mpr,
        max_wimm_dest=2,
        timeout=5,
    )
    secret = bytearray(b"\xa5" * 4096)
    peer.nic.register_memory(secret, pd=1)
    peer.memory[:] = b"\xa5" * 4096
    small = peer.region  # what the peer may write is the first 300 bytes of it
    peer.nic.memory.deregister(small)
    peer.region = peer.nic.register_memory(memoryview(peer.memory)[:300])
    for wr_id in range(receives):
        peer.qp.post_recv(wr_id)
    for wr_id, length in enumerate(lengths):
        peer.post(wr_id, bytes(length), imm=wr_id)
    sends, received = [], []
    for attack in attacks:
        peer.wait(attack.after_ns)
        peer.nic.receive(attack.port, frame_of(attack, peer), peer.now_ns)
        check_bounded(peer.nic, peer.qp)
        sends += peer.send_cq.poll()
        received += peer.recv_cq.poll()
    peer.wait(10_000_000)
    check_bounded(peer.nic, peer.qp)
    sends += peer.send_cq.poll()
    received += peer.recv_cq.poll()
    assert peer.memory[300:] == b"\xa5" * (4096 - 300)
    assert secret == b"\xa5" * 4096
    # Whatever it says, nothing completes twice
    assert [completion.wr_id for completion in sends] == [*range(len(sends))]
    assert [completion.wr_id for completion in received] == [*range(len(received))]
    if peer.qp.state is QpState.ERROR:
        assert (len(sends), len(received)) == (len(lengths), receives)


@settings(relaxed, max_examples=80)
@given(attacks=st.lists(attacks, min_size=1, max_size=40), make_profiles=profiles)
def test_a_stranger_changes_nothing(
    attacks: list[Attack], make_profiles: Callable[[], Profiles]
) -> None:
    peer = Peer(profiles=make_profiles(), timeout=5)
    peer.write(0, b"before", psn=2, msn=2)
    peer.post(1, bytes(3 * MTU))
    peer.sent()
    stranger = peer.peer_config.address + 1

    def state() -> tuple[object, ...]:
        return (
            peer.requestor.flight.una,
            peer.requestor.flight.sacked,
            sorted(peer.requestor.flight.packets),
            peer.requestor.controller.inflight_bytes,
            peer.responder._cack,
            peer.responder._bitmap,
            peer.responder.msn,
            len(peer.responder._answers),
            bytes(peer.memory),
            peer.qp.state,
            peer.qp.planes_up(),
            len(peer.send_cq) + len(peer.recv_cq),
        )

    before = state()
    for attack in attacks:
        peer.nic.receive(attack.port, frame_of(attack, peer, src=stranger), peer.now_ns)
        assert state() == before
    check_bounded(peer.nic, peer.qp)


@relaxed
@given(frames=st.lists(st.binary(max_size=300), max_size=20), port=st.integers(0, 3))
def test_noise(frames: list[bytes], port: int) -> None:
    peer = Peer()
    for frame in frames:
        peer.nic.receive(port, frame, 0)
    assert sum(peer.nic.drops.values()) == len(frames)
    assert peer.sent() == []


@relaxed
@given(
    attack=attacks,
    cuts=st.lists(st.integers(0, 300), max_size=3),
    bits=st.lists(st.tuples(st.integers(0, 299), st.integers(0, 7)), max_size=6),
)
def test_frames_cut_short_and_bits_flipped(
    attack: Attack, cuts: list[int], bits: list[tuple[int, int]]
) -> None:
    peer = Peer()
    peer.memory[:] = b"\xa5" * 4096
    frame = bytearray(frame_of(attack, peer))
    if attack.kind is Write and not bits:
        return
    for at, bit in bits:
        frame[at % len(frame)] ^= 1 << bit
    for cut in cuts:
        peer.nic.receive(0, bytes(frame[:cut]), 0)
    peer.nic.receive(0, bytes(frame), 0)
    peer.wait(1_000_000)
    check_bounded(peer.nic, peer.qp)


class Recorder:
    """Keeps frames of an honest connection and plays them again, much later and out of order."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.frames: list[tuple[Nic, int, bytes]] = []
        network.watch = self.watch

    def watch(self, sender: Nic, port: int, frame: bytes) -> None:
        a, b = self.network.nics
        self.frames.append((b if sender is a else a, port, frame))


def connected(network: Network) -> tuple[QueuePair, QueuePair]:
    near, far = (nic.create_qp(nic.create_cq()) for nic in network.nics)
    told = near.endpoint(), far.endpoint()
    near.connect(told[1])
    far.connect(told[0])
    return near, far


def test_replayed_frames_change_nothing() -> None:
    network = pair(
        seed=3,
        faults=Faults(loss=0.05, trim=0.05, jitter_ns=2000),
        path_mtu_bytes=MTU,
        rate_bps=10**10,
        qp=QpDefaults(exponential_retries=EXPONENTIAL_RETRIES_FOR_EVER),
    )
    recorder = Recorder(network)
    near, far = connected(network)
    memory = bytearray(20_000)
    region = network.nics[1].register_memory(memory)
    near.post_write(WriteRequest(1, bytes(range(250)) * 80, region.va, region.rkey))
    network.run()
    assert memory == bytes(range(250)) * 80
    memory[:] = bytes(20_000)  # the application has moved on
    old = list(recorder.frames)
    near.post_write(WriteRequest(2, b"new", region.va + 100, region.rkey))
    for nic, port, frame in reversed(old):
        network.inject(nic, port, frame, delay_ns=network.rng.randrange(50_000))
    network.run()
    assert memory == bytes(100) + b"new" + bytes(20_000 - 103)
    assert [completion.wr_id for completion in near.send_cq.poll()] == [1, 2]
    assert near.state is far.state is QpState.RTS
