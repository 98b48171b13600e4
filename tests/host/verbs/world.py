"""Two devices back to back in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from host.nic import Nic
from host.profiles import MrcProfiles, Profiles
from host.qp.queue_pair import QueuePair as MrcQueuePair
from host.verbs import Context, ContextAttr, Cq, Device, Mr, Pd, QpInfo, QpInitAttr, QueuePair
from tests.host.network import Faults, Network, config


def mrc_qp(qp: QueuePair) -> MrcQueuePair:
    """The NIC's queue pair."""
    core = qp.core
    assert isinstance(core, MrcQueuePair)
    return core


class VirtualDriver:
    """The clock of a network; the network itself looks at all NICs in every step."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.kicks = 0

    def now_ns(self) -> int:
        return self.network.now_ns

    def kick(self) -> None:
        self.kicks += 1


@dataclass
class Side:
    """A device and one of everything."""

    device: Device
    driver: VirtualDriver
    context: Context
    pd: Pd
    cq: Cq
    qp: QueuePair

    def region(self, size: int) -> tuple[bytearray, Mr]:
        memory = bytearray(size)
        return memory, self.pd.reg_mr(memory)


class World:
    """h0 and h2 (or others), their devices, and the network between them."""

    def __init__(
        self,
        *,
        faults: Faults | None = None,
        profiles: Callable[[], Profiles] = MrcProfiles,
        hosts: tuple[str, str] = ("h0", "h2"),
        net_admin: bool = True,
        **changes: Any,
    ) -> None:
        nics = [
            Nic(config(host, **changes), seed=number, profiles=profiles())
            for number, host in enumerate(hosts)
        ]
        self.network = Network(nics, faults=faults)
        self.attr = ContextAttr(net_admin=net_admin)
        self.near, self.far = (self._side(nic) for nic in nics)

    def _side(self, nic: Nic) -> Side:
        driver = VirtualDriver(self.network)
        device = Device(nic, driver)
        context = device.open_context(self.attr)
        pd = context.alloc_pd()
        cq = context.create_cq(64)
        return Side(device, driver, context, pd, cq, context.create_qp(QpInitAttr(pd, cq)))

    def connect(self) -> World:
        """Both QPs to RTS."""
        told = [QpInfo.from_json(side.qp.info().to_json()) for side in (self.near, self.far)]
        self.near.qp.connect(told[1])
        self.far.qp.connect(told[0])
        return self

    def run(self, until: Callable[[], bool] | None = None, for_ns: int = 10**9) -> None:
        """Let time pass, until something holds or at most so long."""
        self.network.run(until, self.network.now_ns + for_ns)


def connected(**options: Any) -> World:
    return World(**options).connect()
