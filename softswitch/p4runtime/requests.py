"""Requests as gRPC hands them over: parsed, or refused.

A deserializer that fails would make gRPC log every bad message with a traceback, answer INTERNAL,
and sometimes lose track of the stream it came on, so that the server cannot stop. Here it never
fails; what could not be parsed is refused by the service like any other bad request.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from softswitch.p4runtime import wire
from softswitch.p4runtime.errors import Code, P4RuntimeError, invalid

log = logging.getLogger(__name__)

MAX_FIELDS = 1_000_000
"""Fields of one request, those of its submessages included: a batch of about 50,000 updates.

A field of two bytes becomes objects of up to 2 KB, so that a request within gRPC's size limit could
take all memory there is.
"""


class Refused:
    """What stands for a request that is not parsed, and the reason."""

    def __init__(self, error: P4RuntimeError) -> None:
        self.error = error


def parser(rpc: str, cls: Any) -> Callable[[bytes], Any]:
    """A deserializer for one RPC's requests; the first that is refused is logged."""
    reported = False

    def parse(data: bytes) -> Any:
        nonlocal reported
        try:
            _check_size(data, cls.DESCRIPTOR)
            return cls.FromString(data)
        except P4RuntimeError as too_large:
            error = too_large
        except Exception as exception:  # protobuf raises more than its own errors for bad bytes
            error = invalid(f"{len(data)} bytes are no {cls.DESCRIPTOR.name}: {exception}")
        if not reported:
            reported = True
            log.warning("P4Runtime: %s: %s (logged once)", rpc, error.message)
        return Refused(error)

    return parse


def well_formed(request: Any) -> Any:
    """The request; its error is raised when it was refused."""
    if isinstance(request, Refused):
        raise request.error
    return request


def _check_size(data: bytes, descriptor: Any) -> None:
    # A field takes two bytes at least.
    if len(data) > 2 * MAX_FIELDS and wire.count_fields(data, descriptor, MAX_FIELDS) > MAX_FIELDS:
        raise P4RuntimeError(
            Code.RESOURCE_EXHAUSTED,
            f"{descriptor.name} with more than {MAX_FIELDS} fields, send it in parts",
        )
