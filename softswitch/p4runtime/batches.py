"""The updates of a Write and the requests of a Read, carried out one by one.

The switch's lock is taken for a few entities at a time, so that packets get through during a large
batch; the caller keeps other requests out for the whole of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from p4.v1 import p4runtime_pb2

from softswitch.p4runtime.access import SwitchAccess
from softswitch.p4runtime.entities import EntityHandler, Undo
from softswitch.p4runtime.errors import Code, P4RuntimeError, error_of, invalid

HOLD_LOCK_NS = 1_000_000
"""How long packets wait for requests, at most about this plus one entity."""

MAX_ENTITIES_PER_RESPONSE = 256

Failed = Callable[[str, Exception], P4RuntimeError]
"""Logs an exception that nobody foresaw, and says what to tell the client."""


class UpdateError(Exception):
    """A batch of which at least one element failed.

    One error each, in order, code OK for those that did not.
    """

    def __init__(self, errors: list[P4RuntimeError | None]) -> None:
        super().__init__("batch failed")
        self.errors = errors


class _Unwanted(Exception):
    """Nobody waits for the answer any more."""


def write(
    updates: Any,
    handlers: dict[str, EntityHandler],
    access: SwitchAccess,
    failed: Failed,
    *,
    roll_back: bool,
) -> None:
    """Carry out the updates in order.

    All are attempted (CONTINUE_ON_ERROR), or with `roll_back` those before the first failure are
    taken back and the rest is left alone. Raises `UpdateError` if any failed.
    """
    errors: list[P4RuntimeError | None] = []
    undo: list[Undo] = []
    any_failed = False
    updates = list(updates)
    position = 0
    while position < len(updates):
        with access.lock:
            until_ns = time.monotonic_ns() + HOLD_LOCK_NS
            while position < len(updates) and time.monotonic_ns() < until_ns:
                update = updates[position]
                position += 1
                try:
                    undo.append(_write_one(update, handlers))
                    errors.append(None)
                except Exception as exception:
                    errors.append(error_of(exception) or failed("Write", exception))
                    any_failed = True
                    if roll_back:
                        _take_back(undo, failed)
                        _mark_rest(errors, len(updates))
                        raise UpdateError(errors) from None
    if any_failed:
        raise UpdateError(errors)


def _write_one(update: Any, handlers: dict[str, EntityHandler]) -> Undo:
    """One update."""
    kind = update.entity.WhichOneof("entity")
    if kind is None:
        raise invalid("update.entity is not set")
    handler = handlers[kind]
    message = getattr(update.entity, kind)
    if update.type == p4runtime_pb2.Update.INSERT:
        return handler.insert(message)
    if update.type == p4runtime_pb2.Update.MODIFY:
        return handler.modify(message)
    if update.type == p4runtime_pb2.Update.DELETE:
        return handler.delete(message)
    raise invalid(f"update.type {update.type} is none of INSERT, MODIFY, DELETE")


def _take_back(undo: list[Undo], failed: Failed) -> None:
    """Undo what was done, last first.

    What cannot be undone is logged and does not stop the rest.
    """
    for take_back in reversed(undo):
        try:
            take_back()
        except Exception as exception:
            failed("rollback", exception)


def _mark_rest(errors: list[P4RuntimeError | None], size: int) -> None:
    """Every update of a batch that was rolled back has failed; tell apart which was the cause."""
    cause = len(errors) - 1
    for position in range(cause):
        errors[position] = P4RuntimeError(Code.ABORTED, f"rolled back: update {cause} failed")
    errors.extend(
        P4RuntimeError(Code.ABORTED, f"not attempted: update {cause} failed")
        for _ in range(size - len(errors))
    )


def read(
    requests: Any,
    handlers: dict[str, EntityHandler],
    access: SwitchAccess,
    failed: Failed,
    *,
    is_wanted: Callable[[], bool] = lambda: True,
) -> tuple[list[bytes], list[P4RuntimeError | None]]:
    """All responses to a Read, and the error of each request (None where it went well).

    The responses are serialised as they are made: as messages they would take a hundred times the
    memory, and so many objects that each garbage collection keeps packets waiting.

    Raises CANCELLED once `is_wanted` says that nobody waits for them any more: other requests do.
    """
    responses: list[bytes] = []
    errors: list[P4RuntimeError | None] = []
    response = p4runtime_pb2.ReadResponse()
    for request in requests:
        error: P4RuntimeError | None = None
        try:
            for kind, message in _read_one(request, handlers, access):
                if not len(response.entities) and not is_wanted():
                    raise _Unwanted
                getattr(response.entities.add(), kind).CopyFrom(message)
                if len(response.entities) >= MAX_ENTITIES_PER_RESPONSE:
                    responses.append(response.SerializeToString())
                    response = p4runtime_pb2.ReadResponse()
        except _Unwanted:
            raise P4RuntimeError(Code.CANCELLED, "the client gave up") from None
        except Exception as exception:
            error = error_of(exception) or failed("Read", exception)
        errors.append(error)
    if len(response.entities):
        responses.append(response.SerializeToString())
    return responses, errors


def _read_one(
    request: Any, handlers: dict[str, EntityHandler], access: SwitchAccess
) -> Iterator[tuple[str, Any]]:
    """The entities that one request selects, read a few at a time under the lock."""
    kind = request.WhichOneof("entity")
    if kind is None:
        raise invalid("entity is not set: everything at once cannot be read")
    with access.lock:
        messages = handlers[kind].read(getattr(request, kind))
    exhausted = False
    while not exhausted:
        chunk = []
        with access.lock:
            until_ns = time.monotonic_ns() + HOLD_LOCK_NS
            while time.monotonic_ns() < until_ns:
                message = next(messages, None)
                if message is None:
                    exhausted = True
                    break
                chunk.append(message)
        for message in chunk:
            yield kind, message
