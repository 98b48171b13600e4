"""Weight and watch port of what a selector chooses from: group members and action sets."""

from __future__ import annotations

from typing import Any

from softswitch.p4runtime.access import SwitchAccess
from softswitch.p4runtime.codec import decode_uint, encode_uint
from softswitch.p4runtime.errors import invalid

NO_WATCH_PORT = -1


def decode_watch_port(message: Any, access: SwitchAccess, what: str) -> int:
    """The port a member's liveness depends on, `NO_WATCH_PORT` when there is none.

    INVALID_ARGUMENT for a port that the switch does not have.
    """
    kind = message.WhichOneof("watch_kind")
    if kind == "watch_port":
        if not message.watch_port:
            return NO_WATCH_PORT
        port = decode_uint(message.watch_port, 32, f"{what}: watch_port")
    elif kind == "watch" and message.watch:
        port = message.watch
    else:
        return NO_WATCH_PORT
    if not access.has_port(port):
        raise invalid(f"{what}: watch port {port} does not exist")
    return port


def encode_watch_port(port: int, message: Any, *, deprecated: bool) -> None:
    """Fill in the field the client used."""
    if port == NO_WATCH_PORT:
        return
    if deprecated:
        message.watch = port
    else:
        message.watch_port = encode_uint(port)


def check_weight(weight: int, sum_of_members: bool, max_member_weight: int, what: str) -> None:
    """Weights start at 1; INVALID_ARGUMENT otherwise."""
    if weight < 1:
        raise invalid(f"{what}: weight {weight}, want at least 1")
    if sum_of_members and max_member_weight and weight > max_member_weight:
        raise invalid(f"{what}: weight {weight}, at most {max_member_weight} allowed")


def uses_numeric_watch(messages: Any) -> bool:
    """Whether one of the members is written with `watch`, which `watch_port` replaces since 1.4."""
    return any(message.WhichOneof("watch_kind") == "watch" for message in messages)
