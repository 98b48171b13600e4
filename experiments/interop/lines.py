"""What both of htsim's file formats have in common: words in lines, and complaints about them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from topologies.documents import DocumentError, read_text


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
    """The number behind a word. Raises FormatError."""
    if not words:
        raise problem(source, line, f"{name}: is without its value")
    try:
        value = int(words[0])
    except ValueError:
        raise problem(source, line, f"{name}: {words[0]!r} is not an integer") from None
    if value < least:
        raise problem(source, line, f"{name}: {value} is too small: it must be at least {least}")
    return value


def read(path: str | Path) -> str:
    """A file's text. Raises FormatError."""
    try:
        return read_text(Path(path))
    except DocumentError as error:
        raise FormatError(error.problems) from None
