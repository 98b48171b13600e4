"""A Linux router as a target: the kernel's own SRv6 (seg6local), set up from a trace's tables."""

from __future__ import annotations

import ipaddress
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from softswitch.tables import ActionCall, Entry, MemberRef
from tests.traces.format import Trace
from tests.traces.observation import Observation
from tests.traces.targets.bench import Bench, switch_interface

SID_BITS = 48
FLAVOR = "flavors next-csid lblen 32 nflen 16"
DEADLINE_S = 10.0
ETHERTYPE_IPV6 = b"\x86\xdd"
PROTOCOL_HOP_BY_HOP, PROTOCOL_ICMPV6 = 0, 58


class RouterError(Exception):
    """The kernel cannot be set up as a router, or lost what it should forward."""


@contextmanager
def _on_one_cpu() -> Iterator[None]:
    """The calling thread does not move to another CPU meanwhile."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


class LinuxRouter:
    """A namespace that forwards as `my_sid`, `next_sid`, `ipv6_route` and `neighbor` say.

    Of actions: un (End), ua (End.X), to_port; of action profiles: members, no groups. A SID that
    is in no table has no route, so the kernel drops what the switch drops. The kernel also answers
    with ICMPv6 errors and joins multicast groups; these frames are left out.

    A context manager. While it is entered, the calling thread stays on one CPU: the kernel then
    forwards packets in the order in which they were sent.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._stack = ExitStack()

    def __enter__(self) -> LinuxRouter:
        with ExitStack() as stack:
            cpus = os.sched_getaffinity(0)
            stack.callback(os.sched_setaffinity, 0, cpus)
            os.sched_setaffinity(0, {min(cpus)})
            self._bench = stack.enter_context(Bench(self.trace.ports))
            with self._bench.namespace.entered():
                for command in self.commands(self.trace):
                    done = subprocess.run(
                        ["ip", *command.split()], capture_output=True, text=True, check=False
                    )
                    if done.returncode:
                        raise RouterError(f"ip {command}: {done.stderr.strip()}")
                    if command.startswith("link"):
                        self._enable(command.split()[2])
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def forward(
        self, packets: Iterable[tuple[int, bytes]], least: Mapping[int, int] | None = None
    ) -> dict[int, list[bytes]]:
        """Send (port, frame) one by one; frames by the port on which they came out, in order.

        On a busy machine the kernel may hand what waits for one CPU to another. `least` says how
        many frames must come out of each port: they are waited for, up to the deadline.

        A packet of our own goes last, and when it is out, so is everything before it: all are sent
        from one CPU, in whose queue the kernel keeps them in order. Raises RouterError if it is
        lost.
        """
        frames: dict[int, list[bytes]] = {port: [] for port in self.trace.ports}
        marker = os.urandom(16)
        with _on_one_cpu():
            for port, frame in packets:
                self._bench.send(port, frame)
            self._bench.send(*self._fence(marker))
        over = False
        while not over or any(len(frames[port]) < count for port, count in (least or {}).items()):
            if not self._bench.collect(DEADLINE_S):
                if over:
                    break  # whoever compares says what is missing
                raise RouterError("the last packet did not come out")
            for port, captured in self._bench.take().items():
                for frame in captured:
                    if frame.endswith(marker):
                        over = True
                    elif not is_noise(frame):
                        frames[port].append(frame)
        return frames

    def run(self, trace: Trace) -> Observation:
        """See `Target`; the trace must be the one of this router. Counters are not its business."""
        assert trace is self.trace
        return Observation(self.forward((s.port, s.frame) for s in trace.steps), {})

    def _fence(self, payload: bytes) -> tuple[int, bytes]:
        """A port, and a packet for it whose carrier leads back out of the same port."""
        found: dict[str, list[Entry]] = {}
        for table, entry in self.trace.entries:
            found.setdefault(table.rpartition(".")[2], []).append(entry)
        port, own_mac = next(
            (int(str(entry.match[0])), entry.target.args[0])
            for entry in found["neighbor"]
            if isinstance(entry.target, ActionCall)
        )
        (own,) = next(e.match for e in found["my_sid"] if _action(e) == "un")
        (following,) = next(e.match for e in found["next_sid"] if _arguments(e) == (port,))
        assert isinstance(own, int)
        assert isinstance(following, int)
        carrier = own << 80 | (following & 0xFFFF) << 64
        packet = IPv6(src="2001:db8::ffff", dst=str(ipaddress.IPv6Address(carrier)), nh=59)
        frame = Ether(src="02:00:00:00:00:01", dst=_mac(own_mac)) / packet / Raw(payload)
        return port, bytes(frame)

    @staticmethod
    def commands(trace: Trace) -> Iterator[str]:
        """What `ip` is to be told, in order."""
        members = {(profile, number): call for profile, number, call in trace.members}
        usable = set()
        for table, entry in trace.entries:
            if table.endswith(".neighbor") and isinstance(entry.target, ActionCall):
                (port,) = entry.match
                usable.add(port)
                device = switch_interface(int(str(port)))
                source, destination = (_mac(value) for value in entry.target.args)
                yield f"link set {device} address {source}"
                yield f"-6 route add {_gateway(port)} dev {device}"
                yield f"-6 neigh replace {_gateway(port)} lladdr {destination} dev {device}"
        for table, entry in trace.entries:
            if table.endswith((".my_sid", ".next_sid")) and isinstance(entry.target, ActionCall):
                (sid,) = entry.match
                assert isinstance(sid, int)
                prefix = f"{ipaddress.IPv6Address(sid << (128 - SID_BITS))}/{SID_BITS}"
                if not usable.issuperset(entry.target.args):
                    continue  # to a port without a neighbour
                yield f"-6 route add {prefix} {_behaviour(entry.target, trace)}"
            elif table.endswith(".ipv6_route"):
                assert isinstance(entry.target, MemberRef)
                (match,) = entry.match
                assert isinstance(match, tuple)
                call = members[(trace.program.tables[table].profile or "", entry.target.member_id)]
                prefix = f"{ipaddress.IPv6Address(match[0])}/{match[1]}"
                yield f"-6 route add {prefix} {_via(call.args[0])}"

    @staticmethod
    def _enable(device: str) -> None:
        """Let IPv6 and SRv6 work on an interface, as quietly as can be."""
        settings: Mapping[str, int] = {
            "addr_gen_mode": 1,
            "accept_dad": 0,
            "router_solicitations": 0,
            "seg6_enabled": 1,
            "forwarding": 1,
            "disable_ipv6": 0,
        }
        for name in (device, "all"):
            for setting, value in settings.items():
                path = Path("/proc/sys/net/ipv6/conf") / name / setting
                if name == device or setting in ("seg6_enabled", "forwarding"):
                    path.write_text(str(value))


def is_noise(frame: bytes) -> bool:
    """Whether the kernel made a frame itself: ICMPv6, with or without hop-by-hop options."""
    return frame[12:14] == ETHERTYPE_IPV6 and frame[20] in (PROTOCOL_HOP_BY_HOP, PROTOCOL_ICMPV6)


def _action(entry: Entry) -> str:
    assert isinstance(entry.target, ActionCall)
    return entry.target.action.rpartition(".")[2]


def _arguments(entry: Entry) -> tuple[int, ...]:
    assert isinstance(entry.target, ActionCall)
    return entry.target.args


def _mac(value: int) -> str:
    return value.to_bytes(6, "big").hex(":")


def _gateway(port: object) -> str:
    """The address by which the far end of a port is known; it is never on the wire."""
    return f"2001:db8::{int(str(port)):x}"


def _via(port: int) -> str:
    return f"via {_gateway(port)} dev {switch_interface(port)}"


def _behaviour(call: ActionCall, trace: Trace) -> str:
    name = call.action.rpartition(".")[2]
    any_device = switch_interface(trace.ports[0])
    if name == "un":
        return f"encap seg6local action End {FLAVOR} dev {any_device}"
    if name == "ua":
        port = call.args[0]
        return (
            f"encap seg6local action End.X nh6 {_gateway(port)} {FLAVOR} "
            f"dev {switch_interface(port)}"
        )
    if name == "to_port":
        return _via(call.args[0])
    raise NotImplementedError(name)
