"""A fabric brought up: namespaces, links, switches and host agents of one run.

    h0 ─ veth ─ p0-t0-0 ─ veth ─ p0-t1-0 ─ …        one network namespace per node

One namespace per switch, not one for all: a switch sees its own ports only, as hardware does;
each has a loopback of its own, so nothing that listens on a port can collide; and
`mrc-topology exec p0-t1-0 -- tcpdump -i port1` shows what one switch sees. They cost less than
a millisecond each. P4Runtime is served on Unix sockets, which work across them.
"""

from __future__ import annotations

import select
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final

from topologies.addressing import nic_mac, switch_mac
from topologies.model import Fabric, Host, Link, LinkEnd, Switch, TopologyError
from topologies.runner import agents, links, port_capture
from topologies.runner.check.host_port import HostPort
from topologies.runner.errors import UsageError
from topologies.runner.impairment import ImpairmentBox
from topologies.runner.links import LINK_MTU_BYTES, InterfaceSpec
from topologies.runner.namespaces import NetworkNamespace
from topologies.runner.processes import ManagedProcess, stop_all, wait_until_ready
from topologies.runner.run_store import RunFolder
from topologies.runner.targets import PortLimit, SwitchPlace, Target

START_TIMEOUT_S: Final = 60.0
#: Added for every switch: they start side by side, on as many cores as there are
START_TIMEOUT_PER_SWITCH_S: Final = 3.0
_STOP_GRACE_S: Final = 5.0


def host_interface(plane: int) -> str:
    """The NIC port of a host to a plane."""
    return f"plane{plane}"


def switch_interface(port: int) -> str:
    """The interface of a switch port."""
    return f"port{port}"


def interface_of(end: LinkEnd) -> str:
    """The interface at an end of a link."""
    return host_interface(end.port) if end.is_host else switch_interface(end.port)


class Deployment:
    """Owns everything that a run has in the kernel; `close` takes it down."""

    def __init__(
        self,
        fabric: Fabric,
        target: Target,
        folder: RunFolder,
        *,
        impaired_links: Collection[str] = frozenset(),
    ) -> None:
        """`impaired_links`: names of the links that get an impairment box.

        Raises UsageError for one that is not in the fabric.
        """
        self.fabric = fabric
        self.target = target
        self.folder = folder
        self.namespaces: dict[str, NetworkNamespace] = {}
        self.places: dict[str, SwitchPlace] = {}
        self.processes: dict[str, ManagedProcess] = {}
        #: Of the hosts, where they were started
        self.agents: dict[str, ManagedProcess] = {}
        #: Of the nodes that captures run on
        self.captures: dict[str, ManagedProcess] = {}
        #: By link
        self.boxes: dict[str, ImpairmentBox] = {}
        self._impaired_links = [_find_link(fabric, name) for name in sorted(impaired_links)]
        self._resources = ExitStack()
        self._reported: set[str] = set()

    # --- up ---

    def build_network(self) -> None:
        """Make every node's namespace and every link, up. Raises RunnerError."""
        fabric = self.fabric
        names = [host.name for host in fabric.hosts()]
        names += [switch.name for switch in fabric.switches()]
        for name in names:
            self.namespaces[name] = self._resources.enter_context(NetworkNamespace(name))
        for number, link in enumerate(self._impaired_links):
            namespace = self._resources.enter_context(NetworkNamespace(link.name))
            self.namespaces[link.name] = namespace
            self.boxes[link.name] = ImpairmentBox(link, number, namespace, self.folder)
        mtu_bytes = max(LINK_MTU_BYTES, fabric.interface_mtu_bytes)
        links.create_links(self._cables(), mtu_bytes)
        for namespace in self.namespaces.values():
            links.bring_up(namespace)
        self.folder.state.namespaces = {
            name: namespace.fd for name, namespace in self.namespaces.items()
        }
        self.folder.save()

    def _cables(self) -> Iterator[tuple[InterfaceSpec, InterfaceSpec]]:
        """Both ends of every veth pair: one for a link, two where a box is in between."""
        for link in self.fabric.links():
            lower, upper = self._end(link, link.lower), self._end(link, link.upper)
            box = self.boxes.get(link.name)
            if box is None:
                yield lower, upper
            else:
                yield lower, box.facing(link.lower)
                yield box.facing(link.upper), upper

    def _end(self, link: Link, end: LinkEnd) -> InterfaceSpec:
        namespace = self.namespaces[end.node]
        if end.is_host:
            mac = nic_mac(link.plane, self.fabric.host(end.node).id)
        else:
            mac = switch_mac(self.fabric.switch(end.node).id, end.port)
        return InterfaceSpec(namespace, interface_of(end), mac)

    def start_switches(self, on_ready: Callable[[str], None] = lambda name: None) -> None:
        """Start every switch and impairment box and wait until all take P4Runtime calls.

        `on_ready` gets the name of each switch as it becomes ready. Raises RunnerError with exit
        code and log of the first that fails.
        """
        self._resources.callback(self._stop_switches)
        for switch in self.fabric.switches():
            place = self._place(switch)
            self.places[switch.name] = place
            self.processes[switch.name] = ManagedProcess(
                switch.name, self.target.command(place), place.namespace, place.log
            )
        waited_for: list[tuple[ManagedProcess, Callable[[], bool]]] = [
            (process, partial(self.target.is_ready, self.places[name]))
            for name, process in self.processes.items()
        ]
        waited_for += [(box.start(), box.is_ready) for box in self.boxes.values()]
        wait_until_ready(
            waited_for,
            START_TIMEOUT_S + START_TIMEOUT_PER_SWITCH_S * len(waited_for),
            lambda process: on_ready(process.name) if process.name in self.processes else None,
        )
        for place in self.places.values():
            self.target.prepare(place)
        for box in self.boxes.values():
            box.load()
        self.folder.state.grpc = {name: place.grpc_address for name, place in self.places.items()}
        self.folder.save()

    def start_agents(
        self,
        on_ready: Callable[[str], None] = lambda name: None,
        options: Sequence[str] = (),
    ) -> None:
        """Start every host's agent and wait until all have their control sockets.

        `options` are further ones of `mrc-host run`. Raises RunnerError with exit code and log of
        the first that fails.
        """
        self._resources.callback(self._stop_agents)
        for host in self.fabric.hosts():
            self.agents[host.name] = ManagedProcess(
                host.name,
                agents.command(self.fabric, host, self.folder, options),
                self.namespaces[host.name],
                self.folder.logs / f"{host.name}.log",
            )
        wait_until_ready(
            [
                (process, lambda name=name: agents.is_ready(self.folder, name))  # type: ignore[misc]
                for name, process in self.agents.items()
            ],
            START_TIMEOUT_S + START_TIMEOUT_PER_SWITCH_S * len(self.agents),
            lambda process: on_ready(process.name),
        )

    def start_captures(self, directory: Path) -> None:
        """Capture every link, at its end nearer the hosts, until `stop_captures`.

        Raises RunnerError with exit code and log of the first that fails.
        """
        interfaces: dict[str, list[str]] = {}
        for link in self.fabric.links():
            interfaces.setdefault(link.lower.node, []).append(self._end(link, link.lower).name)
        self._resources.callback(self.stop_captures)
        waited_for: list[tuple[ManagedProcess, Callable[[], bool]]] = []
        for node, names in interfaces.items():
            process = self.captures[node] = ManagedProcess(
                f"capture on {node}",
                (sys.executable, "-m", port_capture.__name__, str(directory), node, *names),
                self.namespaces[node],
                self.folder.logs / f"capture-{node}.log",
            )
            files = [port_capture.capture_file(directory, node, name) for name in names]
            waited_for.append((process, partial(_all_exist, files)))
        timeout_s = START_TIMEOUT_S + START_TIMEOUT_PER_SWITCH_S * len(waited_for)
        wait_until_ready(waited_for, timeout_s, lambda process: None)

    def stop_captures(self) -> list[str]:
        """End the captures; returns a line for each whose files are not whole."""
        captures, self.captures = self.captures, {}
        stop_all(list(captures.values()), _STOP_GRACE_S)
        return [
            f"{process.name} missed frames; {process.log} says how many"
            for process in captures.values()
            if process.exit_code != 0
        ]

    def _place(self, switch: Switch) -> SwitchPlace:
        ports = list(self.fabric.ports(switch.id))
        return SwitchPlace(
            name=switch.name,
            device_id=switch.device_id,
            namespace=self.namespaces[switch.name],
            interfaces={port.number: switch_interface(port.number) for port in ports},
            limits={port.number: PortLimit(port.rate_bps, port.queue) for port in ports},
            frame_bytes=self.fabric.path_mtu_bytes + self.fabric.trim.mrc_bytes,
            sockets=self.folder.sockets,
            log=self.folder.logs / f"{switch.name}.log",
        )

    # --- while it is up ---

    def set_interface(self, link: Link, end: LinkEnd, *, up: bool) -> None:
        """Set an end's interface up or down; the other end sees it. Raises RunnerError."""
        spec = self._end(link, end)
        links.set_state(spec.namespace, spec.name, up=up)
        box = self.boxes.get(link.name)
        if box is not None:
            box.follow(end, up=up)

    def open_host_port(self, host: Host, plane: int) -> HostPort:
        """A packet socket on a NIC port, closed with the deployment."""
        namespace = self.namespaces[host.name]
        port = HostPort(host.name, plane, namespace, host_interface(plane))
        self._resources.callback(port.close)
        return port

    def watched(self) -> dict[int, str]:
        """Descriptors that become readable when a switch process ends, and the switch's name."""
        return {
            process.pidfd: name
            for name, process in self.processes.items()
            if process.exit_code is None
        }

    def dead_switches(self) -> list[str]:
        """Switches whose processes have ended."""
        return [name for name, process in self.processes.items() if process.exit_code is not None]

    def wait_for_dead_switches(self, timeout_s: float) -> list[str]:
        """`dead_switches`, waiting until there is one that was not known when this was called.

        For a switch that no longer answers: its sockets are gone a moment before its process is.
        """
        poller = select.poll()
        for descriptor in self.watched():
            poller.register(descriptor, select.POLLIN)
        poller.poll(int(timeout_s * 1000))
        return self.dead_switches()

    def failures(self) -> list[str]:
        """For each switch or box process that has ended: which, how, and the end of its log."""
        return [
            process.failure("ended while packets were under way")
            for process in (*self.processes.values(), *self._box_processes().values())
            if process.exit_code is not None
        ]

    def unreported(self) -> list[int]:
        """Descriptors that become readable when a process ends of which nobody knows yet."""
        return [
            process.pidfd
            for name, process in self._all_processes().items()
            if name not in self._reported
        ]

    def new_failures(self) -> list[str]:
        """For each process that has ended since this was last asked: which, how, end of its log."""
        ended = {
            name: process
            for name, process in self._all_processes().items()
            if name not in self._reported and process.exit_code is not None
        }
        self._reported |= set(ended)
        return [process.failure("ended") for process in ended.values()]

    def _all_processes(self) -> dict[str, ManagedProcess]:
        captures = {f"capture on {node}": each for node, each in self.captures.items()}
        return {**self.processes, **self.agents, **self._box_processes(), **captures}

    def _box_processes(self) -> dict[str, ManagedProcess]:
        return {name: box.process for name, box in self.boxes.items() if box.process is not None}

    def end_switch(self, name: str, signal_number: int) -> None:
        """End a switch process on purpose: it is no failure. Returns when it has ended."""
        process = self.processes[name]
        self._reported.add(name)
        process.signal(signal_number)
        process.wait()

    def start_switch(self, switch: Switch) -> SwitchPlace:
        """Start a switch whose process has ended, and wait until it takes P4Runtime calls.

        Its tables are empty. Raises RunnerError with exit code and log where it fails.
        """
        name, place = switch.name, self.places[switch.name]
        self.processes[name].close()
        self.target.clear(place)
        process = ManagedProcess(name, self.target.command(place), place.namespace, place.log)
        self.processes[name] = process
        is_ready = [(process, lambda: self.target.is_ready(place))]
        timeout_s = START_TIMEOUT_S + START_TIMEOUT_PER_SWITCH_S
        wait_until_ready(is_ready, timeout_s, lambda process: None)
        self.target.prepare(place)
        self._reported.discard(name)
        return place

    # --- down ---

    def _stop_switches(self) -> None:
        stop_all([*self.processes.values(), *self._box_processes().values()], _STOP_GRACE_S)

    def _stop_agents(self) -> None:
        stop_all(list(self.agents.values()), _STOP_GRACE_S)

    def close(self) -> None:
        """Stop agents and switches, close sockets, let go of the namespaces."""
        self._resources.close()

    def __enter__(self) -> Deployment:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _all_exist(files: Iterable[Path]) -> bool:
    """Whether all of the files are there."""
    return all(path.exists() for path in files)


def _find_link(fabric: Fabric, name: str) -> Link:
    lower, _, upper = name.partition("--")
    try:
        return fabric.link(lower, upper)
    except TopologyError as error:
        raise UsageError(f"link {name}: {error}") from None
