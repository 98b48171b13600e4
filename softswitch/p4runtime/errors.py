"""Canonical error codes and the one exception that carries them to a client.

Every check in this package raises `P4RuntimeError`; `error_of` turns what the switch's own state
classes raise into the code the specification asks for. Ids that P4Info does not know are
INVALID_ARGUMENT (the entity is malformed, section "Write RPC"); NOT_FOUND is kept for entities that
could exist and do not.
"""

from __future__ import annotations

from enum import IntEnum

from softswitch import replication, tables

ERROR_SPACE = "softswitch-v1model-p4org"
"""Error space of `p4.v1.Error` and `StreamError`, in the form <target>-<arch>-<vendor>."""


class Code(IntEnum):
    """google.rpc.Code, the numbers of the canonical error codes."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


_MAX_MESSAGE = 500


class P4RuntimeError(Exception):
    """A request, or one entity of it, that cannot be served.

    Canonical code and one line for the client.
    """

    def __init__(self, code: Code, message: str) -> None:
        # Messages travel as gRPC metadata, whose size is limited, and may quote what a client sent.
        if len(message) > _MAX_MESSAGE:
            message = f"{message[:_MAX_MESSAGE]}..."
        super().__init__(message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"


def invalid(message: str) -> P4RuntimeError:
    """INVALID_ARGUMENT with this message, to be raised by the caller."""
    return P4RuntimeError(Code.INVALID_ARGUMENT, message)


def not_found(message: str) -> P4RuntimeError:
    """NOT_FOUND with this message, to be raised by the caller."""
    return P4RuntimeError(Code.NOT_FOUND, message)


def unimplemented(message: str) -> P4RuntimeError:
    """UNIMPLEMENTED with this message, to be raised by the caller."""
    return P4RuntimeError(Code.UNIMPLEMENTED, message)


def denied(message: str) -> P4RuntimeError:
    """PERMISSION_DENIED with this message, to be raised by the caller."""
    return P4RuntimeError(Code.PERMISSION_DENIED, message)


def exhausted(message: str) -> P4RuntimeError:
    """RESOURCE_EXHAUSTED with this message, to be raised by the caller."""
    return P4RuntimeError(Code.RESOURCE_EXHAUSTED, message)


def out_of_range(message: str) -> P4RuntimeError:
    """OUT_OF_RANGE with this message, to be raised by the caller."""
    return P4RuntimeError(Code.OUT_OF_RANGE, message)


# The first class an exception is an instance of decides.
_CODES: tuple[tuple[type[Exception], Code], ...] = (
    (tables.TableFull, Code.RESOURCE_EXHAUSTED),
    (tables.EntryExists, Code.ALREADY_EXISTS),
    (tables.EntryMissing, Code.NOT_FOUND),
    (tables.TableConst, Code.PERMISSION_DENIED),
    (tables.BadMember, Code.NOT_FOUND),
    (tables.MemberInUse, Code.FAILED_PRECONDITION),
    (tables.TableError, Code.INVALID_ARGUMENT),
    (replication.ReplicationExists, Code.ALREADY_EXISTS),
    (replication.ReplicationMissing, Code.NOT_FOUND),
    (replication.ReplicationFull, Code.RESOURCE_EXHAUSTED),
    (replication.ReplicationError, Code.INVALID_ARGUMENT),
)


def error_of(exception: Exception) -> P4RuntimeError | None:
    """The P4Runtime error of an exception of the switch's state classes.

    None when it is no such exception.
    """
    if isinstance(exception, P4RuntimeError):
        return exception
    for cls, code in _CODES:
        if isinstance(exception, cls):
            return P4RuntimeError(code, str(exception))
    return None
