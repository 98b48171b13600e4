"""Indirect and direct counters (section "CounterEntry & DirectCounterEntry")."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from p4.v1 import p4runtime_pb2

from softswitch.externs import CounterArray
from softswitch.p4runtime.binding import BoundTable
from softswitch.p4runtime.entities.base import (
    INT64_MAX,
    EntityHandler,
    Undo,
    cell_indices,
    count,
    nothing,
)
from softswitch.p4runtime.entities.direct_resources import (
    check_direct,
    encode_counter,
    same_entry,
    select_one,
)
from softswitch.p4runtime.entities.selection import encode_key, select_entries
from softswitch.p4runtime.errors import invalid, not_found
from softswitch.p4runtime.state import PipelineState


class CounterHandler(EntityHandler):
    """`CounterEntry`. Every counter of this switch counts packets and bytes."""

    kind = "counter_entry"

    def __init__(self, state: PipelineState) -> None:
        self._schemas = state.schema.counters
        self._arrays = state.binding.counters

    def modify(self, message: Any) -> Undo:
        """Set one cell or all of them; without `data` nothing changes."""
        schema = self._schemas.get(message.counter_id)
        array = self._arrays[schema.id]
        what = f"counter '{schema.name}'"
        cells = cell_indices(message, array.size, what)
        if not message.HasField("data"):
            return nothing
        packets = count(message.data.packet_count, what)
        octets = count(message.data.byte_count, what)
        before = [array.read(index) for index in cells]
        for index in cells:
            array.write(index, packets, octets)
        return lambda: _restore(array, cells, before)

    def read(self, message: Any) -> Iterator[Any]:
        """One cell, all cells of a counter, or all cells of all counters."""
        if message.counter_id == 0:
            selected = [
                (counter_id, range(array.size)) for counter_id, array in self._arrays.items()
            ]
        else:
            schema = self._schemas.get(message.counter_id)
            cells = cell_indices(message, self._arrays[schema.id].size, f"counter '{schema.name}'")
            selected = [(schema.id, cells)]
        return self._read(selected)

    def _read(self, selected: list[tuple[int, range]]) -> Iterator[Any]:
        for counter_id, cells in selected:
            array = self._arrays[counter_id]
            for index in cells:
                packets, octets = array.read(index)
                message = p4runtime_pb2.CounterEntry(counter_id=counter_id)
                message.index.index = index
                message.index.SetInParent()
                message.data.SetInParent()
                message.data.packet_count = min(packets, INT64_MAX)
                message.data.byte_count = min(octets, INT64_MAX)
                yield message


class DirectCounterHandler(EntityHandler):
    """`DirectCounterEntry`."""

    kind = "direct_counter_entry"

    def __init__(self, state: PipelineState) -> None:
        self._state = state

    def modify(self, message: Any) -> Undo:
        """Set the counter of one entry; without `data` nothing changes."""
        bound, entry = select_one(self._state, message, self.kind)
        _check_has_counter(bound)
        if not message.HasField("data"):
            return nothing
        packets = count(message.data.packet_count, bound.label)
        octets = count(message.data.byte_count, bound.label)
        if entry.counter_data is None:
            raise invalid(f"{bound.label}: this entry does not count")
        before = tuple(entry.counter_data)
        entry.counter_data[:] = (packets, octets)

        def undo() -> None:
            cell = same_entry(bound, entry).counter_data
            if cell is not None:
                cell[:] = before

        return undo

    def read(self, message: Any) -> Iterator[Any]:
        """The counter of one entry, of all entries of a table, or of all tables."""
        return self._read(
            message, check_direct(self._state, message, self.kind, _check_has_counter)
        )

    def _read(self, message: Any, is_wildcard: bool) -> Iterator[Any]:
        key = message.table_entry
        found = False
        for bound, entry in select_entries(self._state, key):
            if not bound.schema.direct_counter_id:
                continue
            found = True
            reply = p4runtime_pb2.DirectCounterEntry(
                table_entry=encode_key(bound, entry, is_default=key.is_default_action)
            )
            encode_counter(entry, reply.data)
            yield reply
        if not found and not is_wildcard:
            raise not_found(f"{self._state.binding.table(key.table_id).label}: no such entry")


def _check_has_counter(bound: BoundTable) -> None:
    if not bound.schema.direct_counter_id:
        raise invalid(f"{bound.label} has no direct counter")


def _restore(array: CounterArray, cells: range, before: list[tuple[int, int]]) -> None:
    for index, (packets, octets) in zip(cells, before, strict=True):
        array.write(index, packets, octets)
