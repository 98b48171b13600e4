"""`ExternEntry`. v1model has no extern types of its own: there are none to read or write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from softswitch.p4runtime.entities.base import EntityHandler, Undo
from softswitch.p4runtime.errors import P4RuntimeError, unimplemented


class ExternHandler(EntityHandler):
    """`ExternEntry`. The wildcard read of section "Wildcard Reads" finds nothing."""

    kind = "extern_entry"

    def insert(self, message: Any) -> Undo:
        """UNIMPLEMENTED."""
        raise _unsupported(message)

    def modify(self, message: Any) -> Undo:
        """UNIMPLEMENTED."""
        raise _unsupported(message)

    def delete(self, message: Any) -> Undo:
        """UNIMPLEMENTED."""
        raise _unsupported(message)

    def read(self, message: Any) -> Iterator[Any]:
        """Nothing for all extern types, UNIMPLEMENTED for a particular one."""
        if message.extern_type_id:
            raise _unsupported(message)
        return iter(())


def _unsupported(message: Any) -> P4RuntimeError:
    return unimplemented(f"extern type {message.extern_type_id} is not supported by this switch")
