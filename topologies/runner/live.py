"""What can be done to a fabric that is up: links and switches that fail and come back.

A link that is down has both its interfaces down, so that both neighbours see it, as with a cable
that is pulled. A switch that is killed is one that lost its power: its process ends at once and its
links go down. One that is a black hole keeps its links up and forwards nothing.
"""

from __future__ import annotations

import select
import signal
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NoReturn

from topologies.model import Link, LinkEnd, Switch, TopologyError
from topologies.runner import links
from topologies.runner.control import ControlServer
from topologies.runner.control_plane import ControlPlane
from topologies.runner.deployment import Deployment, host_interface, switch_interface
from topologies.runner.errors import RunnerError, UsageError
from topologies.units import parse_rate_bps, rate_text

UNLIMITED: Final = "unlimited"


class LiveFabric:
    """Carries out requests on a deployment that is up, and watches its processes meanwhile.

    From when it is made its control socket takes requests, which wait for `serve`.
    """

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._fabric = deployment.fabric
        #: By name; what the user took down stays down when a switch comes back
        self._links_down: set[str] = set()
        #: By switch and port, where it is not the topology's
        self._rates: dict[tuple[str, int], int | None] = {}
        #: Links are down with their switch
        self._killed: set[str] = set()
        self._server = ControlServer(deployment.folder.sockets, self.handle)

    def __enter__(self) -> LiveFabric:
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.close()

    def serve(self, report: Callable[[str], None]) -> NoReturn:
        """Work until a signal ends it; `report` gets a text for each process that ends itself."""
        while True:
            poller = select.poll()
            poller.register(self._server, select.POLLIN)
            for descriptor in self._deployment.unreported():
                poller.register(descriptor, select.POLLIN)
            ready = [descriptor for descriptor, _ in poller.poll()]
            for failure in self._deployment.new_failures():
                report(failure)
            if self._server.fileno() in ready:
                self._server.serve_one()

    def handle(self, request: Mapping[str, Any]) -> Sequence[str]:
        """Carry out one request; returns lines that say what is so now. Raises RunnerError."""
        match request:
            case {"command": "link", "nodes": [str(node), str(other)], "action": str(action)}:
                return self._link(self._find_link(node, other), action, request.get("value"))
            case {"command": "switch", "node": str(node), "action": str(action)}:
                return self._switch(self._find_switch(node), action)
        raise UsageError(f"request {dict(request)!r}: want command link or switch with its fields")

    def _find_link(self, node: str, other: str) -> Link:
        try:
            return self._fabric.link(node, other)
        except TopologyError as error:
            raise UsageError(str(error)) from None

    def _find_switch(self, node: str) -> Switch:
        try:
            return self._fabric.switch(node)
        except TopologyError as error:
            raise UsageError(str(error)) from None

    # --- links ---

    def _link(self, link: Link, action: str, value: object) -> Sequence[str]:
        match action, value:
            case "up" | "down", None:
                return self._set_link(link, up=action == "up")
            case "rate", str(text):
                return self._set_rate(link, parse_rate(text))
        raise UsageError(f"link {link.name}: {action!r} {value!r}: want up, down or rate RATE")

    def _set_link(self, link: Link, *, up: bool) -> Sequence[str]:
        needs_links_up = self._deployment.target.needs_links_up
        ends = [
            end
            for end in _ends(link)
            if not needs_links_up or end.node not in self._deployment.places
        ]
        if not ends:
            raise RunnerError(
                f"{link.name}: a {self._deployment.target.name} switch does not survive "
                "an interface that goes down; kill one of the two switches, or take a host's link"
            )
        if up:
            self._links_down.discard(link.name)
        else:
            self._links_down.add(link.name)
        for end in ends:
            if end.node not in self._killed:
                namespace = self._deployment.namespaces[end.node]
                links.set_state(namespace, _interface(link, end), up=up)
        dead = [end.node for end in _ends(link) if end.node in self._killed]
        if dead:
            when = "" if up else ", and stays down when it is restarted"
            return [f"{link.name} is down as long as {' and '.join(dead)} is{when}"]
        return [f"{link.name} is {'up' if up else 'down'}"]

    def _set_rate(self, link: Link, rate_bps: int | None) -> Sequence[str]:
        deployment = self._deployment
        if not deployment.target.can_set_rates():
            raise RunnerError(
                f"link {link.name}: the rates of this {deployment.target.name} "
                "cannot be set; a note of `mrc-topology up` says why"
            )
        ends = [end for end in _ends(link) if end.node in deployment.places]
        for end in ends:
            self._check_alive(end.node)
        for end in ends:
            deployment.target.set_rate(deployment.places[end.node], end.port, rate_bps)
            self._rates[end.node, end.port] = rate_bps
        lines = [f"{end.node} sends on port {end.port} at {rate_text(rate_bps)}" for end in ends]
        hosts = [end.node for end in _ends(link) if end.node not in deployment.places]
        return lines + [f"{host} is not limited: rates are those of switches" for host in hosts]

    # --- switches ---

    def _switch(self, switch: Switch, action: str) -> Sequence[str]:
        match action:
            case "kill":
                self._check_alive(switch.name)
                self._kill(switch)
                return [f"{switch.name} is killed, its links are down"]
            case "restart":
                return self._restart(switch)
            case "blackhole":
                self._check_alive(switch.name)
                place = self._deployment.places[switch.name]
                self._deployment.target.make_black_hole(place)
                return [f"{switch.name} forwards nothing, its links are up; `restart` ends it"]
        raise UsageError(f"switch {switch.name}: want kill, restart or blackhole, not {action!r}")

    def _check_alive(self, name: str) -> None:
        if self._deployment.processes[name].exit_code is not None:
            raise RunnerError(f"{name} is not running; mrc-topology switch {name} restart")

    def _kill(self, switch: Switch) -> None:
        self._deployment.end_switch(switch.name, signal.SIGKILL)
        self._killed.add(switch.name)
        self._set_ports(switch, up=False)

    def _restart(self, switch: Switch) -> Sequence[str]:
        """A new process, its tables written, then its links: nobody sends to it before."""
        deployment, name = self._deployment, switch.name
        self._kill(switch)
        early = deployment.target.needs_links_up
        try:
            if early:
                self._raise_ports(switch)
            place = deployment.start_switch(switch)
            report = ControlPlane(self._fabric, [place]).install()
            for (node, port), rate_bps in self._rates.items():
                if node == name:
                    deployment.target.set_rate(place, port, rate_bps)
        except RunnerError:
            self._kill(switch)
            raise
        self._killed.discard(name)
        if not early:
            self._raise_ports(switch)
        return [f"{name} is up again, {report.entries} table entries written and verified"]

    def _raise_ports(self, switch: Switch) -> None:
        early = self._deployment.target.needs_links_up
        self._set_ports(switch, up=True, but=() if early else self._links_down)

    def _set_ports(self, switch: Switch, *, up: bool, but: Collection[str] = ()) -> None:
        namespace = self._deployment.namespaces[switch.name]
        for link in self._links_of(switch):
            if link.name not in but:
                end = next(end for end in _ends(link) if end.node == switch.name)
                links.set_state(namespace, switch_interface(end.port), up=up)

    def _links_of(self, switch: Switch) -> Iterator[Link]:
        for port in self._fabric.ports(switch.id):
            yield self._fabric.link(switch.name, port.peer.node)


def parse_rate(text: str) -> int | None:
    """'10Mbps' → bits per second, 'unlimited' → None. Raises UsageError."""
    if text == UNLIMITED:
        return None
    try:
        return parse_rate_bps(text)
    except ValueError:
        raise UsageError(f"rate {text!r} must be like 10Mbps, or {UNLIMITED}") from None


def _ends(link: Link) -> tuple[LinkEnd, LinkEnd]:
    return link.lower, link.upper


def _interface(link: Link, end: LinkEnd) -> str:
    return host_interface(link.plane) if end.node.startswith("h") else switch_interface(end.port)
