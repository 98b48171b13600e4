"""Parser value sets (P4Runtime specification 1.4, section 9.6)."""

from __future__ import annotations

from collections.abc import Iterable

from softswitch.entries import BadMatch, Match, MatchField, MatchKind, TableFull, key_shifts


class ValueSet:
    """A parser value set: members set by the control plane, matched in a select.

    `widths` are the bit widths of the key fields, in the order of the select. A member is a `Match`
    over them: exact values, or (value, mask) pairs. The generated parser reads `packed`, the list
    of (mask, value) over the fields packed into one integer.
    """

    def __init__(self, name: str, widths: tuple[int, ...], size: int = 0) -> None:
        self.name = name
        self.widths = widths
        self.size = size
        self.fields = tuple(
            MatchField(f"key{i}", MatchKind.EXACT, width) for i, width in enumerate(widths)
        )
        self.members: tuple[Match, ...] = ()
        self.packed: list[tuple[int, int]] = []
        self._shifts = key_shifts(self.fields)

    def set_members(self, members: Iterable[Match]) -> None:
        """Replace all members. Raises BadMatch, TableFull."""
        new = tuple(members)
        if self.size and len(new) > self.size:
            raise TableFull(f"{self.name}: {len(new)} members, room for {self.size}")
        packed = []
        for match in new:
            if len(match) != len(self.widths):
                raise BadMatch(f"{self.name}: {len(match)} fields, the key has {len(self.widths)}")
            mask = value = 0
            for field, item, shift in zip(self.fields, match, self._shifts, strict=True):
                full = (1 << field.bitwidth) - 1
                first, field_mask = item if isinstance(item, tuple) else (item, full)
                if first is None:
                    first = field_mask = 0
                if not (0 <= first <= full and 0 <= field_mask <= full):
                    raise BadMatch(f"{self.name}: {first:#x}: does not fit {field.bitwidth} bits")
                mask |= field_mask << shift
                value |= (first & field_mask) << shift
            packed.append((mask, value))
        self.members = new
        self.packed[:] = packed
