"""Requests as gRPC hands them over: parsed, or marked as malformed.

A deserializer that fails would make gRPC log every bad message with a traceback, answer INTERNAL,
and sometimes lose track of the stream it came on, so that the server cannot stop. Here it never
fails; what could not be parsed is refused by the service like any other bad request.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from softswitch.p4runtime.errors import invalid

log = logging.getLogger(__name__)


class Malformed:
    """Bytes that are no message of the type that the RPC takes."""

    def __init__(self, error: str) -> None:
        self.error = error


def parser(rpc: str, cls: Any) -> Callable[[bytes], Any]:
    """A deserializer for one RPC's requests; the first malformed one is logged."""
    reported = False

    def parse(data: bytes) -> Any:
        nonlocal reported
        try:
            return cls.FromString(data)
        except Exception as exception:  # protobuf raises more than its own errors for bad bytes
            error = f"{len(data)} bytes are no {cls.DESCRIPTOR.name}: {exception}"
            if not reported:
                reported = True
                log.warning("P4Runtime: %s: %s (logged once)", rpc, error)
            return Malformed(error)

    return parse


def well_formed(request: Any) -> Any:
    """The request; INVALID_ARGUMENT when it is malformed."""
    if isinstance(request, Malformed):
        raise invalid(request.error)
    return request
