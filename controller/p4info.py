"""P4Info as a schema: tables, actions, profiles and counters by name and by id."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Generic, TypeVar

from google.protobuf import text_format
from p4.config.v1 import p4info_pb2


class SchemaError(ValueError):
    """A name, an id or a value that the program does not have."""


class MatchKind(Enum):
    """How a key field matches; the names of P4Info."""

    EXACT = p4info_pb2.MatchField.EXACT
    LPM = p4info_pb2.MatchField.LPM
    TERNARY = p4info_pb2.MatchField.TERNARY
    RANGE = p4info_pb2.MatchField.RANGE
    OPTIONAL = p4info_pb2.MatchField.OPTIONAL


@dataclass(frozen=True, slots=True)
class Field:
    """A key field or an action parameter."""

    id: int
    name: str
    bitwidth: int


@dataclass(frozen=True, slots=True)
class KeyField(Field):
    """A key field."""

    kind: MatchKind


@dataclass(frozen=True, slots=True)
class Action:
    """An action and its parameters, in order."""

    id: int
    name: str
    params: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table and its key fields, in order. `profile_id` 0 = actions directly in the entries."""

    id: int
    name: str
    keys: tuple[KeyField, ...]
    profile_id: int


@dataclass(frozen=True, slots=True)
class Profile:
    """An action profile; only a selector has groups."""

    id: int
    name: str
    is_selector: bool


@dataclass(frozen=True, slots=True)
class Counter:
    """A counter array of so many cells."""

    id: int
    name: str
    size: int


T = TypeVar("T", Action, Table, Profile, Counter)


class _Index(Generic[T]):
    """Objects of one kind by name and by id."""

    def __init__(self, what: str, objects: Iterable[T]) -> None:
        self._what = what
        self._by_id: dict[int, T] = {item.id: item for item in objects}
        self._by_name: dict[str, T] = {item.name: item for item in self._by_id.values()}

    def __iter__(self) -> Iterator[T]:
        return iter(self._by_id.values())

    def name(self, name: str) -> T:
        """By full name; raises SchemaError where the program has none such."""
        try:
            return self._by_name[name]
        except KeyError:
            raise SchemaError(f"the program has no {self._what} {name}") from None

    def id(self, id: int) -> T:
        """By id; raises SchemaError where the program has none such."""
        try:
            return self._by_id[id]
        except KeyError:
            raise SchemaError(f"the program has no {self._what} with id {id}") from None


class Schema:
    """What a compiled program tells about itself."""

    def __init__(self, p4info: p4info_pb2.P4Info) -> None:
        self.p4info = p4info
        self.tables = _Index("table", [_table(table) for table in p4info.tables])
        self.actions = _Index(
            "action",
            [
                Action(
                    action.preamble.id,
                    action.preamble.name,
                    tuple(Field(p.id, p.name, p.bitwidth) for p in action.params),
                )
                for action in p4info.actions
            ],
        )
        self.profiles = _Index(
            "action profile",
            [
                Profile(profile.preamble.id, profile.preamble.name, profile.with_selector)
                for profile in p4info.action_profiles
            ],
        )
        self.counters = _Index(
            "counter",
            [
                Counter(counter.preamble.id, counter.preamble.name, counter.size)
                for counter in p4info.counters
            ],
        )


def _table(table: Any) -> Table:
    keys = tuple(
        KeyField(field.id, field.name, field.bitwidth, MatchKind(field.match_type))
        for field in table.match_fields
    )
    return Table(table.preamble.id, table.preamble.name, keys, table.implementation_id)


def parse_p4info(text: str) -> p4info_pb2.P4Info:
    """P4Info from its text form; fields newer than this library's P4Runtime are left out.

    Raises SchemaError where the text is no P4Info.
    """
    message = p4info_pb2.P4Info()
    try:
        text_format.Parse(text, message, allow_unknown_field=True)
    except text_format.ParseError as error:
        raise SchemaError(f"is not P4Info: {error}") from None
    return message


def load_p4info(path: Path) -> p4info_pb2.P4Info:
    """P4Info from a file; raises SchemaError naming the file."""
    try:
        return parse_p4info(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SchemaError(f"{path}: cannot be read: {error.strerror}") from None
    except (SchemaError, UnicodeDecodeError) as error:
        raise SchemaError(f"{path}: {error}") from None
