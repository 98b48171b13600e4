"""Clones, multicast, resubmission, recirculation of a program (switch_programs/copies.p4).

What the switch makes of each packet is written out here, and is the same from the switch object,
from a `softswitch` process and, where it is installed, from `simple_switch_grpc`, the two processes
started by the same command line.
"""

from __future__ import annotations

import select
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from softswitch.program import load_program
from softswitch.replication import CloneSession, MulticastGroup, Replica
from softswitch.switch import Switch
from tests.conftest import find_bmv2
from tests.softswitch.namespaces import Namespace, namespaces, veth

PROGRAM = Path(__file__).parent / "switch_programs" / "copies.json"
HEADER = b"\xff" * 12 + b"\x88\xb5"
SIZE = 100
PORTS = (1, 2, 3)
WAIT_S = 30


class Note(NamedTuple):
    """What a packet noted about itself in its last egress."""

    port: int
    instance: int
    rid: int
    passes: tuple[int, int]  # of ingress and of egress
    kept: int = 0x55
    lost: int = 0
    ingress_port: int = 0
    length: int = SIZE
    size: int = SIZE


def original(port: int, instance: int = 0, rid: int = 0, size: int = SIZE) -> Note:
    """A packet that went straight through: its metadata are all there."""
    return Note(port, instance, rid, (1, 1), lost=0x66, ingress_port=1, size=size)


INGRESS_CLONES = [Note(1, 1, 4, (0, 1), ingress_port=0), Note(3, 1, 9, (0, 1), ingress_port=0)]
EGRESS_CLONES = [Note(1, 2, 4, (1, 2)), Note(3, 2, 9, (1, 2))]
REPLICAS = [original(2, 5, 1), original(3, 5, 1), original(3, 5, 2)]
TWICE = Note(2, 0, 0, (2, 2))

EXPECTED: dict[int, tuple[str, list[Note]]] = {
    0: ("unicast", [original(2)]),
    1: ("ingress clone", [*INGRESS_CLONES, original(2)]),
    2: ("ingress clone of a packet that is dropped", INGRESS_CLONES),
    3: ("multicast", REPLICAS),
    4: ("resubmit", [Note(2, 0, 0, (1, 1))]),
    5: ("egress clone", [original(2), *EGRESS_CLONES]),
    6: ("recirculate", [TWICE]),
    7: ("egress clone of a packet that is dropped", EGRESS_CLONES),
    8: ("ingress clone and multicast", [*INGRESS_CLONES, *REPLICAS]),
    9: ("ingress clone and resubmit", [*INGRESS_CLONES, *INGRESS_CLONES, Note(2, 0, 0, (1, 1))]),
    10: ("multicast, each replica recirculated", [TWICE, TWICE, TWICE]),
    11: ("truncate", [original(2, size=28)]),
    12: ("recirculate from a port that is not there", [Note(3, 0, 0, (2, 2))]),
    13: ("resubmit, then drop", []),
    14: ("multicast to a group that is not there", []),
    15: ("multicast, each replica cloned in egress", [*REPLICAS, *EGRESS_CLONES * 3]),
}


def packet(want: int) -> bytes:
    return (HEADER + bytes([want])).ljust(SIZE, b"\0")


def note(port: int, frame: bytes) -> Note:
    fields = frame[14:]
    assert fields[5] == port
    return Note(
        port=port,
        instance=fields[3],
        rid=fields[4],
        passes=(fields[1], fields[2]),
        kept=fields[6],
        lost=fields[7],
        ingress_port=fields[8],
        length=int.from_bytes(fields[9:11], "big"),
        size=len(frame),
    )


@pytest.fixture
def switch() -> Switch:
    made = Switch()
    for port in PORTS:
        made.add_port(port)
    made.load(load_program(PROGRAM.read_text()))
    made.replication.create_session(CloneSession(7, (Replica(1, 4), Replica(3, 9))))
    made.replication.create_group(MulticastGroup(1, (Replica(2, 1), Replica(3, 1), Replica(3, 2))))
    return made


@pytest.mark.parametrize("rate_bps", [None, 1_000_000])
@pytest.mark.parametrize("want", EXPECTED, ids=[words for words, _ in EXPECTED.values()])
def test_in_process(switch: Switch, want: int, rate_bps: int | None) -> None:
    for port in PORTS:
        switch.set_port_rate(port, rate_bps, 0)
    switch.receive(1, packet(want), 0)
    out = switch.transmit(10**12)
    _, expected = EXPECTED[want]
    assert sorted(note(port, frame) for port, frame in out) == sorted(expected)
    stats = switch.stats()
    assert (stats.unaccounted, stats.queued, stats.errors) == (0, 0, {})


CONTROLLER = """
import sys
import grpc
import p4runtime_sh.shell as sh

address, p4info, program = sys.argv[1:]
with grpc.insecure_channel(address) as channel:
    grpc.channel_ready_future(channel).result(timeout=30)
config = sh.FwdPipeConfig(p4info, program)
sh.setup(device_id=3, grpc_addr=address, election_id=(0, 1), config=config)
session = sh.CloneSessionEntry(7)
session.add(1, 4)
session.add(3, 9)
session.insert()
group = sh.MulticastGroupEntry(1)
for port, instance in ((2, 1), (3, 1), (3, 2)):
    group.add(port, instance)
group.insert()
sh.teardown()
"""


def take(sockets: dict[int, socket.socket], count: int) -> list[tuple[int, bytes]]:
    """Wait for `count` frames from all of a host's interfaces together."""
    frames: list[tuple[int, bytes]] = []
    deadline = time.monotonic() + WAIT_S
    while len(frames) < count and time.monotonic() < deadline:
        ready, _, _ = select.select(list(sockets.values()), [], [], 0.1)
        for port, each in sockets.items():
            if each in ready:
                frames.append((port, each.recv(2048)))
    return frames


def play(executable: list[str], middle: Namespace, host: Namespace) -> dict[int, list[Note]]:
    """Start a switch process, configure it, send every packet; what came of each."""
    address = "127.0.0.1:9559"
    process = subprocess.Popen(
        middle.command(
            *executable,
            *("--no-p4", "--device-id", "3", "-i", "1@sw1", "-i", "2@sw2", "-i", "3@sw3"),
            *("--thrift-port", "9090", "-L", "off", "--", "--grpc-server-addr", address),
        ),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    sockets = {port: host.raw_socket(f"h{port}") for port in PORTS}
    try:
        subprocess.run(
            middle.command(
                *(sys.executable, "-c", CONTROLLER, address),
                *(str(PROGRAM.with_suffix(".p4info.txtpb")), str(PROGRAM)),
            ),
            check=True,
            timeout=WAIT_S,
        )
        came: dict[int, list[Note]] = {want: [] for want in EXPECTED}
        # A last plain packet, so that what comes too late for one is seen all the same.
        for want in (*EXPECTED, 0):
            sockets[1].send(packet(want))
            for port, frame in take(sockets, len(EXPECTED[want][1])):
                came[frame[14]].append(note(port, frame))
        return came
    finally:
        process.kill()
        process.wait()
        for each in sockets.values():
            each.close()


@pytest.mark.netns
@pytest.mark.parametrize(
    "target",
    [
        "softswitch",
        pytest.param("simple_switch_grpc", marks=pytest.mark.bmv2),
    ],
)
def test_as_a_process(target: str) -> None:
    executable = [sys.executable, "-m", "softswitch"] if target == "softswitch" else [find_bmv2()]
    with namespaces("s", "h") as (middle, host):
        for port in PORTS:
            veth(middle, f"sw{port}", host, f"h{port}")
        came = play([str(part) for part in executable], middle, host)
    expected = {want: sorted(notes) for want, (_, notes) in EXPECTED.items()}
    expected[0] *= 2
    assert {want: sorted(notes) for want, notes in came.items()} == expected
