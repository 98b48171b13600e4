"""The packets of a requestor that are not acknowledged, and their timers.

mrc-protocol.md, section 3: the reliability layer at the sending end, as far as it is memory. PSNs
are numbers without an end here (`serial`).

A packet in flight has one `Packet`. Sending it again makes a new one, and the old is dead: timers
hold packets in order of their deadlines and pass over the dead, so that no timer is ever searched
for or cancelled. There is one such queue for each length of timeout.
"""

from __future__ import annotations

from collections import deque
from heapq import heappush

from host.congestion.base import CongestionController
from host.qp.send_queue import Message


class Packet:
    """One transmission of a packet, or one that waits for its turn to be sent again."""

    __slots__ = (
        "deadline_ns",
        "ev",
        "exponent",
        "in_flight",
        "live",
        "message",
        "psn",
        "refused",
        "sent_ns",
        "size_bytes",
        "solicits",
        "timeouts",
    )

    def __init__(self, psn: int, message: Message) -> None:
        self.psn = psn
        self.message = message
        #: False once it is acknowledged, or replaced by its next transmission
        self.live = True
        self.in_flight = False
        self.ev = -1
        self.sent_ns = 0
        self.deadline_ns = 0
        self.size_bytes = 0
        #: Local ACK timeouts that it has met
        self.timeouts = 0
        #: The timeout is 2^exponent times the default
        self.exponent = 0
        #: It waits for a resource of the responder: its timer neither blames nor counts
        self.refused = False
        #: It was acknowledged, and is sent again for its transport ACK, which was lost
        self.solicits = False

    def __lt__(self, other: Packet) -> bool:
        return self.psn < other.psn


class Flight:
    """What was sent and is not acknowledged.

    Attributes:
        una: the first PSN not acknowledged: cack + 1.
        sacked: bit i: una + i is acknowledged.
        next_psn: never sent yet.
        edge: the last PSN that MPR lets out.
        packets: by PSN, the one transmission that counts.
        retransmissions: to be sent again, as a heap, oldest first: with a window of one packet, the
            peer's window moves on, and a peer that is gone is found by one packet's retries and not
            by all of them in turn. The dead are passed over.
        solicit: the retransmission that asks for a lost transport ACK.
    """

    __slots__ = (
        "_controller",
        "_mpr_psns",
        "_timeout_ns",
        "_timers",
        "edge",
        "next_psn",
        "packets",
        "retransmissions",
        "sacked",
        "solicit",
        "una",
    )

    def __init__(
        self, psn: int, *, mpr_psns: int, timeout_ns: int, controller: CongestionController
    ) -> None:
        self._mpr_psns = mpr_psns
        self._timeout_ns = timeout_ns
        self._controller = controller
        self.next_psn = psn
        self.una = psn
        self.sacked = 0
        self.edge = psn - 1 + mpr_psns
        self.packets: dict[int, Packet] = {}
        self.retransmissions: list[Packet] = []
        self.solicit: Packet | None = None
        #: By exponent of the timeout
        self._timers: list[deque[Packet]] = [deque()]

    # --- acknowledged ---

    def advance(self, cack: int) -> int:
        """All up to `cack` is acknowledged. Returns the bytes that this takes out of flight.

        They are the caller's to take off the controller's, together with those of `acknowledge`.
        """
        una = self.una
        pop = self.packets.pop
        acked_bytes = 0
        for psn in range(una, cack + 1):
            packet = pop(psn, None)
            if packet is not None:
                packet.live = False
                if packet.in_flight:
                    packet.in_flight = False
                    acked_bytes += packet.size_bytes
        self.una = cack + 1
        if self.sacked:
            self.sacked >>= cack + 1 - una
        return acked_bytes

    def acknowledge(self, received: int) -> int:
        """Acknowledge una + i for every bit i, all of them new. Returns as `advance`."""
        self.sacked |= received
        una = self.una
        pop = self.packets.pop
        acked_bytes = 0
        while received:
            lowest = received & -received
            received ^= lowest
            packet = pop(una + lowest.bit_length() - 1, None)
            if packet is not None:
                packet.live = False
                if packet.in_flight:
                    packet.in_flight = False
                    acked_bytes += packet.size_bytes
        return acked_bytes

    def forget_dead(self) -> None:
        """Let go of packets that are done, as far as they are first in line."""
        timers = self._timers[0]
        while timers and not timers[0].live:
            timers.popleft()

    def move_edge(self, mpr_psns: int | None = None) -> None:
        """`una` has moved, or the responder tracks another number of packets from now on."""
        if mpr_psns is not None:
            self._mpr_psns = mpr_psns
        self.edge = self.una - 1 + self._mpr_psns

    # --- lost ---

    def take_out(self, packet: Packet) -> None:
        """A packet is not on its way any more: it is dead, and its bytes are out of the window."""
        packet.live = False
        if packet.in_flight:
            packet.in_flight = False
            self._controller.inflight_bytes -= packet.size_bytes

    def retransmit(self, packet: Packet, exponent: int = 0) -> None:
        """Queue the packet's next transmission; `packet` is dead."""
        again = Packet(packet.psn, packet.message)
        again.timeouts = packet.timeouts
        again.exponent = exponent
        if packet.solicits:
            again.solicits = True
            self.solicit = again
        else:
            self.packets[packet.psn] = again
        heappush(self.retransmissions, again)

    def hold_back(self, packet: Packet, now_ns: int) -> int:
        """Send a refused packet again after a timeout, which is returned; `packet` is dead."""
        again = Packet(packet.psn, packet.message)
        again.timeouts = packet.timeouts
        again.refused = True
        self.packets[packet.psn] = again
        return self.start_timer(again, now_ns)

    def solicit_ack(self, message: Message) -> None:
        """Queue the last packet of a message that landed, to draw its transport ACK again."""
        packet = Packet(message.last_psn, message)
        packet.solicits = True
        self.solicit = packet
        heappush(self.retransmissions, packet)

    # --- timers ---

    def start_timer(self, packet: Packet, now_ns: int) -> int:
        """A packet's timeout begins. Returns its end."""
        exponent = packet.exponent
        timers = self._timers
        while len(timers) <= exponent:
            timers.append(deque())
        deadline_ns = now_ns + (self._timeout_ns << exponent)
        packet.deadline_ns = deadline_ns
        timers[exponent].append(packet)
        return deadline_ns

    def next_deadline(self) -> int | None:
        """The earliest end of a packet's timeout; None: no timer runs."""
        earliest = None
        for timers in self._timers:
            while timers and not timers[0].live:
                timers.popleft()
            if timers and (earliest is None or timers[0].deadline_ns < earliest):
                earliest = timers[0].deadline_ns
        return earliest

    def pop_due(self, now_ns: int) -> Packet | None:
        """A packet whose timeout is over by now, those with the shortest first."""
        for timers in self._timers:
            while timers:
                packet = timers[0]
                if packet.live and packet.deadline_ns > now_ns:
                    break
                timers.popleft()
                if packet.live:
                    return packet
        return None

    def close(self) -> None:
        """Give all up."""
        for packet in self.packets.values():
            self.take_out(packet)
        if self.solicit is not None:
            self.take_out(self.solicit)
        self.solicit = None
        self.packets.clear()
        self.retransmissions.clear()
        self._timers = [deque()]
        self.sacked = 0
