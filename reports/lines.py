"""Lines and tables on a terminal, within its width: nothing is ever cut off."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.text import Text

#: In front of what did not fit on a line
_HANGING = "    "
#: Names come from files: no escape sequence reaches the terminal, nothing that UTF-8 cannot write
_UNPRINTABLE = dict.fromkeys([*range(0x20), *range(0x7F, 0xA0), *range(0xD800, 0xE000)], "\ufffd")
del _UNPRINTABLE[ord("\n")], _UNPRINTABLE[ord("\t")]


class Out:
    """Lines and tables, within the width of the console where there is one to keep to."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def line(self, text: str = "") -> None:
        """A line as it is, however long."""
        self._console.print(text.translate(_UNPRINTABLE), highlight=False, soft_wrap=True)

    def prose(self, text: str) -> None:
        """A line that goes on in further ones, indented, where the console is too narrow."""
        room = self._console.width
        whole = Text.from_markup(text)
        if whole.cell_len <= room:
            self.line(text)
            return
        for index, part in enumerate(whole.wrap(self._console, max(room - len(_HANGING), 1))):
            part.rstrip()
            self.line((_HANGING if index else "") + part.markup)

    def items(self, start: str, items: Iterable[str]) -> None:
        """What starts a line, and items behind it, none of which is broken."""
        line = start
        for item in items:
            longer = f"{line}  {item}"
            if Text.from_markup(longer).cell_len > self._console.width and line.strip():
                self.line(line)
                longer = _HANGING + item
            line = longer
        self.line(line)

    def table(self, title: str, columns: Sequence[str], rows: Sequence[tuple[str, ...]]) -> None:
        """A table; its first column is left-aligned.

        Columns that do not fit stand in further tables below it, each with the first column again:
        nothing is ever cut off. Where not even one fits beside the first column, what that has is
        a line above.
        """
        widths = [
            max(cell_len(cell) for cell in cells) for cells in zip(columns, *rows, strict=True)
        ]
        above = 1 + widths[0] + 2 + max(widths[1:]) > self._console.width
        if above:
            widths[0] = len(_HANGING)
        self.line()
        self.line(f"[bold]{title}[/]")
        for part in _parts(widths, self._console.width):
            for number, row in enumerate((columns, *rows)):
                name = row[0]
                if above and name:
                    self.line(escape(f" {name}"))
                    name = ""
                cells = [_aligned(name, widths[0], left=True)]
                cells += [_aligned(row[index], widths[index]) for index in part]
                text = escape(" " + "  ".join(cells).rstrip())
                self.line(text if number else f"[dim]{text}[/]")


def _aligned(text: str, width: int, *, left: bool = False) -> str:
    space = " " * (width - cell_len(text))
    return text + space if left else space + text


def _parts(widths: Sequence[int], room: int) -> list[list[int]]:
    """Columns behind the first one, so shared out that each table fits; one at least in each."""
    parts: list[list[int]] = []
    used = room
    for index, width in enumerate(widths[1:], start=1):
        if not parts or used + 2 + width > room:
            parts.append([])
            used = 1 + widths[0]
        parts[-1].append(index)
        used += 2 + width
    return parts
