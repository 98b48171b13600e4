"""What can be done to a fabric that is up: links and switches that fail and come back.

A link that is down has both its interfaces down, so that both neighbours see it, as with a cable
that is pulled. A switch that is killed is one that lost its power: its process ends at once and its
links go down. One that is a black hole keeps its links up and forwards nothing.
"""

from __future__ import annotations

import select
import signal
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NoReturn

from topologies.model import Link, LinkEnd, Switch, TopologyError
from topologies.runner.control import ControlServer
from topologies.runner.control_plane import ControlPlane
from topologies.runner.deployment import Deployment
from topologies.runner.errors import RunnerError, UsageError
from topologies.runner.impairment import DIRECTIONS
from topologies.runner.turns import Turns
from topologies.units import parse_rate_bps, rate_text

UNLIMITED: Final = "unlimited"
_WAYS: Final = {"up": "away from the hosts", "down": "towards the hosts", "both": "both ways"}


class LiveFabric:
    """Carries out requests on a deployment that is up, and watches its processes meanwhile.

    From when it is made its control socket takes requests, which wait for `serve`. `handle` and
    `set_box` may be called by several threads: a scenario's faults, and requests from outside
    meanwhile. Acts on one switch, and on one link, are done one after the other.
    """

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._fabric = deployment.fabric
        #: By name; what the user took down stays down when a switch comes back
        self._links_down: set[str] = set()
        #: By switch, of ports whose rate is not the topology's; whose turn it is may touch its own
        self._rates: dict[str, dict[int, int | None]] = defaultdict(dict)
        #: Links are down with their switch
        self._killed: set[str] = set()
        #: With switches and links, for as long as an act takes: a process that starts takes seconds
        self.turns = Turns()
        #: What is wanted of interfaces is put down and done as one. Not held for longer: a link may
        #: be cut while a switch at its end starts
        self._lock = threading.RLock()
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

    def fileno(self) -> int:
        """Readable when somebody wants something: for who has a loop of its own."""
        return self._server.fileno()

    def serve_one(self) -> None:
        """Carry out the request of one who waits, and answer."""
        self._server.serve_one()

    def handle(self, request: Mapping[str, Any]) -> Sequence[str]:
        """Carry out one request; returns lines that say what is so now. Raises RunnerError."""
        match request:
            case {"command": "link", "nodes": [str(node), str(other)], "action": str(action)}:
                link = self._find_link(node, other)
                value, direction = request.get("value"), request.get("direction")
                if action in ("loss", "corruption"):
                    return self._impair(link, action, value, direction)
                if direction is not None:
                    raise UsageError(f"link {link.name}: {action} has no direction")
                return self._link(link, action, value)
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
        raise UsageError(
            f"link {link.name}: {action!r} {value!r}: want up, down, rate RATE, loss P "
            "or corruption P"
        )

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
        with self.turns.with_all(link.name), self._lock:
            if up:
                self._links_down.discard(link.name)
            else:
                self._links_down.add(link.name)
            for end in ends:
                if end.node not in self._killed:
                    self._deployment.set_interface(link, end, up=up)
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
        with self.turns.with_all(*(end.node for end in ends)):
            for end in ends:
                self._check_alive(end.node)
            for end in ends:
                deployment.target.set_rate(deployment.places[end.node], end.port, rate_bps)
                self._rates[end.node][end.port] = rate_bps
        lines = [f"{end.node} sends on port {end.port} at {rate_text(rate_bps)}" for end in ends]
        hosts = [end.node for end in _ends(link) if end.node not in deployment.places]
        return lines + [f"{host} is not limited: rates are those of switches" for host in hosts]

    def _impair(self, link: Link, what: str, value: object, direction: object) -> Sequence[str]:
        way = "both" if direction is None else str(direction)
        if way not in DIRECTIONS:
            raise UsageError(
                f"link {link.name}: direction {direction!r} must be {', '.join(DIRECTIONS)}"
            )
        probability = parse_probability(value)
        box = self._deployment.boxes.get(link.name)
        if box is None:
            raise RunnerError(
                f"{link.name} has no impairment box, and only a fabric's start can put one there: "
                f"mrc-topology up --impair {link.lower.node}:{link.upper.node}"
            )
        with self.turns.with_all(link.name):
            if what == "loss":
                box.set(way, loss=probability)
            else:
                box.set(way, corruption=probability)
        verb = "loses" if what == "loss" else "damages"
        return [f"{link.name} {verb} {100 * probability:g}% of all frames {_WAYS[way]}"]

    def set_box(
        self, link: str, impairments: Callable[[], Mapping[str, tuple[float, float]]]
    ) -> None:
        """Let the box in a link, by name, do this: (loss, corruption) of frames that go a way.

        `impairments` is asked when it is this act's turn. Raises RunnerError.
        """
        with self.turns.with_all(link):
            for way, (loss, corruption) in impairments().items():
                self._deployment.boxes[link].set(way, loss=loss, corruption=corruption)

    # --- switches ---

    def _switch(self, switch: Switch, action: str) -> Sequence[str]:
        with self.turns.with_all(switch.name):
            return self._act_on_switch(switch, action)

    def _act_on_switch(self, switch: Switch, action: str) -> Sequence[str]:
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
                return [f"{switch.name} forwards nothing, its links are up; `forward` ends it"]
            case "forward":
                self._check_alive(switch.name)
                place = self._deployment.places[switch.name]
                self._deployment.target.end_black_hole(place)
                return [f"{switch.name} forwards again, with the tables that it had"]
        raise UsageError(
            f"switch {switch.name}: want kill, restart, blackhole or forward, not {action!r}"
        )

    def _check_alive(self, name: str) -> None:
        if self._deployment.processes[name].exit_code is not None:
            raise RunnerError(f"{name} is not running; mrc-topology switch {name} restart")

    def _kill(self, switch: Switch) -> None:
        self._deployment.end_switch(switch.name, signal.SIGKILL)
        with self._lock:
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
            for port, rate_bps in self._rates[name].items():
                deployment.target.set_rate(place, port, rate_bps)
        except RunnerError:
            self._kill(switch)
            raise
        with self._lock:
            self._killed.discard(name)
            if not early:
                self._raise_ports(switch)
        return [f"{name} is up again, {report.entries} table entries written and verified"]

    def _raise_ports(self, switch: Switch) -> None:
        early = self._deployment.target.needs_links_up
        self._set_ports(switch, up=True, but=() if early else self._links_down)

    def _set_ports(self, switch: Switch, *, up: bool, but: Collection[str] = ()) -> None:
        with self._lock:
            for link in self._links_of(switch):
                if link.name not in but:
                    end = next(end for end in _ends(link) if end.node == switch.name)
                    self._deployment.set_interface(link, end, up=up)

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


def parse_probability(value: object) -> float:
    """0 to 1, or a percentage: '0.01', '1%'. Raises UsageError."""
    text = str(value)
    try:
        number = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise UsageError(f"probability {value!r} must be from 0 to 1, or from 0% to 100%")
    return number


def _ends(link: Link) -> tuple[LinkEnd, LinkEnd]:
    return link.lower, link.upper
