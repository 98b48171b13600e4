"""What the public sources of MRC 1.0 do not settle: one named choice each, nowhere else repeated.

Should the specification's text decide otherwise, it is here that the code changes (and in the two
dissectors, which do not import this package's codec: `scapy_layers` and docs/wireshark).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from host.wire.constants import PSN_MODULUS, SACK_BITMAP_BITS

# --- SACK bitmap ---------------------------------------------------------------------------------

#: Which end of `SETH.sack_bitmap` is the PSN `cack_psn + sack_offset`: the least significant bit,
#: as in UET 1.0.
SACK_FIRST_PSN_IS_LSB = True

_PSN_MASK = PSN_MODULUS - 1


def sack_bitmap_of_received(received: int) -> int:
    """The wire's bitmap for `received`, whose bit i says that PSN number i of 64 was received."""
    return received if SACK_FIRST_PSN_IS_LSB else _reverse_bits(received)


def received_of_sack_bitmap(sack_bitmap: int) -> int:
    """The inverse of `sack_bitmap_of_received`: bit i stands for cack_psn + sack_offset + i."""
    return sack_bitmap if SACK_FIRST_PSN_IS_LSB else _reverse_bits(sack_bitmap)


def psns_of_sack(cack_psn: int, sack_offset: int, sack_bitmap: int) -> Iterator[int]:
    """The PSNs that the bitmap of a SACK acknowledges, ascending (modulo 2^24)."""
    first_psn = cack_psn + sack_offset
    received = received_of_sack_bitmap(sack_bitmap)
    while received:
        lowest = received & -received
        yield first_psn + lowest.bit_length() - 1 & _PSN_MASK
        received ^= lowest


def _reverse_bits(word: int) -> int:
    return int(f"{word:0{SACK_BITMAP_BITS}b}"[::-1], 2)


# --- timestamps ----------------------------------------------------------------------------------

#: Unit of the 16-bit timestamps where tsr is 0 (one source only)
TIMESTAMP_UNIT_NS = 128
TIMESTAMP_MODULUS = 1 << 16
#: After this long a timestamp comes round again: 8,388,608 ns
TIMESTAMP_WRAP_NS = TIMESTAMP_UNIT_NS * TIMESTAMP_MODULUS


def timestamp_of_ns(time_ns: int) -> int:
    """The 16-bit timestamp of a time."""
    return time_ns // TIMESTAMP_UNIT_NS % TIMESTAMP_MODULUS


def elapsed_ns(timestamp: int, now_ns: int) -> int:
    """How long ago a timestamp was taken, if that is less than TIMESTAMP_WRAP_NS.

    A multiple of the unit, and off by less than one unit either way.
    """
    return (now_ns // TIMESTAMP_UNIT_NS - timestamp) % TIMESTAMP_MODULUS * TIMESTAMP_UNIT_NS


# --- port status ---------------------------------------------------------------------------------

#: Which bit of `ERTH.port_status_mask` is port number 1. `mrc_ctl.h` numbers ports from 1 and words
#: its port masks "bit N set: port N"; the 32-bit field then holds ports 1 to 31.
PORT_STATUS_BIT_OF_PORT_1 = 1


def port_status_mask(ports_up: Iterable[int]) -> int:
    """`ERTH.port_status_mask` with the bits of these port numbers (from 1) set."""
    mask = 0
    for port_num in ports_up:
        if port_num < 1 or (bit := port_num - 1 + PORT_STATUS_BIT_OF_PORT_1) > 31:
            raise ValueError(
                f"port number {port_num} has no bit in a port status mask; "
                f"it must be 1..{32 - PORT_STATUS_BIT_OF_PORT_1}"
            )
        mask |= 1 << bit
    return mask


def ports_of_status_mask(mask: int) -> frozenset[int]:
    """The port numbers that a mask says are up: the inverse of `port_status_mask`.

    Bits that are no port's are passed over.
    """
    first = 1 - PORT_STATUS_BIT_OF_PORT_1
    return frozenset(bit + first for bit in range(PORT_STATUS_BIT_OF_PORT_1, 32) if mask >> bit & 1)


# --- entropy -------------------------------------------------------------------------------------

#: The 20-bit flow label has room for EV[31:16] in its low 16 bits; the four above stay 0
FLOW_LABEL_EV_BITS = 16


def udp_source_port_of_ev(ev: int) -> int:
    """EV[15:0], which the UDP source port carries."""
    return ev & 0xFFFF


def flow_label_of_ev(ev: int) -> int:
    """EV[31:16], which the low 16 bits of both flow labels carry."""
    return ev >> 16


def ev_of_packet(flow_label: int, udp_source_port: int) -> int:
    """The EV of a packet by its inner flow label and UDP source port."""
    return (flow_label & 0xFFFF) << 16 | udp_source_port
