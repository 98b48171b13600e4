"""Counters, meters, registers, hashes, checksums in compiled programs (programs/stateful.p4)."""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

import pytest

from softswitch.externs import crc16, csum16, xor16
from softswitch.tables import ActionCall, Entry
from tests.softswitch.pipeline_support import Bench, bench

SRC, DST = 0x0A000001, 0x0A000002


@pytest.fixture
def stateful() -> Bench:
    return bench("stateful")


def packet(
    *,
    tos: int = 0,
    protocol: int = 6,
    payload: bytes = b"",
    checksum: int | None = None,
    ihl: int = 5,
) -> bytes:
    length = 20 + len(payload)
    head = struct.pack("!BBHHHBB", 0x40 | ihl, tos, length, 7, 0x4000, 64, protocol)
    addresses = struct.pack("!II", SRC, DST)
    if checksum is None:
        checksum = csum16(head + b"\0\0" + addresses)
    return head + struct.pack("!H", checksum) + addresses + payload


class Report(NamedTuple):
    """The report header, and the IPv4 header and payload around it."""

    colour: int
    direct: int
    crc16: int
    crc32: int
    csum: int
    xored: int
    random: int
    value: int
    bad: int
    ipv4: bytes
    rest: bytes


def run(stateful: Bench, frame: bytes, port: int = 1, *, udp: bool = False) -> Report:
    out = stateful.send_one(frame, port)
    start = 28 if udp else 20
    report = struct.Struct("!BBHIHHIIB")
    values = (*report.unpack_from(out, start), out[:start], out[start + report.size :])
    return Report(*values)


def test_counters_count_packets_and_bytes(stateful: Bench) -> None:
    counters = stateful.pipeline.counters
    run(stateful, packet(tos=3), port=5)
    run(stateful, packet(tos=3, payload=b"12345"), port=5)
    assert counters["IngressImpl.by_port"].read(5) == (2, 45)
    assert counters["IngressImpl.by_tos"].read(3) == (2, 45)
    # As in simple_switch, egress counts the length that came in, not what leaves.
    assert counters["EgressImpl.out_bytes"].read(2) == (2, 45)
    stateful.pipeline.reset_state()
    assert counters["IngressImpl.by_port"].read(5) == (0, 0)


def test_index_beyond_the_end_is_ignored(stateful: Bench) -> None:
    report = run(stateful, packet(tos=200), port=300)
    counters = stateful.pipeline.counters
    assert sum(counters["IngressImpl.by_port"].packets) == 0
    assert sum(counters["IngressImpl.by_tos"].packets) == 0
    assert (report.colour, report.value) == (0, 0)  # neither was written
    assert stateful.pipeline.registers["IngressImpl.cells"].values == [0] * 8


def test_registers(stateful: Bench) -> None:
    cells = stateful.pipeline.registers["IngressImpl.cells"].values
    assert run(stateful, packet(tos=2)).value == 0
    assert cells[2] == 20
    assert run(stateful, packet(tos=2, payload=b"x")).value == 20
    assert cells[2] == 41
    cells[2] = 0xFFFFFFFF
    assert run(stateful, packet(tos=2)).value == 0xFFFFFFFF
    assert cells[2] == 19  # bit<32>
    assert stateful.pipeline.registers["IngressImpl.narrow"].values == [3 * 200 % 256]


def test_direct_counter_and_meter(stateful: Bench) -> None:
    table = stateful.table("direct")
    entry = Entry((DST,), stateful.call("direct", ActionCall("tick")))
    table.insert(entry)
    assert run(stateful, packet()).direct == 0
    assert entry.counter_data == [1, 20]
    entry.configure_meter([(1, 1), (1, 2)])  # type: ignore[list-item]
    stateful.now_ns = 5000
    assert [run(stateful, packet()).direct for _ in range(4)] == [0, 1, 2, 2]
    assert entry.counter_data == [5, 100]
    assert entry.last_hit_ns == 5000
    table.modify(Entry((DST,), stateful.call("direct", ActionCall("quiet"))))
    run(stateful, packet())
    assert table.get((DST,)).counter_data == [6, 120]
    assert table.get((DST,)).meter_config == ((1, 1), (1, 2))


def test_a_miss_is_not_counted(stateful: Bench) -> None:
    table = stateful.table("direct")
    table.set_default(stateful.call("direct", ActionCall("tick")))
    run(stateful, packet())
    assert table.default.counter_data == [0, 0]


def test_indirect_meter_by_bytes(stateful: Bench) -> None:
    meter = stateful.pipeline.meters["IngressImpl.police"]
    assert run(stateful, packet(tos=1)).colour == 0  # not configured
    meter.configure(1, [(1000, 25), (1000, 50)])
    stateful.now_ns = 1_000_000_000
    assert [run(stateful, packet(tos=1)).colour for _ in range(4)] == [0, 1, 2, 2]
    stateful.now_ns += 20_000_000  # 20 bytes more
    assert run(stateful, packet(tos=1)).colour == 0


def test_hashes(stateful: Bench) -> None:
    report = run(stateful, packet())
    addresses = struct.pack("!II", SRC, DST)
    assert report.crc16 == crc16(addresses)
    assert report.crc32 == zlib.crc32(addresses + b"\x55")  # 4w5 and ihl share a byte
    assert report.xored == xor16(addresses)
    udp = struct.pack("!HHHH", 1000, 2000, 8, 0)
    report = run(stateful, packet(protocol=17, payload=udp), udp=True)
    assert report.csum == 100 + csum16(struct.pack("!IH", SRC, 1000)) % 50


def test_random_is_in_range_and_seeded() -> None:
    def draws(seed: int) -> list[int]:
        own = bench("stateful", seed=seed)
        return [run(own, packet(tos=5)).random for _ in range(100)]

    first = draws(1)
    assert set(first) == set(range(10, 16))
    assert first == draws(1)
    assert first != draws(2)


def test_checksum_is_verified_and_updated(stateful: Bench) -> None:
    good = run(stateful, packet())
    assert good.bad == 0
    assert good.ipv4[8] == 63
    assert csum16(good.ipv4) == 0
    bad = run(stateful, packet(checksum=0x1234))
    assert bad.bad == 1
    assert csum16(bad.ipv4) == 0
    # The condition of verify_checksum does not hold
    assert run(stateful, packet(checksum=0x1234, ihl=6)).bad == 0


@pytest.mark.parametrize("payload", [b"", b"even", b"odd"])
def test_checksum_over_the_payload(stateful: Bench, payload: bytes) -> None:
    udp = struct.pack("!HHHH", 1000, 2000, 8 + len(payload), 0xFFFF)
    frame = packet(protocol=17, payload=udp + payload)
    report = run(stateful, frame, udp=True)
    assert report.rest == payload
    pseudo = struct.pack("!IIBBH", SRC, DST, 0, 17, 8 + len(payload))
    assert csum16(pseudo + report.ipv4[20:28] + payload) == 0


def test_checksum_that_is_not_asked_for_is_left_alone(stateful: Bench) -> None:
    udp = struct.pack("!HHHH", 1000, 2000, 8, 0)
    assert run(stateful, packet(protocol=17, payload=udp), udp=True).ipv4[20:28] == udp
