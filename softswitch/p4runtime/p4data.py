"""`P4Data` messages: the values of registers and digests, whose types P4Info spells out.

A type of P4Info is compiled once into a `DataType`, a tree whose leaves are fixed-width values. The
switch side of a value is the list of its leaves as unsigned integers in declaration order, which is
how BMv2 JSON flattens structs (a digest's field list, a register's cell).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from p4.v1 import p4data_pb2

from softswitch.p4runtime.codec import (
    decode_int,
    decode_uint,
    encode_int,
    encode_uint,
    to_signed,
    to_unsigned,
)
from softswitch.p4runtime.errors import invalid, unimplemented

_MAX_TYPE_DEPTH = 32  # P4 types cannot recurse; a P4Info made to recurse must not exhaust the stack


class DataType(Protocol):
    """One P4 type: how many leaves it has and how they become a P4Data message and back."""

    @property
    def leaf_bitwidths(self) -> tuple[int, ...]:
        """Width in bits of each leaf, in order."""
        ...

    def encode(self, leaves: Iterator[int]) -> Any:
        """The P4Data message of the next leaves."""
        ...

    def decode(self, message: Any, what: str) -> list[int]:
        """The leaves of a P4Data message; INVALID_ARGUMENT when it is of another type."""
        ...


def _require(message: Any, kind: str, what: str) -> None:
    """Refuse a P4Data message that carries something else than `kind`."""
    found = message.WhichOneof("data")
    if found != kind:
        raise invalid(f"{what}: P4Data must be set to '{kind}', found {found or 'nothing'}")


@dataclass(frozen=True, slots=True)
class BitType:
    """`bit<W>`, and serializable enums over it, which travel by their number."""

    bitwidth: int
    field: str = "bitstring"  # of the P4Data oneof: bitstring, or enum_value for serializable enums

    @property
    def leaf_bitwidths(self) -> tuple[int, ...]:
        """One leaf."""
        return (self.bitwidth,)

    def encode(self, leaves: Iterator[int]) -> Any:
        """Canonical byte string."""
        return p4data_pb2.P4Data(**{self.field: encode_uint(next(leaves))})

    def decode(self, message: Any, what: str) -> list[int]:
        """OUT_OF_RANGE when the value does not fit."""
        _require(message, self.field, what)
        return [decode_uint(getattr(message, self.field), self.bitwidth, what)]


@dataclass(frozen=True, slots=True)
class IntType:
    """`int<W>`: two's complement in the switch, sign-extended byte string on the wire."""

    bitwidth: int

    @property
    def leaf_bitwidths(self) -> tuple[int, ...]:
        """One leaf."""
        return (self.bitwidth,)

    def encode(self, leaves: Iterator[int]) -> Any:
        """Canonical two's complement byte string."""
        value = to_signed(next(leaves), self.bitwidth)
        return p4data_pb2.P4Data(bitstring=encode_int(value))

    def decode(self, message: Any, what: str) -> list[int]:
        """OUT_OF_RANGE when the value does not fit."""
        _require(message, "bitstring", what)
        return [to_unsigned(decode_int(message.bitstring, self.bitwidth, what), self.bitwidth)]


@dataclass(frozen=True, slots=True)
class BoolType:
    """`bool`, one bit in the switch."""

    @property
    def leaf_bitwidths(self) -> tuple[int, ...]:
        """One leaf of one bit."""
        return (1,)

    def encode(self, leaves: Iterator[int]) -> Any:
        """P4Data.bool."""
        return p4data_pb2.P4Data(bool=bool(next(leaves)))

    def decode(self, message: Any, what: str) -> list[int]:
        """P4Data.bool."""
        _require(message, "bool", what)
        return [int(message.bool)]


@dataclass(frozen=True, slots=True)
class StructType:
    """`struct` or `tuple`: members in declaration order."""

    members: tuple[DataType, ...]
    field: str = "struct"  # of the P4Data oneof: struct or tuple

    @property
    def leaf_bitwidths(self) -> tuple[int, ...]:
        """Leaves of all members."""
        return tuple(width for member in self.members for width in member.leaf_bitwidths)

    def encode(self, leaves: Iterator[int]) -> Any:
        """P4StructLike with one P4Data a member."""
        message = p4data_pb2.P4Data()
        members = [member.encode(leaves) for member in self.members]
        target = getattr(message, self.field)
        target.SetInParent()  # a struct without members is still a struct
        target.members.extend(members)
        return message

    def decode(self, message: Any, what: str) -> list[int]:
        """INVALID_ARGUMENT when the number of members differs."""
        _require(message, self.field, what)
        members = getattr(message, self.field).members
        if len(members) != len(self.members):
            raise invalid(f"{what}: {len(members)} members, want {len(self.members)}")
        return [
            leaf
            for member, data in zip(self.members, members, strict=True)
            for leaf in member.decode(data, what)
        ]


@dataclass(frozen=True, slots=True)
class HeaderType:
    """`header` of fixed-width fields; digests and registers of BMv2 only hold valid ones."""

    bitwidths: tuple[int, ...]

    @property
    def leaf_bitwidths(self) -> tuple[int, ...]:
        """One leaf a field."""
        return self.bitwidths

    def encode(self, leaves: Iterator[int]) -> Any:
        """P4Header, marked valid."""
        message = p4data_pb2.P4Data()
        message.header.is_valid = True
        message.header.bitstrings.extend(encode_uint(next(leaves)) for _ in self.bitwidths)
        return message

    def decode(self, message: Any, what: str) -> list[int]:
        """INVALID_ARGUMENT for invalid headers: the switch has no place for the validity bit."""
        _require(message, "header", what)
        header = message.header
        if not header.is_valid or len(header.bitstrings) != len(self.bitwidths):
            raise invalid(f"{what}: want a valid header with {len(self.bitwidths)} fields")
        return [
            decode_uint(data, width, what)
            for data, width in zip(header.bitstrings, self.bitwidths, strict=True)
        ]


def compile_type(type_spec: Any, type_info: Any, where: str) -> DataType:
    """The `DataType` of a `P4DataTypeSpec`, names resolved in P4Info's `type_info`.

    `where` names the object in errors. UNIMPLEMENTED for types that BMv2 registers and digests
    cannot hold.
    """
    return _compile(type_spec, type_info, where, 0)


def _compile(spec: Any, info: Any, where: str, depth: int) -> DataType:
    """See `compile_type`; `depth` counts the nesting."""
    if depth > _MAX_TYPE_DEPTH:
        raise invalid(f"{where}: P4Info type is nested deeper than {_MAX_TYPE_DEPTH}")
    kind = spec.WhichOneof("type_spec")
    if kind == "bitstring":
        return _compile_bitstring(spec.bitstring, where)
    if kind == "bool":
        return BoolType()
    if kind == "tuple":
        members = tuple(_compile(m, info, where, depth + 1) for m in spec.tuple.members)
        return StructType(members, "tuple")
    if kind == "struct":
        struct = _named(info.structs, spec.struct.name, where)
        members = tuple(_compile(m.type_spec, info, where, depth + 1) for m in struct.members)
        return StructType(members)
    if kind == "header":
        header = _named(info.headers, spec.header.name, where)
        fields = [_compile_bitstring(m.type_spec, where) for m in header.members]
        return HeaderType(tuple(width for field in fields for width in field.leaf_bitwidths))
    if kind == "serializable_enum":
        enum = _named(info.serializable_enums, spec.serializable_enum.name, where)
        return BitType(enum.underlying_type.bitwidth, "enum_value")
    if kind == "new_type":
        return _compile_new_type(spec.new_type.name, info, where, depth)
    raise unimplemented(f"{where}: values of P4Info type '{kind}' are not supported")


def _compile_bitstring(spec: Any, where: str) -> DataType:
    """`bit<W>` or `int<W>`."""
    kind = spec.WhichOneof("type_spec")
    if kind == "bit":
        return BitType(spec.bit.bitwidth)
    if kind == "int":
        return IntType(spec.int.bitwidth)
    raise unimplemented(f"{where}: values of P4Info type '{kind}' are not supported")


def _compile_new_type(name: str, info: Any, where: str, depth: int) -> DataType:
    """A user-defined type: its original type, or the width the controller sees."""
    new_type = _named(info.new_types, name, where)
    if new_type.WhichOneof("representation") == "original_type":
        return _compile(new_type.original_type, info, where, depth + 1)
    translated = new_type.translated_type
    if translated.WhichOneof("sdn_type") == "sdn_bitwidth":
        return BitType(translated.sdn_bitwidth)
    raise unimplemented(f"{where}: type '{name}' is translated to a string, which is not supported")


def _named(mapping: Any, name: str, where: str) -> Any:
    """An entry of one of type_info's maps, without protobuf's habit of creating missing ones."""
    if name not in mapping:
        raise invalid(f"{where}: P4Info has no type named '{name}'")
    return mapping[name]
