"""What fabric.p4 does with a uSID packet, written by hand in Python: the yardstick of the compiler.

It does the whole job for such packets (counters, uN, admission, trimming, ECN marking, release,
link addresses) and nothing for others: plain IPv6 and SRHs are outside its measure.
"""

import random
from dataclasses import dataclass, field

PORTS = 512
ETHERTYPE_IPV6 = b"\x86\xdd"
CONTROL, TRIMMABLE, NO_TRIM = 0, 1, 2
ZERO_ARGUMENT = bytes(10)

# What egress needs of a packet: IPv6 header, payload, control class?, bytes charged, bytes come in
State = tuple[bytes, bytes, bool, int, int]
# Egress port, priority, state
Forwarded = tuple[int, int, State]


def _counters() -> list[list[int]]:
    return [[0, 0] for _ in range(PORTS)]


@dataclass
class HandwrittenFabric:
    """State of one switch; tables are keyed by the bytes of the header fields."""

    my_sids: set[bytes]
    next_sids: dict[bytes, int]
    traffic_classes: dict[int, int]
    # egress port → (data limit, control limit, TRIMMED DSCP)
    port_queues: dict[int, tuple[int, int, int]]
    # next header → bytes to keep
    trim_sizes: dict[int, int]
    # egress port → (min, max, max probability / 65536)
    ecn_marking: dict[int, tuple[int, int, int]]
    # egress port → destination and source address
    neighbors: dict[int, bytes]
    random: random.Random
    received: list[list[int]] = field(default_factory=_counters)
    sent_data: list[list[int]] = field(default_factory=_counters)
    sent_control: list[list[int]] = field(default_factory=_counters)
    trimmed: list[list[int]] = field(default_factory=_counters)
    marked_ce: list[list[int]] = field(default_factory=_counters)
    drops: dict[str, list[list[int]]] = field(default_factory=dict)
    data_occupancy_bytes: list[int] = field(default_factory=lambda: [0] * PORTS)
    control_occupancy_bytes: list[int] = field(default_factory=lambda: [0] * PORTS)

    def drop(self, reason: str, port: int, size: int) -> Forwarded | None:
        """Count a dropped packet; returns what ingress returns for one."""
        cell = self.drops.setdefault(reason, _counters())[port]
        cell[0] += 1
        cell[1] += size
        return None

    def ingress(self, frame: bytes, port: int) -> Forwarded | None:
        """Return (egress port, priority, what egress needs), or None for a dropped packet."""
        size = len(frame)
        cell = self.received[port]
        cell[0] += 1
        cell[1] += size
        if frame[12:14] != ETHERTYPE_IPV6:
            return self.drop("not_ipv6", port, size)
        if size < 54 or frame[14] >> 4 != 6:
            return self.drop("parser_error", port, size)
        hop_limit = frame[21]
        if hop_limit <= 1:
            return self.drop("hop_limit", port, size)
        if frame[38:44] not in self.my_sids:
            return self.drop("not_my_sid", port, size)
        argument = frame[44:54]
        if argument == ZERO_ARGUMENT:
            return self.drop("no_next_sid", port, size)
        destination = frame[38:42] + argument + b"\0\0"
        egress_port = self.next_sids.get(destination[:6])
        if egress_port is None:
            return self.drop("no_next_sid", port, size)

        byte0, byte1 = frame[14], frame[15]
        traffic_class = self.traffic_classes.get((byte0 & 0x0F) << 2 | byte1 >> 6, NO_TRIM)
        data_limit, control_limit, trimmed_dscp = self.port_queues[egress_port]
        payload_length = frame[18:20]
        charged = size
        if traffic_class != CONTROL:
            occupancy = self.data_occupancy_bytes[egress_port]
            if occupancy + size <= data_limit:
                self.data_occupancy_bytes[egress_port] = occupancy + size
                ecn = byte1 >> 4 & 3
                if (ecn == 1 or ecn == 2) and egress_port in self.ecn_marking:
                    low, high, probability = self.ecn_marking[egress_port]
                    if occupancy >= high or (
                        occupancy >= low
                        and self.random.randrange((high - low) << 16)
                        < (occupancy - low) * probability
                    ):
                        byte1 |= 0x30
                        cell = self.marked_ce[egress_port]
                        cell[0] += 1
                        cell[1] += size
            else:
                keep = self.trim_sizes.get(frame[20])
                if traffic_class == NO_TRIM or keep is None:
                    return self.drop("data_full", egress_port, size)
                if keep < size:
                    frame = frame[:keep]
                    charged = keep
                    payload_length = (keep - 54).to_bytes(2, "big")
                byte0 = byte0 & 0xF0 | trimmed_dscp >> 2
                byte1 = byte1 & 0x3F | (trimmed_dscp & 3) << 6
                cell = self.trimmed[egress_port]
                cell[0] += 1
                cell[1] += size
                traffic_class = CONTROL
        is_control = traffic_class == CONTROL
        if is_control:
            after = self.control_occupancy_bytes[egress_port] + charged
            if after > control_limit:
                return self.drop("control_full", egress_port, size)
            self.control_occupancy_bytes[egress_port] = after
        header = b"".join(
            (
                bytes((byte0, byte1)),
                frame[16:18],
                payload_length,
                frame[20:21],
                bytes((hop_limit - 1,)),
                frame[22:38],
                destination,
            )
        )
        return egress_port, int(is_control), (header, frame[54:], is_control, charged, size)

    def egress(self, state: State, port: int) -> bytes:
        """Return the frame to send; called when it leaves the queue of `port`."""
        header, payload, is_control, charged, size = state
        if is_control:
            self.control_occupancy_bytes[port] -= charged
            cell = self.sent_control[port]
        else:
            self.data_occupancy_bytes[port] -= charged
            cell = self.sent_data[port]
        cell[0] += 1
        cell[1] += size
        return self.neighbors[port] + ETHERTYPE_IPV6 + header + payload
