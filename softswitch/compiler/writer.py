"""Source text under construction, and names for it."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from softswitch.compiler.state import RuntimeState


class TooDeep(Exception):
    """The code would be nested deeper than Python's tokeniser allows."""


_DEEPEST = 80  # CPython's tokeniser stops at 100 levels; the rest is for what a node needs itself


class Writer:
    """Lines of Python at the current indentation."""

    def __init__(self, level: int = 0) -> None:
        self.lines: list[str] = []
        self.level = level

    def line(self, text: str = "") -> None:
        """Add one line."""
        self.lines.append("    " * self.level + text if text else "")

    def extend(self, lines: Iterable[str]) -> None:
        """Add lines that are indented relative to here."""
        for text in lines:
            self.line(text)

    def comment(self, text: str) -> None:
        """Add a comment line (a program's own text may hold anything)."""
        self.line("# " + " ".join(text.split())[:120])

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """A compound statement; an empty body becomes `pass`."""
        self.line(head)
        self.level += 1
        if self.level > _DEEPEST:
            raise TooDeep
        before = len(self.lines)
        yield
        if all(not text.strip() or text.lstrip().startswith("#") for text in self.lines[before:]):
            self.line("pass")
        self.level -= 1

    def mark(self) -> int:
        """A position to go back to with `rewind`."""
        return len(self.lines)

    def rewind(self, mark: int) -> None:
        """Forget everything since the mark."""
        del self.lines[mark:]

    @property
    def text(self) -> str:
        """All lines."""
        return "\n".join(self.lines) + "\n"


class Names:
    """Hands out identifiers: legible, valid, and each only once."""

    def __init__(self) -> None:
        self._taken: set[str] = set(keyword.kwlist)

    def new(self, hint: str) -> str:
        """A fresh identifier that looks like `hint`."""
        base = re.sub(r"\W+", "_", hint).strip("_") or "x"
        if base[0].isdigit():
            base = "_" + base
        name = base
        count = 2
        while name in self._taken:
            name = f"{base}_{count}"
            count += 1
        self._taken.add(name)
        return name


class Globals:
    """The objects that generated code refers to by global names.

    Code is made once per program, and run with the state of many pipelines of it. So what belongs
    to the state is bound as a recipe: a function from the state to the object.
    """

    def __init__(self, names: Names) -> None:
        self._names = names
        self._by_key: dict[object, str] = {}
        self._constants: dict[str, object] = {}
        self._recipes: dict[str, Callable[[RuntimeState], object]] = {}

    def bind(self, hint: str, value: object, key: object = None) -> str:
        """Name for a constant object; the same `key` gets the same name."""
        name, is_new = self._name(hint, key)
        if is_new:
            self._constants[name] = value
        return name

    def bind_state(self, hint: str, recipe: Callable[[RuntimeState], object], key: object) -> str:
        """Name for an object of the state; the same `key` gets the same name."""
        name, is_new = self._name(hint, key)
        if is_new:
            self._recipes[name] = recipe
        return name

    def values(self, state: RuntimeState) -> dict[str, object]:
        """The global names with their objects, for one pipeline."""
        values = dict(self._constants)
        for name, recipe in self._recipes.items():
            values[name] = recipe(state)
        return values

    def _name(self, hint: str, key: object) -> tuple[str, bool]:
        if key is not None and key in self._by_key:
            return self._by_key[key], False
        name = self._names.new(hint)
        if key is not None:
            self._by_key[key] = name
        return name, True
