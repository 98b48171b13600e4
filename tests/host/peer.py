"""A NIC under test and a peer of paper: the test writes the peer's packets field by field."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from host.nic import Nic
from host.profiles import PlainProfiles, Profiles
from host.qp.base import QpEndpoint
from host.qp.queue_pair import QueuePair
from host.qp.requestor import Requestor
from host.qp.responder import Responder
from host.qp.work import WriteRequest
from host.wire import (
    AETH,
    BTH,
    METH,
    NETH,
    PETH,
    RETH,
    SETH,
    TSETH,
    Ack,
    CCState,
    Envelope,
    ImmDt,
    Nack,
    NackReason,
    Opcode,
    Packet,
    Probe,
    Sack,
    Write,
    decode,
    encode,
)
from host.wire.assumptions import sack_bitmap_of_received
from tests.host.network import config

P = TypeVar("P", bound=Packet)

PEER_QP = 0xABC123
MTU = 64
#: First PSNs, near the end of their space
SQ_PSN = 2**24 - 5
RQ_PSN = 2**24 - 3


class Peer:
    """One NIC (h0) with a connected queue pair, and what the test sends it as h2."""

    def __init__(
        self, *, profiles: Profiles | None = None, seed: int = 1, **attributes: Any
    ) -> None:
        nic_changes = {
            name: attributes.pop(name)
            for name in ("rate_bps", "bitmap_pool_psns", "unlimited_batch", "forwarding")
            if name in attributes
        }
        self.nic = Nic(
            config("h0", path_mtu_bytes=MTU, **nic_changes),
            seed=seed,
            profiles=PlainProfiles() if profiles is None else profiles,
        )
        self.peer_config = config("h2")
        self.now_ns = 0
        self.send_cq = self.nic.create_cq()
        self.recv_cq = self.nic.create_cq()
        self.qp = self.new_qp(**attributes)
        self.memory = bytearray(4096)
        self.region = self.nic.register_memory(self.memory)
        # What a queue pair says of its ports to a new peer is none of these tests' business
        for request in [*self.nic._endpoint._requests]:
            del self.nic._endpoint._requests[request]
        for port in self.nic._ports:
            port.control.clear()

    def new_qp(self, dest_qp: int = PEER_QP, **attributes: Any) -> QueuePair:
        """A queue pair connected to `dest_qp` of the peer."""
        remote = {
            name: attributes.pop(name)
            for name in ("mpr_psns", "max_wimm", "trim_nack", "dynamic_mpr")
            if name in attributes
        }
        dynamic_mpr = remote.get("dynamic_mpr", False)
        values: dict[str, Any] = {"sq_psn": SQ_PSN, "dynamic_mpr": dynamic_mpr, **attributes}
        qp = self.nic.create_qp(self.send_cq, self.recv_cq, **values)
        qp.connect(self.qp_endpoint(dest_qp, **remote))
        return qp

    def qp_endpoint(self, number: int = PEER_QP, **changes: Any) -> QpEndpoint:
        """What the peer tells out of band."""
        values: dict[str, Any] = {
            "address": self.peer_config.address,
            "number": number,
            "start_psn": RQ_PSN,
            "mpr_psns": 128,
            "max_wimm": 128,
            "trim_nack": True,
            "dynamic_mpr": False,
            "path_mtu_bytes": 4096,
        }
        return QpEndpoint(**{**values, **changes})

    @property
    def requestor(self) -> Requestor:
        assert self.qp.requestor is not None
        return self.qp.requestor

    @property
    def responder(self) -> Responder:
        assert self.qp.responder is not None
        return self.qp.responder

    # --- time and what comes out ---

    def frames(self) -> list[tuple[int, bytes]]:
        """Frames that leave now, until none does."""
        found = []
        while sent := self.nic.transmit(self.now_ns):
            found += sent
        return found

    def sent(self) -> list[Packet]:
        """Packets that leave now."""
        return [decode(frame) for _, frame in self.frames()]

    def sent_of(self, kind: type[P]) -> list[P]:
        """Packets that leave now, which must all be of one kind."""
        packets = self.sent()
        assert all(isinstance(packet, kind) for packet in packets), packets
        return [packet for packet in packets if isinstance(packet, kind)]

    def wait(self, duration_ns: int) -> list[tuple[int, Packet]]:
        """Let time go by; (time, packet) of all that leaves meanwhile."""
        end_ns = self.now_ns + duration_ns
        found: list[tuple[int, Packet]] = []
        while True:
            found += [(self.now_ns, packet) for packet in self.sent()]
            timer = self.nic.next_timer()
            if timer is None or timer > end_ns:
                self.now_ns = end_ns
                return found
            self.now_ns = max(self.now_ns, timer)
            self.nic.handle_timer(self.now_ns)

    def statuses(self) -> list[tuple[int, str]]:
        """(wr_id, status) of the sends that completed."""
        return [(completion.wr_id, completion.status.name) for completion in self.send_cq.poll()]

    # --- as requestor of the NIC ---

    def post(self, wr_id: int, data: bytes, imm: int | None = None, signaled: bool = True) -> None:
        """Post a write to the peer."""
        self.qp.post_write(WriteRequest(wr_id, data, 0x1000, 0x77, imm, signaled))

    # --- what the peer sends ---

    def envelope(
        self, dscp: int | None = None, ecn: int = 0, ev: int = 0, src: int | None = None
    ) -> Envelope:
        """The envelope of the peer's packets."""
        nic, peer = self.nic.config, self.peer_config
        return Envelope.over_path(
            dst_mac=nic.ports[0].mac,
            src_mac=nic.ports[0].gateway_mac,
            carrier=None,
            dst=nic.address,
            src=peer.address if src is None else src,
            ev=ev,
            dscp=peer.traffic.trimmable if dscp is None else dscp,
            ecn=ecn,
        )

    def receive(self, packet: Packet, port: int = 0) -> None:
        """Give the NIC a packet."""
        self.nic.receive(port, encode(packet), self.now_ns)

    def write_packet(
        self,
        offset: int,
        payload: bytes,
        *,
        opcode: Opcode = Opcode.RDMA_WRITE_ONLY,
        psn: int = 0,
        msn: int = 0,
        rqmsn: int = 0,
        imm: int | None = None,
        dma_length: int | None = None,
        r_key: int | None = None,
        va: int | None = None,
        rtx: bool = False,
        ack_request: bool = False,
        dscp: int | None = None,
        ecn: int = 0,
        ev: int = 0,
        tx_timestamp: int = 0,
        dest_qp: int | None = None,
        src: int | None = None,
    ) -> Write:
        """A write of `payload` at `offset` of the registered memory; `psn` from 0."""
        return Write(
            self.envelope(dscp, ecn, ev, src),
            BTH(
                opcode,
                self.qp.number if dest_qp is None else dest_qp,
                (RQ_PSN + psn) % 2**24,
                ack_request,
                rtx,
            ),
            METH(rqmsn, msn),
            TSETH(tx_timestamp),
            RETH(
                self.region.va + offset if va is None else va,
                self.region.rkey if r_key is None else r_key,
                len(payload) if dma_length is None else dma_length,
            ),
            None if imm is None else ImmDt(imm),
            payload,
        )

    def write(self, offset: int, payload: bytes, **fields: Any) -> None:
        """The peer writes; as `write_packet`."""
        self.receive(self.write_packet(offset, payload, **fields))

    def sack(
        self,
        cack: int,
        received: Iterable[int] = (),
        *,
        m: int = 0,
        ev: int = 0,
        ack: int | None = None,
        probe_id: int | None = None,
        mpr: int = 1,
        tx_timestamp: int = 0,
        penalty: int = 0,
        restore: bool = False,
        source: int = PEER_QP & 0xFFFF,
        src: int | None = None,
        base: int | None = None,
    ) -> None:
        """The peer has everything up to packet number `cack` (from 0) and those in `received`."""
        first = min(received, default=cack + 1) if base is None else base
        bitmap = sum(1 << number - first for number in received)
        offset = (cack if ack is None else ack) - cack
        if probe_id is not None:
            offset = probe_id - 65536 if probe_id > 32767 else probe_id
        psn = (SQ_PSN + cack) % 2**24
        self.receive(
            Sack(
                self.envelope(self.peer_config.traffic.control, src=src),
                BTH(Opcode.RELIABILITY_SACK, self.qp.number, psn),
                SETH(
                    m,
                    probe_id is not None,
                    offset,
                    ev,
                    source,
                    self.qp.number & 0xFFFF,
                    psn,
                    mpr,
                    first - cack,
                    sack_bitmap_of_received(bitmap),
                ),
                CCState(tx_timestamp, 0, restore, penalty, 0),
            )
        )

    def nack(
        self, number: int, reason: NackReason, ev: int, *, source: int = PEER_QP & 0xFFFF
    ) -> None:
        """The peer refuses packet `number`, which came on `ev`."""
        psn = (SQ_PSN + number) % 2**24
        self.receive(
            Nack(
                self.envelope(self.peer_config.traffic.control),
                BTH(Opcode.RELIABILITY_NACK, self.qp.number, psn),
                NETH(reason, ev, source, self.qp.number & 0xFFFF, psn, 0),
            )
        )

    def ack(self, msn: int, syndrome: int = 0x1F) -> None:
        """Transport ACK or NAK."""
        self.receive(
            Ack(
                self.envelope(self.peer_config.traffic.control),
                BTH(Opcode.ACKNOWLEDGE, self.qp.number, 0),
                AETH(syndrome, msn),
            )
        )

    def probe(self, probe_id: int, *, ev: int = 0, source: int = PEER_QP & 0xFFFF) -> None:
        """Reliability probe request."""
        self.receive(
            Probe(
                self.envelope(ev=ev),
                BTH(Opcode.RELIABILITY_PROBE_REQUEST, self.qp.number, 0),
                PETH(probe_id, source, self.qp.number & 0xFFFF, 0),
            )
        )


def number_of(packet: Packet) -> int:
    """The number, from 0, of a data packet of the NIC."""
    return (packet.bth.psn - SQ_PSN) % 2**24
