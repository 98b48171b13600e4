"""Where the switches of a fabric listen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from topologies.documents import DocumentError, parse_yaml, plain, read_text
from topologies.model import Fabric, Switch, TopologyError


@dataclass(frozen=True, slots=True)
class Target:
    """A switch to talk to: gRPC address (host:port or unix:/path) and P4Runtime device id."""

    name: str
    address: str
    device_id: int


class TargetsError(ValueError):
    """A file of switch addresses that cannot be used, in one line."""


def target_of(fabric: Fabric, switch: Switch, addresses: Mapping[str, Any] | None) -> Target:
    """Where a switch listens: as a file of addresses says, else as the topology says.

    Raises TargetsError where there is such a file and the switch is not in it.
    """
    if addresses is None:
        return Target(switch.name, fabric.grpc_address(switch), switch.device_id)
    if switch.name not in addresses:
        raise TargetsError(f"no address is given for {switch.name}")
    given = addresses[switch.name]
    if isinstance(given, str):
        return Target(switch.name, given, switch.device_id)
    return Target(switch.name, given["address"], given.get("device_id", switch.device_id))


def targets_of(
    fabric: Fabric, switches: Iterable[Switch], addresses: Mapping[str, Any] | None
) -> list[Target]:
    """`target_of` for many switches."""
    return [target_of(fabric, switch, addresses) for switch in switches]


def load_addresses(path: Path, fabric: Fabric) -> dict[str, Any]:
    """A YAML or JSON file: name → address, or name → {address, device_id}.

    Raises TargetsError naming file, switch and what is wrong.
    """
    try:
        text = read_text(path)
        document = plain(
            parse_yaml(text, str(path), what="must map names of switches to addresses")
        )
    except RecursionError:
        raise TargetsError(f"{path}: a section that contains itself") from None
    except DocumentError as error:
        raise TargetsError(str(error)) from None
    for name, given in document.items():
        try:
            fabric.switch(str(name))
        except TopologyError as error:
            raise TargetsError(f"{path}: {error}") from None
        problem = _problem(given)
        if problem:
            raise TargetsError(f"{path}: {name}: {problem}")
    return dict(document)


def _is_address(text: object) -> bool:
    if not isinstance(text, str):
        return False
    scheme, colon, rest = text.partition(":")
    if scheme in ("unix", "unix-abstract", "dns", "ipv4", "ipv6"):
        return bool(rest)
    _, colon, port = text.rpartition(":")
    return bool(colon) and port.isdecimal() and 0 < int(port) < 1 << 16


def _problem(given: object) -> str | None:
    example = "write for example 127.0.0.1:50001 or unix:/run/p0-t0-0.sock"
    if isinstance(given, str):
        return None if _is_address(given) else f"{given!r} is not an address; {example}"
    if not isinstance(given, dict):
        return f"{given!r} is not an address; {example}"
    unknown = set(given) - {"address", "device_id"}
    if unknown:
        return f"unknown field {sorted(map(str, unknown))[0]}; there are address and device_id"
    address, device_id = given.get("address"), given.get("device_id", 1)
    if not _is_address(address):
        return f"address {address!r} is not an address; {example}"
    if type(device_id) is not int or not 0 < device_id < 1 << 64:
        return f"device_id {device_id!r} is not a number from 1 to 2^64 - 1"
    return None
