"""Registers (section "RegisterEntry")."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from p4.v1 import p4runtime_pb2

from softswitch.p4runtime.entities.base import EntityHandler, Undo, cell_indices
from softswitch.p4runtime.errors import invalid
from softswitch.p4runtime.state import PipelineState


class RegisterHandler(EntityHandler):
    """`RegisterEntry`."""

    kind = "register_entry"

    def __init__(self, state: PipelineState) -> None:
        self._schemas = state.schema.registers
        self._arrays = state.binding.registers

    def modify(self, message: Any) -> Undo:
        """Set one cell or all of them."""
        schema = self._schemas.get(message.register_id)
        array = self._arrays[schema.id]
        what = f"register '{schema.name}'"
        cells = cell_indices(message, array.size, what)
        if not message.HasField("data"):
            raise invalid(f"{what}: data is not set")
        (value,) = schema.data_type.decode(message.data, what)
        before = array.values[cells.start : cells.stop]
        array.values[cells.start : cells.stop] = [value] * len(cells)

        def undo() -> None:
            array.values[cells.start : cells.stop] = before

        return undo

    def read(self, message: Any) -> Iterator[Any]:
        """One cell, all cells of a register, or all cells of all registers."""
        if message.register_id == 0:
            selected = [
                (register_id, range(array.size)) for register_id, array in self._arrays.items()
            ]
        else:
            schema = self._schemas.get(message.register_id)
            cells = cell_indices(message, self._arrays[schema.id].size, f"register '{schema.name}'")
            selected = [(schema.id, cells)]
        return self._read(selected)

    def _read(self, selected: list[tuple[int, range]]) -> Iterator[Any]:
        for register_id, cells in selected:
            data_type = self._schemas.by_id[register_id].data_type
            values = self._arrays[register_id].values
            for index in cells:
                message = p4runtime_pb2.RegisterEntry(
                    register_id=register_id, data=data_type.encode(iter((values[index],)))
                )
                message.index.index = index
                message.index.SetInParent()
                yield message
