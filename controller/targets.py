"""Where the switches of a fabric listen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

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
        document = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TargetsError(f"{path}: cannot be read: {error.strerror}") from None
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise TargetsError(f"{where}: {error.problem}") from None
    except (YAMLError, UnicodeDecodeError) as error:
        raise TargetsError(f"{path}: {' '.join(str(error).split())}") from None
    if not isinstance(document, dict):
        raise TargetsError(f"{path}: must map names of switches to addresses")
    for name, given in document.items():
        try:
            fabric.switch(str(name))
        except TopologyError as error:
            raise TargetsError(f"{path}: {error}") from None
        problem = _problem(given)
        if problem:
            raise TargetsError(f"{path}: {name}: {problem}")
    return document


def _problem(given: object) -> str | None:
    example = "write for example 127.0.0.1:50001 or unix:/run/p0-t0-0.sock"
    if isinstance(given, str):
        return None if ":" in given else f"{given!r} is not an address; {example}"
    if not isinstance(given, dict):
        return f"{given!r} is not an address; {example}"
    unknown = set(given) - {"address", "device_id"}
    if unknown:
        return f"unknown field {sorted(map(str, unknown))[0]}; there are address and device_id"
    address, device_id = given.get("address"), given.get("device_id", 1)
    if not isinstance(address, str) or ":" not in address:
        return f"address {address!r} is not an address; {example}"
    if type(device_id) is not int or not 0 < device_id < 1 << 64:
        return f"device_id {device_id!r} is not a number from 1 to 2^64 - 1"
    return None
