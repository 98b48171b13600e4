"""This repository's own switch."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from softswitch.control_socket import ControlClient, ControlError
from softswitch.switch import EGRESS_DROP, INGRESS_DROP
from softswitch.traffic_manager import DEFAULT_DEPTH_PACKETS
from topologies.runner.errors import RunnerError
from topologies.runner.targets.base import PRIORITY_QUEUES, SwitchPlace, Target

#: Drops that the P4 program decided on and counts itself
_BY_PROGRAM: Final = frozenset({INGRESS_DROP, EGRESS_DROP})


class Softswitch(Target):
    """Rates in bits per second, set at start and over its control socket."""

    name = "softswitch"
    can_be_black_hole = True

    def command(self, place: SwitchPlace) -> Sequence[str]:
        """See `Target.command`."""
        command = [sys.executable, "-m", "softswitch", "--device-id", str(place.device_id)]
        for port, interface in place.interfaces.items():
            command += ["-i", f"{port}@{interface}"]
        command += ["--no-p4", "--log-console", "-L", "info", "--"]
        command += ["--grpc-server-addr", place.grpc_address]
        command += ["--priority-queues", str(PRIORITY_QUEUES)]
        command += [
            "--control-socket",
            str(control_path(place)),
            "--ready-file",
            str(_ready(place)),
        ]
        for port, limit in place.limits.items():
            if limit.rate_bps is not None:
                command += ["--port-rate", f"{port}={limit.rate_bps}"]
            # What the queue itself dropped, the P4 program would count as waiting for ever
            if limit.deepest_packets > DEFAULT_DEPTH_PACKETS:
                command += ["--queue-depth-packets", f"{port}={limit.deepest_packets}"]
        return command

    def is_ready(self, place: SwitchPlace) -> bool:
        """See `Target.is_ready`."""
        return _ready(place).exists()

    def prepare(self, place: SwitchPlace) -> None:
        """Nothing is left: rates came with the command line, queues are deep enough."""

    def set_rate(self, place: SwitchPlace, port: int, rate_bps: int | None) -> None:
        """See `Target.set_rate`."""
        try:
            with ControlClient(control_path(place)) as control:
                control.request(
                    "set_port_rate",
                    port=port,
                    rate="unlimited" if rate_bps is None else rate_bps,
                )
        except ControlError as error:
            raise RunnerError(
                f"{place.name}: cannot set the rate of port {port}: {error}"
            ) from None

    def clear(self, place: SwitchPlace) -> None:
        """See `Target.clear`."""
        super().clear(place)
        control_path(place).unlink(missing_ok=True)
        _ready(place).unlink(missing_ok=True)

    def make_black_hole(self, place: SwitchPlace) -> None:
        """Its ports are down inside, its interfaces up: neighbours see nothing."""
        self._set_ports(place, "port_down")

    def end_black_hole(self, place: SwitchPlace) -> None:
        """See `Target.end_black_hole`."""
        self._set_ports(place, "port_up")

    @staticmethod
    def _set_ports(place: SwitchPlace, command: str) -> None:
        try:
            with ControlClient(control_path(place)) as control:
                for port in place.interfaces:
                    control.request(command, port=port)
        except ControlError as error:
            raise RunnerError(f"{place.name}: {command} of all its ports: {error}") from None

    def own_losses(self, place: SwitchPlace) -> Mapping[str, int] | None:
        """See `Target.own_losses`."""
        try:
            with ControlClient(control_path(place)) as control:
                dropped = control.request("stats")["stats"]["dropped"]
        except ControlError:
            return None
        return {reason: count for reason, count in dropped.items() if reason not in _BY_PROGRAM}


def control_path(place: SwitchPlace) -> Path:
    """Its control socket."""
    return place.sockets / f"{place.name}.control"


def _ready(place: SwitchPlace) -> Path:
    return place.sockets / f"{place.name}.ready"
