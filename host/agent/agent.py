"""One host: its NIC, its interfaces, and everybody who uses them."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Any, Final

from host.adapter import PortChanged, QpError
from host.agent.driver import PacketPort, RealTimeDriver
from host.agent.errors import AgentError, UsageError
from host.agent.jsonlines import shown
from host.agent.memory_budget import DEFAULT_MEMORY_BYTES, MemoryBudget
from host.agent.sampling import Account, DataTally
from host.agent.timing import RealTimeProfiles, TimingOptions, real_time_config
from host.config import NicConfig
from host.endpoint_settings import EndpointSettings
from host.nic import Nic, QpEvEvent
from host.paths.naming import host_name
from host.qp.endpoint import PeerPortsChanged
from host.verbs import Context, ContextAttr, Device, TimedOutError
from host.verbs.ctl import EpOpType, EpReq, Ev
from rawsocket.af_packet import AfPacketPort, interface_mtu_bytes
from rawsocket.links import LinkMonitor
from rawsocket.losses import PortError
from topologies.addressing import HostId, ev_universe

if TYPE_CHECKING:
    from host.agent.workspace import Region, Workspace

log = logging.getLogger(__name__)

#: EV probes that a calibration sends one after another on each plane
_CALIBRATION_ROUNDS: Final = 5
_PROBE_TIMEOUT_NS: Final = 300_000_000
#: Events kept for those who ask later
_KEPT_EVENTS: Final = 4096


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """What the user may set."""

    timing: TimingOptions = field(default_factory=TimingOptions)
    endpoint: EndpointSettings = field(default_factory=EndpointSettings)
    #: Of the NIC's keys, numbers and orders; None: at random
    seed: int | None = None
    #: Memory of all users together
    memory_bytes: int = DEFAULT_MEMORY_BYTES


def interfaces_of(host_json: str) -> list[tuple[str, int]]:
    """Name and least MTU of each plane's interface, by a host's configuration file.

    Raises UsageError, naming what is missing.
    """
    try:
        document = json.loads(host_json)
        mtu_bytes = int(document["interface_mtu_bytes"])
        found = sorted((int(each["plane"]), str(each["name"])) for each in document["interfaces"])
    except KeyError as error:
        raise UsageError(f"not a host configuration: {error.args[0]} is missing") from None
    except (ValueError, TypeError, AttributeError) as error:
        raise UsageError(f"not a host configuration: {error}") from None
    return [(name, mtu_bytes) for _, name in found]


class Agent:
    """A NIC in real time. Made and used within a running asyncio loop.

    `ports` by plane are closed with it; `interfaces` are their names.
    """

    def __init__(
        self,
        config: NicConfig,
        ports: Mapping[int, PacketPort],
        *,
        links: LinkMonitor | None = None,
        options: AgentOptions | None = None,
    ) -> None:
        options = AgentOptions() if options is None else options
        self.config = config
        self.options = options
        self.profiles = RealTimeProfiles(
            ev_profile=options.endpoint.ev_profile,
            cc_profile=options.endpoint.cc_profile,
            assumed_rate_bps=options.timing.assumed_rate_bps,
        )
        seed = secrets.randbits(64) if options.seed is None else options.seed
        self.nic = Nic(config, seed=seed, profiles=self.profiles)
        self.interfaces = {plane: port.name for plane, port in ports.items()}
        self.driver = RealTimeDriver(self.nic, ports, links)
        #: Data frames sent, by path
        self.tally = DataTally(len(config.ports))
        self.driver.on_send = self.tally.add
        self.device = Device(self.nic, self.driver)
        self.driver.dispatch = self.device.dispatch
        #: For what the agent does itself: probes, states of ports and EVs
        self.system: Context = self.device.open_context(ContextAttr(net_admin=True))
        self.workspaces: set[Workspace] = set()
        self.memory = MemoryBudget(options.memory_bytes)
        #: Regions that other agents may ask for, by name
        self.published: dict[str, Region] = {}
        #: Flows and collectives that have an end here
        self.accounts: set[Account] = set()
        self.started_ns = time.monotonic_ns()
        #: What happened, oldest first, for those who ask later
        self.history: deque[dict[str, Any]] = deque(maxlen=_KEPT_EVENTS)
        #: Called with each thing that happens
        self.watchers: set[Callable[[dict[str, Any]], None]] = set()
        self.stopped = asyncio.Event()
        self._calibrations: dict[int, asyncio.Task[None]] = {}
        self._next_req_id = 0
        events = self.device.events
        events.subscribe(QpEvEvent, self._on_ev_event)
        events.subscribe(QpError, self._on_qp_error)
        events.subscribe(PortChanged, self._on_port_changed)
        events.subscribe(PeerPortsChanged, self._on_peer_ports_changed)
        self.driver.start()

    @classmethod
    def open(cls, host_json: str, options: AgentOptions | None = None) -> Agent:
        """The agent of a host's configuration file, on the interfaces that it names.

        Raises UsageError for a wrong file, AgentError where an interface cannot be used.
        """
        options = AgentOptions() if options is None else options
        interfaces = interfaces_of(host_json)
        try:
            config = real_time_config(host_json, options.timing, options.endpoint)
        except ValueError as error:
            raise UsageError(str(error)) from None
        ports: dict[int, PacketPort] = {}
        links: LinkMonitor | None = None
        try:
            for plane, (name, least_mtu_bytes) in enumerate(interfaces):
                ports[plane] = AfPacketPort(name)
                mtu_bytes = interface_mtu_bytes(name)
                if mtu_bytes < least_mtu_bytes:
                    raise PortError(
                        f"interface {name}: its MTU is {mtu_bytes}, it must be at least "
                        f"{least_mtu_bytes} (ip link set {name} mtu {least_mtu_bytes})"
                    )
            links = LinkMonitor()
            return cls(config, ports, links=links, options=options)
        except (PortError, OSError) as error:
            for port in ports.values():
                port.close()
            if links is not None:
                links.close()
            raise AgentError(f"{config.name}: {error}") from None

    @property
    def name(self) -> str:
        """The host's name."""
        return self.config.name

    def close(self) -> None:
        """Give everything back. Peers are not told: their retries run out."""
        for workspace in [*self.workspaces]:
            workspace.close()
        for task in self._calibrations.values():
            task.cancel()
        self.system.close()
        self.driver.close()

    # --- names ---

    @property
    def hosts_per_t0(self) -> int:
        """Hosts under each T0."""
        return self.config.destinations[0].hosts if self.config.destinations else 1

    def host_id(self, address: int) -> HostId | None:
        """Place of the host with an address; None for one that is none of the fabric's."""
        for t0, row in enumerate(self.config.destinations):
            downlink = address - int(row.prefix.network_address) - 1
            if 0 <= downlink < row.hosts:
                return HostId(t0, downlink)
        return None

    def host_name(self, address: int) -> str:
        """Name of the host with an address, or the address itself."""
        host = self.host_id(address)
        return str(IPv6Address(address)) if host is None else host_name(host, self.hosts_per_t0)

    def address_of(self, name: str) -> int:
        """Address of a host, given by name (h3) or by the address. Raises UsageError."""
        try:
            address = int(IPv6Address(name))
        except ValueError:
            is_number = name[:1] == "h" and name[1:].isdecimal() and len(name) < 10
            number = int(name[1:]) if is_number else -1
            rows = self.config.destinations
            t0, downlink = divmod(number, self.hosts_per_t0)
            if not 0 <= t0 < len(rows):
                last = len(rows) * self.hosts_per_t0 - 1
                raise UsageError(
                    f"host {shown(name)} does not fit: it must be h0..h{last} or an address"
                ) from None
            return int(rows[t0].prefix.network_address) + downlink + 1
        if self.host_id(address) is None:
            raise UsageError(f"{name} is the address of none of the fabric's hosts")
        return address

    # --- probes ---

    def evs_towards(self, address: int) -> list[int]:
        """All EVs of the addressing plan that lead to a host."""
        return list(ev_universe(len(self.config.ports), self.config.uplinks_towards(address)))

    async def probe(
        self, address: int, evs: list[int], timeout_ns: int = _PROBE_TIMEOUT_NS
    ) -> dict[int, int | None]:
        """Probe EVs to a host, all at once; the RTT of each in ns, None where no answer came."""
        gid = IPv6Address(address)
        first = self._next_req_id
        self._next_req_id = first + len(evs) & 0xFFFF
        ids = {(first + number) & 0xFFFF: ev for number, ev in enumerate(evs)}
        requests = [EpReq(req_id, gid, Ev(ev, (ev & 7) + 1)) for req_id, ev in ids.items()]
        batch = self.system.ctl.ep_batch_send(None, EpOpType.EV_PROBE, requests, timeout_ns)
        done = asyncio.get_running_loop().create_future()
        batch.on_done = lambda: None if done.done() else done.set_result(None)
        if not batch.done:
            await done
        found: dict[int, int | None] = dict.fromkeys(evs)
        try:
            responses = batch.result()
        except TimedOutError:
            responses = batch.responses
        for response in responses:
            found[ids[response.req_id]] = response.rtt
        return found

    async def calibrate(self, address: int) -> None:
        """Measure the RTT to a host, once. Raises AgentError when it answers on no path."""
        if address in self.profiles.measured or address == self.config.address:
            return
        task = self._calibrations.get(address)
        if task is None:
            task = asyncio.create_task(self._calibrate(address))
            self._calibrations[address] = task
            task.add_done_callback(lambda _: self._calibrations.pop(address, None))
        await asyncio.shield(task)

    async def _calibrate(self, address: int) -> None:
        by_plane: dict[int, list[int]] = {}
        for ev in self.evs_towards(address):
            by_plane.setdefault(ev & 7, []).append(ev)
        for number in range(_CALIBRATION_ROUNDS):
            evs = [found[number % len(found)] for found in by_plane.values()]
            for rtt_ns in (await self.probe(address, evs)).values():
                if rtt_ns is not None:
                    self.profiles.learn(address, rtt_ns)
        if address not in self.profiles.measured:
            paths = sum(map(len, by_plane.values()))
            raise AgentError(
                f"{self.host_name(address)} answers EV probes on none of {paths} paths: "
                "is its agent running, are the switches' tables written?"
            )

    # --- what happens ---

    def _tell(self, kind: str, *, now_ns: int | None = None, **facts: Any) -> None:
        """`now_ns`: when it was, where the NIC knows it better."""
        if now_ns is None:
            now_ns = time.monotonic_ns()
        event = {"event": kind, "time_ns": time.time_ns(), "now_ns": now_ns, **facts}
        self.history.append(event)
        for watcher in [*self.watchers]:
            watcher(event)

    def _on_ev_event(self, event: QpEvEvent) -> None:
        qp = self.nic.qps.get(event.qp_num)
        peer = None if qp is None else qp.attributes.peer_address
        change = event.event
        self._tell(
            "ev_state",
            now_ns=change.now_ns,
            qp=event.qp_num,
            peer=None if peer is None else self.host_name(peer),
            ev=change.ev,
            old=change.old,
            new=change.new,
            cause=change.cause,
            replaced_by=change.replaced_by,
        )

    def _on_qp_error(self, event: QpError) -> None:
        syndrome = None if event.syndrome is None else event.syndrome.name
        log.warning("QP %#x went to ERROR: %s", event.qp_num, event.status.value)
        self._tell("qp_error", qp=event.qp_num, status=event.status.name, syndrome=syndrome)

    def _on_port_changed(self, event: PortChanged) -> None:
        name = self.interfaces.get(event.port, "?")
        log.info("plane %d (%s) is %s", event.port, name, "up" if event.up else "down")
        self._tell("port", plane=event.port, up=event.up)

    def _on_peer_ports_changed(self, event: PeerPortsChanged) -> None:
        planes = [p for p in range(len(self.config.ports)) if event.planes_up >> p & 1]
        log.info("%s has planes %s up", self.host_name(event.address), planes)
        self._tell("peer_ports", peer=self.host_name(event.address), planes_up=planes)

    def cpu_time_ns(self) -> int:
        """CPU time of this process, user and system."""
        return time.process_time_ns()
