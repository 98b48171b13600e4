"""Aligned columns of text, and counted words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_NUMBER = re.compile(r"\d[\d,]*(\.\d+)?")


def columns(heads: Sequence[str], rows: Iterable[Sequence[str]], indent: str = "") -> list[str]:
    """Lines of a table, columns aligned; a column of numbers only is aligned to the right."""
    table = [list(heads), *(list(row) for row in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(heads))]
    right = [
        len(table) > 1 and all(_NUMBER.fullmatch(row[column]) for row in table[1:])
        for column in range(len(heads))
    ]
    return [
        (
            indent
            + "  ".join(
                cell.rjust(width) if to_right else cell.ljust(width)
                for cell, width, to_right in zip(row, widths, right, strict=True)
            )
        ).rstrip()
        for row in table
    ]


def counted(number: int, what: str, plural: str = "") -> str:
    """The number and the word in its right form."""
    return f"{number} {what if number == 1 else plural or what + 's'}"


def entries(number: int) -> str:
    """'1 entry', '2 entries'."""
    return counted(number, "entry", "entries")


def switches(number: int) -> str:
    """'1 switch', '2 switches'."""
    return counted(number, "switch", "switches")
