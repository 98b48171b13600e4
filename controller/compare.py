"""What separates two states of a switch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from controller.entries import Entity, Group, Member, TableEntry
from controller.p4info import Schema
from controller.text import describe, value_text


@dataclass(frozen=True, slots=True)
class Difference:
    """Entries that are wanted and not there, there and not wanted, or there and different.

    `changed` has pairs (wanted, there).
    """

    missing: list[Entity] = field(default_factory=list)
    extra: list[Entity] = field(default_factory=list)
    changed: list[tuple[Entity, Entity]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.missing or self.extra or self.changed)

    @property
    def count(self) -> int:
        """How many entries differ."""
        return len(self.missing) + len(self.extra) + len(self.changed)

    def lines(self, schema: Schema) -> list[str]:
        """One line an entry, of a switch that is not as it should be."""
        return [
            *(f"missing {_whole(entity, schema)}" for entity in self.missing),
            *(f"extra {_whole(entity, schema)}" for entity in self.extra),
            *(
                f"changed {_whole(there, schema)} instead of {value_text(wanted, schema)}"
                for wanted, there in self.changed
            ),
        ]

    def changes(self, schema: Schema) -> list[str]:
        """One line an entry, of what leads from the state that is there to the wanted one."""
        return [
            *(f"added {_whole(entity, schema)}" for entity in self.missing),
            *(f"removed {_whole(entity, schema)}" for entity in self.extra),
            *(
                f"changed {_whole(there, schema)} becomes {value_text(wanted, schema)}"
                for wanted, there in self.changed
            ),
        ]


def _whole(entity: Entity, schema: Schema) -> str:
    return f"{describe(entity, schema)} → {value_text(entity, schema)}"


def compare(wanted: Iterable[Entity], there: Iterable[Entity]) -> Difference:
    """The difference, each list in the order of its input."""
    found = {entity.key: entity for entity in there}
    difference = Difference()
    for entity in wanted:
        other = found.pop(entity.key, None)
        if other is None:
            difference.missing.append(entity)
        elif other.value != entity.value:
            difference.changed.append((entity, other))
    difference.extra.extend(found.values())
    return difference


def of_kind(
    entities: Iterable[Entity], kind: type[TableEntry] | type[Member] | type[Group]
) -> list[Entity]:
    """Those entities that are table entries, members, or groups."""
    return [entity for entity in entities if isinstance(entity, kind)]
