"""Indirect and direct meters (section "MeterEntry & DirectMeterEntry")."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from p4.v1 import p4runtime_pb2

from softswitch.externs import MeterArray, MeterRate
from softswitch.p4runtime.binding import BoundTable
from softswitch.p4runtime.entities.base import EntityHandler, Undo, cell_indices
from softswitch.p4runtime.entities.direct_resources import (
    check_direct,
    check_meter_counters,
    same_entry,
    select_one,
)
from softswitch.p4runtime.entities.meter_config import decode_rates, encode_rates
from softswitch.p4runtime.entities.selection import encode_key, select_entries
from softswitch.p4runtime.errors import invalid, not_found
from softswitch.p4runtime.state import PipelineState
from softswitch.tables import Entry


class MeterHandler(EntityHandler):
    """`MeterEntry`. A cell without configuration marks everything green."""

    kind = "meter_entry"

    def __init__(self, state: PipelineState) -> None:
        self._schemas = state.schema.meters
        self._arrays = state.binding.meters

    def modify(self, message: Any) -> Undo:
        """Configure one cell or all of them; without `config` back to green."""
        schema = self._schemas.get(message.meter_id)
        array = self._arrays[schema.id]
        what = f"meter '{schema.name}'"
        check_meter_counters(message, "counter_data", what)
        cells = cell_indices(message, array.size, what)
        rates: tuple[MeterRate, ...] = ()
        if message.HasField("config"):
            rates = decode_rates(message.config, schema.type, what)
        before = [array.read_config(index) for index in cells]
        for index in cells:
            array.configure(index, rates)
        return lambda: _restore(array, cells, before)

    def read(self, message: Any) -> Iterator[Any]:
        """One cell, all cells of a meter, or all cells of all meters."""
        check_meter_counters(message, "counter_data", self.kind)
        if message.meter_id == 0:
            selected = [(meter_id, range(array.size)) for meter_id, array in self._arrays.items()]
        else:
            schema = self._schemas.get(message.meter_id)
            cells = cell_indices(message, self._arrays[schema.id].size, f"meter '{schema.name}'")
            selected = [(schema.id, cells)]
        return self._read(selected)

    def _read(self, selected: list[tuple[int, range]]) -> Iterator[Any]:
        for meter_id, cells in selected:
            array = self._arrays[meter_id]
            for index in cells:
                message = p4runtime_pb2.MeterEntry(meter_id=meter_id)
                message.index.index = index
                message.index.SetInParent()
                rates = array.read_config(index)
                if rates:
                    encode_rates(rates, message.config)
                yield message


class DirectMeterHandler(EntityHandler):
    """`DirectMeterEntry`."""

    kind = "direct_meter_entry"

    def __init__(self, state: PipelineState) -> None:
        self._state = state

    def modify(self, message: Any) -> Undo:
        """Configure the meter of one entry; without `config` back to green."""
        bound, entry = select_one(self._state, message, self.kind)
        _check_has_meter(bound)
        check_meter_counters(message, "counter_data", bound.label)
        meter = bound.schema.direct_meter
        assert meter is not None
        rates: tuple[MeterRate, ...] = ()
        if message.HasField("config"):
            rates = decode_rates(message.config, meter.type, bound.label)
        before = entry.meter_config or ()
        _configure(entry, rates)
        return lambda: _configure(same_entry(bound, entry), before)

    def read(self, message: Any) -> Iterator[Any]:
        """The meter of one entry, of all entries of a table, or of all tables."""
        check_meter_counters(message, "counter_data", self.kind)
        return self._read(message, check_direct(self._state, message, self.kind, _check_has_meter))

    def _read(self, message: Any, is_wildcard: bool) -> Iterator[Any]:
        key = message.table_entry
        found = False
        for bound, entry in select_entries(self._state, key):
            if bound.schema.direct_meter is None:
                continue
            found = True
            reply = p4runtime_pb2.DirectMeterEntry(
                table_entry=encode_key(bound, entry, is_default=key.is_default_action)
            )
            if entry.meter_config:
                encode_rates(entry.meter_config, reply.config)
            yield reply
        if not found and not is_wildcard:
            raise not_found(f"{self._state.binding.table(key.table_id).label}: no such entry")


def _check_has_meter(bound: BoundTable) -> None:
    if bound.schema.direct_meter is None:
        raise invalid(f"{bound.label} has no direct meter")


def _configure(entry: Entry, rates: tuple[MeterRate, ...]) -> None:
    """Set an entry's meter.

    The default entry has none (BMv2 meters hits only) but keeps what was written.
    """
    if entry.meter is None:
        entry.meter_config = rates or None
    else:
        entry.configure_meter(rates or None)


def _restore(array: MeterArray, cells: range, before: list[tuple[MeterRate, ...]]) -> None:
    for index, rates in zip(cells, before, strict=True):
        array.configure(index, rates)
