"""A compiled program (switch_programs/cross.p4): queue metadata, and switch processes."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from p4src.build import find_compiler
from softswitch.program import load_program
from softswitch.switch import Switch
from tests.softswitch.namespaces import namespaces, veth
from tests.softswitch.test_cli import FREE, Running

SOURCE = Path(__file__).parent / "switch_programs" / "cross.p4"
COMPILED = SOURCE.with_suffix(".json")
ETHERNET = b"\xff" * 12 + b"\x88\xb5"
REPORT = struct.Struct("!BBIII6sI6sI")
WAIT_S = 60


def report(frame: bytes) -> dict[str, int]:
    names = (
        *("queue", "port", "enq_qdepth", "deq_qdepth", "deq_timedelta"),
        *("ingress_us", "enq_us", "egress_us", "length"),
    )
    values = REPORT.unpack_from(frame, len(ETHERNET))
    return {
        name: int.from_bytes(value, "big") if isinstance(value, bytes) else value
        for name, value in zip(names, values, strict=True)
    }


def asking(queue: int, size: int = 976) -> bytes:
    return (ETHERNET + bytes([queue])).ljust(size, b"\0")


def test_metadata_are_those_of_simple_switch() -> None:
    """Microseconds of whole times, depths in packets of the packet's own queue."""
    switch = Switch(priority_queues=2)
    for port in (1, 2):
        switch.add_port(port, rate_bps=1_000_000_000)
    switch.load(load_program(COMPILED.read_text()))
    start_ns = 5_000_999
    for index, queue in enumerate((0, 0, 0, 1, 1)):
        switch.receive(1, asking(queue), start_ns + index * 2)
    # 8 microseconds each: the first at once, then the higher queue, then the lower.
    reports = [report(frame) for _, frame in switch.transmit(10**9)]
    assert [each["queue"] for each in reports] == [0, 1, 1, 0, 0]
    assert [each["enq_qdepth"] for each in reports] == [0, 0, 1, 0, 1]
    assert [each["deq_qdepth"] for each in reports] == [0, 1, 0, 1, 0]
    arrivals_us = [5000, 5001, 5001, 5001, 5001]
    assert [each["ingress_us"] for each in reports] == arrivals_us
    assert [each["enq_us"] for each in reports] == arrivals_us
    left_us = [(start_ns + index * 8000) // 1000 for index in range(5)]
    assert [each["egress_us"] for each in reports] == left_us
    assert [each["deq_timedelta"] for each in reports] == [
        left - arrived for left, arrived in zip(left_us, arrivals_us, strict=True)
    ]
    assert {each["port"] for each in reports} == {2}
    assert {each["length"] for each in reports} == {976}


def test_an_unlimited_port_has_empty_queues() -> None:
    switch = Switch()
    for port in (1, 2):
        switch.add_port(port)
    switch.load(load_program(COMPILED.read_text()))
    switch.receive(2, asking(0, 100), 7_123_456)
    ((port, frame),) = switch.transmit(7_123_456)
    assert port == 1
    assert report(frame) == {
        "queue": 0,
        "port": 1,
        "enq_qdepth": 0,
        "deq_qdepth": 0,
        "deq_timedelta": 0,
        "ingress_us": 7123,
        "enq_us": 7123,
        "egress_us": 7123,
        "length": 100,
    }


@pytest.mark.netns
@pytest.mark.parametrize("mtu", [1500, 9000])
def test_a_switch_process_between_two_hosts(mtu: int) -> None:
    """TCP between kernels with their offloads on, over the command line's switch."""
    data = os.urandom(1 << 20)
    server = (
        "import socket, sys\n"
        "listener = socket.create_server(('10.8.0.2', 5000))\n"
        "print('listening', flush=True)\n"
        "peer, _ = listener.accept()\n"
        "while piece := peer.recv(65536):\n"
        "    sys.stdout.buffer.write(piece)\n"
    )
    client = (
        "import socket, sys\n"
        "peer = socket.create_connection(('10.8.0.2', 5000), timeout=30)\n"
        "peer.sendall(sys.stdin.buffer.read())\n"
    )
    with namespaces("s", "a", "b") as (middle, left, right):
        for host, interface, address in ((left, "sw1", "10.8.0.1"), (right, "sw2", "10.8.0.2")):
            veth(middle, interface, host, "e0", mtu=mtu)
            host.ip("addr", "add", f"{address}/24", "dev", "e0")
        arguments = (str(COMPILED), "-i", "1@sw1", "-i", "2@sw2", "--device-id", "1")
        with Running(*arguments, *FREE, prefix=tuple(middle.command())) as switch:
            receiver = subprocess.Popen(
                right.command(sys.executable, "-c", server), stdout=subprocess.PIPE
            )
            assert receiver.stdout is not None
            assert receiver.stdout.readline() == b"listening\n"
            received: list[bytes] = []
            taker = threading.Thread(
                target=lambda: received.append(receiver.communicate(timeout=WAIT_S)[0])
            )
            taker.start()
            subprocess.run(
                left.command(sys.executable, "-c", client), input=data, check=True, timeout=WAIT_S
            )
            taker.join()
            said = switch.stop()
    assert received == [data]
    assert "dropped=0" in said


@pytest.mark.p4c
@pytest.mark.parametrize("name", ["cross", "copies"])
def test_the_compiled_programs_are_the_sources(tmp_path: Path, name: str) -> None:
    compiler = find_compiler()
    assert compiler is not None
    fresh = tmp_path / f"{name}.json"
    subprocess.run([compiler, f"{name}.p4", "-o", str(fresh)], cwd=SOURCE.parent, check=True)

    def without_version(path: Path) -> object:
        program = json.loads(path.read_text())
        program.pop("__meta__")
        return program

    assert without_version(fresh) == without_version(SOURCE.with_name(fresh.name))


@pytest.mark.netns
def test_packet_out_and_packet_in_over_p4runtime() -> None:
    """Unmodified p4runtime-shell, a switch process and an interface."""
    shell = (
        "import sys\n"
        "import p4runtime_sh.shell as sh\n"
        "address, p4info, program = sys.argv[1:]\n"
        "config = sh.FwdPipeConfig(p4info, program)\n"
        "sh.setup(device_id=3, grpc_addr=address, election_id=(0, 1), config=config)\n"
        "entry = sh.TableEntry('Main.exact_mac')(action='Main.to_cpu')\n"
        "entry.match['hdr.ethernet.dst'] = '02:00:00:00:00:99'\n"
        "entry.insert()\n"
        "packets_in = sh.PacketIn()\n"
        "sh.PacketOut(payload=b'\\xff' * 12 + b'\\x88\\xb5out', egress_port='1').send()\n"
        "packet = packets_in.packet_in_queue.get(timeout=30)\n"
        "print(packet.packet.payload.hex(), packet.packet.metadata[0].value.hex(), flush=True)\n"
        "sh.teardown()\n"
    )
    program = Path(__file__).parent / "programs" / "p4runtime_basic.json"
    with namespaces("s", "h") as (middle, host):
        veth(middle, "sw1", host, "h1")
        arguments = ("--no-p4", "--device-id", "3", "-i", "1@sw1", *FREE, "--cpu-port", "64")
        with Running(*arguments, prefix=tuple(middle.command())) as switch:
            raw = host.raw_socket("h1")
            # The gRPC address is loopback in the switch's namespace.
            controller = subprocess.Popen(
                middle.command(
                    *(sys.executable, "-c", shell, switch.fields["grpc"]),
                    *(str(program.with_suffix(".p4info.txtpb")), str(program)),
                ),
                stdout=subprocess.PIPE,
                text=True,
            )
            try:
                assert raw.recv(2048) == b"\xff" * 12 + b"\x88\xb5out"
                raw.send(b"\x02\0\0\0\0\x99" + b"\xff" * 6 + b"\x88\xb5in")
                told, _ = controller.communicate(timeout=WAIT_S)
            finally:
                controller.kill()
                controller.communicate()
                raw.close()
            said = switch.stop()
    sent = b"\x02\0\0\0\0\x99" + b"\xff" * 6 + b"\x88\xb5in"
    assert told.splitlines()[-1] == f"{sent.hex()} 01"  # ingress port 1
    assert said == "stopped: received=2 copies=0 sent=2 queued=0 dropped=0\n"
