"""The device: a NIC with its driver, from which everything starts."""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import Any, Protocol

from host.adapter import ChannelAdapter
from host.config import MAX_MPR_PSNS
from host.nic import Nic, QpEvEvent
from host.profiles import MrcProfiles
from host.verbs.attributes import (
    API_CURRENT_VERSION,
    API_LAST_SUPPORTED_VERSION,
    ContextAttr,
    DeviceAttr,
    PortAttr,
    Versions,
)
from host.verbs.context import Context
from host.verbs.ctl.table import ProfileTable
from host.verbs.errors import (
    InvalidArgumentError,
    NoMemoryError,
    NotSupportedError,
    check_range,
)
from host.verbs.events import EventRouter
from host.verbs.flags import DeviceCap, PortState, ProtocolVersion
from host.verbs.qp import MAX_WIMM, QueuePair
from host.wire.constants import MPR_UNIT_PSNS

MAX_QP_HINTS = 1 << 16


class Driver(Protocol):
    """What lets a NIC work: an event loop in virtual time, or in real time.

    The driver owns the clock and carries frames. Whenever it has let the NIC work it may call
    `Device.dispatch`, so that callbacks follow at once; calls that take events do it themselves.
    """

    def now_ns(self) -> int:
        """The present time."""
        ...

    def kick(self) -> None:
        """There may be something to send: call `Nic.transmit` soon. Must not do it at once."""
        ...


def query_version() -> Versions:
    """mrc_query_version: of mrc.h's interface that this one follows."""
    return Versions()


class Device:
    """A NIC and its driver (ibv_context of an opened device). One for each NIC."""

    def __init__(self, nic: ChannelAdapter[Any], driver: Driver) -> None:
        self.nic = nic
        self.driver = driver
        self.events = EventRouter(nic)
        self._profile_table: ProfileTable | None = None
        self._next_pd = 1
        self._qps: dict[int, QueuePair] = {}
        self._hints = 0

    def __repr__(self) -> str:
        return f"Device({self.name})"

    @property
    def name(self) -> str:
        """The NIC's name."""
        return self.nic.config.name

    @property
    def gid(self) -> IPv6Address:
        """The NIC's address (ibv_query_gid)."""
        return IPv6Address(self.nic.config.address)

    @property
    def mrc_nic(self) -> Nic:
        """The NIC, for what only MRC has. Raises NotSupportedError for another transport's."""
        nic = self.nic
        if not isinstance(nic, Nic):
            raise NotSupportedError(f"{self.name} is not an MRC NIC")
        return nic

    def query_device(self) -> DeviceAttr:
        """mrc_query_device. There is no `supported`: a device here always does MRC."""
        cap = DeviceCap.DYNAMIC_MPR
        if self.nic.config.qp.trim_nack:
            cap |= DeviceCap.TRIM_NACK
        return DeviceAttr(
            mrc_protocol_version=ProtocolVersion.VERSION_1,
            max_wimm=MAX_WIMM,
            max_wimm_dest=MAX_WIMM,
            max_mpr=MAX_MPR_PSNS // MPR_UNIT_PSNS,
            mpr_resolution=1,
            max_qp_hint=MAX_QP_HINTS,
            cap=cap,
        )

    def query_port(self, port_num: int) -> PortAttr:
        """ibv_query_port. Ports count from 1."""
        config = self.nic.config
        check_range("port_num", port_num, 1, len(config.ports))
        port = self.nic.port_statistics(port_num - 1)
        return PortAttr(
            state=PortState.ACTIVE if port.up else PortState.DOWN,
            rate_bps=self.nic.port_rate_bps(port_num - 1),
            max_mtu_bytes=config.path_mtu_bytes,
        )

    def open_context(self, attr: ContextAttr | None = None) -> Context:
        """mrc_create_context. Raises NotSupportedError for a version outside of `query_version`."""
        attr = ContextAttr() if attr is None else attr
        used = attr.mrc_api_version_used
        if used and not API_LAST_SUPPORTED_VERSION <= used <= API_CURRENT_VERSION:
            raise NotSupportedError(
                f"mrc_api_version_used: {used:#x} does not fit: it must be "
                f"{API_LAST_SUPPORTED_VERSION:#x}..{API_CURRENT_VERSION:#x}"
            )
        return Context(self, attr)

    def dispatch(self) -> int:
        """Hand out what has happened in the NIC; returns how many events that were."""
        return self.events.dispatch()

    # --- what contexts and objects ask ---

    def next_pd_handle(self) -> int:
        """A number no protection domain has had."""
        handle = self._next_pd
        self._next_pd += 1
        return handle

    def qp(self, number: int) -> QueuePair | None:
        """The queue pair of a number."""
        return self._qps.get(number)

    def add_qp(self, qp: QueuePair) -> None:
        """A queue pair was made."""
        self._qps[qp.qp_num] = qp

    def remove_qp(self, qp: QueuePair) -> None:
        """A queue pair was destroyed."""
        del self._qps[qp.qp_num]

    def add_hint(self) -> None:
        """A QP hint is made. Raises NoMemoryError when there are as many as there may be."""
        if self._hints >= MAX_QP_HINTS:
            raise NoMemoryError(f"the device has {MAX_QP_HINTS} QP hints, the most it may")
        self._hints += 1

    def remove_hint(self) -> None:
        """A QP hint was destroyed."""
        self._hints -= 1

    @property
    def profile_table(self) -> ProfileTable:
        """The profiles that controllers of the device make. Raises NotSupportedError."""
        table = self._profile_table
        if table is None:
            table = self._profile_table = ProfileTable(self.mrc_nic, self.driver.now_ns)
            self.events.subscribe(QpEvEvent, table.on_event)
        return table

    def check_ev_profile(self, number: int) -> None:
        """Raises InvalidArgumentError for an EV profile that a QP cannot have."""
        check_range("ev_profile_id", number, 0, (1 << 64) - 1)
        profiles = self.mrc_nic.profiles if number else None
        if isinstance(profiles, MrcProfiles) and number not in profiles.ev_profiles:
            raise InvalidArgumentError(f"ev_profile_id: EV profile {number} is not ONLINE")

    def check_cc_profile(self, number: int) -> None:
        """Raises InvalidArgumentError for a CC profile that a QP cannot have."""
        check_range("cc_profile_id", number, 0, (1 << 64) - 1)
        profiles = self.mrc_nic.profiles if number else None
        if isinstance(profiles, MrcProfiles) and number not in profiles.cc_profiles:
            raise InvalidArgumentError(f"cc_profile_id: CC profile {number} is not ONLINE")
