"""A RoCE NIC under test and a peer of paper: the test writes the peer's packets field by field."""

from __future__ import annotations

from typing import Any

from host.config import QpDefaults
from host.qp.base import QpEndpoint
from host.qp.work import WriteRequest
from host.roce import RoceConfig, RoceNic
from host.roce.config import ROCE_QP_DEFAULTS
from host.roce.packet import (
    Ack,
    Bth,
    Cnp,
    Opcode,
    Packet,
    RoceDecoder,
    Write,
    ack_frame,
    cnp_frame,
    write_frame,
)
from host.roce.queue_pair import RoceQueuePair
from host.roce.requestor import RoceRequestor
from host.roce.responder import RoceResponder
from host.wire import FrameTemplate
from host.wire.constants import DSCP_SHIFT
from host.wire.envelope import Envelope, Ethernet, Ipv6, Udp
from host.wire.headers import AETH, RETH
from tests.host.network import config

PEER_QP = 0xABC123
MTU = 64
#: First PSNs, near the end of their space
SQ_PSN = 2**24 - 5
RQ_PSN = 2**24 - 3
TIMEOUT_NS = 1024 << ROCE_QP_DEFAULTS.timeout
#: An endless window, a rate without limit
PLAIN = RoceConfig(dcqcn=None)


class RocePeer:
    """One NIC (h0) with a connected queue pair, and what the test sends it as h2."""

    def __init__(
        self,
        *,
        roce: RoceConfig = PLAIN,
        rate_bps: int | None = None,
        qp: QpDefaults = ROCE_QP_DEFAULTS,
    ) -> None:
        changes: dict[str, Any] = {} if rate_bps is None else {"rate_bps": rate_bps}
        self.nic = RoceNic(config("h0", path_mtu_bytes=MTU, qp=qp, **changes), seed=1, roce=roce)
        self.peer_config = config("h2")
        self.now_ns = 0
        self.send_cq = self.nic.create_cq()
        self.recv_cq = self.nic.create_cq()
        self.qp: RoceQueuePair = self.nic.create_qp(self.send_cq, self.recv_cq, sq_psn=SQ_PSN)
        self.qp.connect(
            QpEndpoint(
                address=self.peer_config.address,
                number=PEER_QP,
                start_psn=RQ_PSN,
                mpr_psns=128,
                max_wimm=128,
                trim_nack=False,
                dynamic_mpr=False,
                path_mtu_bytes=4096,
            )
        )
        self.memory = bytearray(4096)
        self.region = self.nic.register_memory(self.memory)
        self._decoder = RoceDecoder()

    @property
    def requestor(self) -> RoceRequestor:
        assert self.qp.requestor is not None
        return self.qp.requestor

    @property
    def responder(self) -> RoceResponder:
        assert self.qp.responder is not None
        return self.qp.responder

    # --- time and what comes out ---

    def sent(self) -> list[Packet]:
        """Packets that leave now, until none does."""
        found: list[Packet] = []
        while frames := self.nic.transmit(self.now_ns):
            found += [self._decoder.decode(frame) for _, frame in frames]
        return found

    def numbers(self) -> list[int]:
        """Numbers, from 0, of the data packets that leave now; nothing else may."""
        return self._numbers(self.sent())

    def numbers_within(self, duration_ns: int) -> list[int]:
        """The same of the time to come, its last moment included."""
        return self._numbers([packet for _, packet in self.wait(duration_ns)])

    @staticmethod
    def _numbers(packets: list[Packet]) -> list[int]:
        assert all(isinstance(packet, Write) for packet in packets), packets
        return [(packet.bth.psn - SQ_PSN) % 2**24 for packet in packets]

    def answers(self) -> list[tuple[int, int]]:
        """(syndrome, PSN number from 0, -1 before it) of the ACKs and NAKs that leave now."""
        packets = self.sent()
        found = []
        for packet in packets:
            assert isinstance(packet, Ack), packet
            number = (packet.bth.psn - RQ_PSN + 1) % 2**24 - 1
            found.append((packet.aeth.syndrome, number))
        return found

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

    def post(self, wr_id: int, packets: int, imm: int | None = None) -> None:
        """Post a write of so many packets, the last of one byte."""
        data = bytes([wr_id]) * ((packets - 1) * MTU + 1)
        self.qp.post_write(WriteRequest(wr_id, data, 0x1000, 0x77, imm))

    # --- what the peer sends ---

    def frames(self, ecn: int = 0, src: int | None = None) -> FrameTemplate:
        """Frames of the peer."""
        nic, peer = self.nic.config, self.peer_config
        source = peer.address if src is None else src
        return FrameTemplate(
            Envelope(
                Ethernet(nic.ports[0].mac, nic.ports[0].gateway_mac),
                None,
                Ipv6(source, nic.address, peer.traffic.no_trim << DSCP_SHIFT | ecn),
                Udp(0xC000),
            )
        )

    def receive(self, frame: bytes) -> None:
        """Give the NIC a frame."""
        self.nic.receive(0, frame, self.now_ns)

    def ack(self, number: int, syndrome: int = 0x1F, msn: int = 0) -> None:
        """ACK or NAK with the PSN of a packet of the NIC, from 0."""
        psn = (SQ_PSN + number) % 2**24
        self.receive(ack_frame(self.frames(), self.qp.number, psn, AETH(syndrome, msn)))

    def cnp(self) -> None:
        """Congestion notification."""
        self.receive(cnp_frame(self.frames(), self.qp.number))

    def write(
        self,
        number: int,
        payload: bytes = b"\1",
        *,
        opcode: Opcode = Opcode.RDMA_WRITE_ONLY,
        offset: int = 0,
        dma_length: int | None = None,
        rkey: int | None = None,
        imm: int | None = None,
        ask: bool = True,
        ecn: int = 0,
        src: int | None = None,
    ) -> None:
        """A data packet of the peer; `number` is that of its PSN, from 0."""
        reth = None
        if opcode in (
            Opcode.RDMA_WRITE_FIRST,
            Opcode.RDMA_WRITE_ONLY,
            Opcode.RDMA_WRITE_ONLY_WITH_IMMEDIATE,
        ):
            reth = RETH(
                self.region.va + offset,
                self.region.rkey if rkey is None else rkey,
                len(payload) if dma_length is None else dma_length,
            )
        bth = Bth(opcode, self.qp.number, (RQ_PSN + number) % 2**24, ask)
        self.receive(write_frame(self.frames(ecn, src), bth, reth, imm, payload))


__all__ = ["MTU", "PEER_QP", "PLAIN", "RQ_PSN", "SQ_PSN", "TIMEOUT_NS", "Cnp", "RocePeer"]
