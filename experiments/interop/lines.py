"""What both of htsim's file formats have in common: words in lines, and complaints about them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from topologies.documents import DocumentError, read_text

#: Python's own int() takes 1_000 and digits of other scripts as well
_INTEGER: Final = re.compile(r"-?[0-9]{1,30}")


class FormatError(DocumentError):
    """A file that cannot be used; one line that names file, line, word and what would be right."""


def problem(source: str, line: int, message: str) -> FormatError:
    """The complaint about a line."""
    return FormatError([f"{source}:{line}: {message}"])


def words_of(text: str) -> Iterator[tuple[int, list[str]]]:
    """(number of the line from 1, its words); without empty lines and comments."""
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if words and not words[0].startswith("#"):
            yield number, words


def integer(source: str, line: int, name: str, words: list[str], least: int = 0) -> int:
    """The number behind a word, and nothing else. Raises FormatError."""
    if not words:
        raise problem(source, line, f"{name}: is without its value")
    if len(words) > 1:
        raise problem(source, line, f"{name}: {' '.join(words)}: has one value only")
    if not _INTEGER.fullmatch(words[0]):
        raise problem(source, line, f"{name}: {words[0]!r} is not an integer")
    value = int(words[0])
    if value < least:
        raise problem(source, line, f"{name}: {value} is too small: it must be at least {least}")
    return value


class Numbers(dict[str, int]):
    """What a part of a file says: numbers by the word before them, in lower case, each once.

    `line` is where the part begins.
    """

    def __init__(self, source: str, line: int = 1) -> None:
        super().__init__()
        self.line = line
        self._source = source
        self._line_of: dict[str, int] = {}

    def read(self, line: int, word: str, values: list[str], least: int = 0) -> None:
        """Take the number behind a word of a line. Raises FormatError."""
        name = word.lower()
        if name in self:
            first = self._line_of[name]
            where = f", first in line {first}" if first != line else ""
            raise problem(self._source, line, f"{word}: is there twice{where}")
        self[name] = integer(self._source, line, word, values, least)
        self._line_of[name] = line

    def problem(self, name: str, message: str) -> FormatError:
        """The complaint about what a word says, or about the part that does not say it."""
        return problem(self._source, self._line_of.get(name, self.line), message)


def read(path: str | Path) -> str:
    """A file's text. Raises FormatError."""
    try:
        return read_text(Path(path))
    except DocumentError as error:
        raise FormatError(error.problems) from None
