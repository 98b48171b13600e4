"""JSON objects, one a line, over asyncio streams; and the fields of a request, checked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final

from host.agent.errors import AgentError, UsageError

#: The longest line that is taken
MAX_LINE_BYTES: Final = 4 << 20
#: Of CLOCK_MONOTONIC, as the kernel counts it
MAX_TIME_NS: Final = (1 << 63) - 1
#: Characters of a value, and of an error
_MAX_SHOWN: Final = 100
_MAX_ERROR: Final = 1000


async def read_object(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """The next line's object; None at the end. Raises UsageError for what is none."""
    try:
        line = await reader.readline()
    except ValueError:
        raise UsageError(f"a line is longer than {MAX_LINE_BYTES} bytes") from None
    except ConnectionError:
        return None
    if not line.endswith(b"\n"):
        return None
    try:
        # As text: of bytes, json would guess the encoding
        document = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        raise UsageError(f"not JSON: {error}") from None
    if not isinstance(document, dict):
        raise UsageError("not a JSON object")
    return document


def write_object(writer: asyncio.StreamWriter, document: Mapping[str, Any]) -> None:
    """Queue a line."""
    if not writer.is_closing():
        writer.write(json.dumps(document).encode() + b"\n")


def result_of(answer: Mapping[str, Any] | None, who: str) -> Mapping[str, Any]:
    """An answer that says ok. Raises AgentError with what it says otherwise."""
    if answer is None:
        raise AgentError(f"{who} closed the connection")
    if answer.get("ok") is not True:
        raise AgentError(str(answer.get("error", f"{who} gave no reason")))
    return answer


def shown(value: object) -> str:
    """A value as an error has it: not as long as what somebody sent."""
    try:
        return _cut(repr(value), _MAX_SHOWN)
    except RecursionError:
        return "…"


def refusal(error: object, *, usage: bool = False) -> dict[str, Any]:
    """The answer that says what went wrong, in one line of bounded length.

    `usage`: with the request itself.
    """
    line = _cut(" ".join(str(error).splitlines()), _MAX_ERROR)
    return {"ok": False, "error": line, **({"usage": True} if usage else {})}


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}…"


class Fields:
    """The fields of a request. Each is taken once; what is left at the end nobody knows."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._left = dict(document)

    def end(self) -> None:
        """Raises UsageError for a field that was not taken."""
        for name in self._left:
            raise UsageError(f"{repr(name)[1:-1]}: there is no such field")

    def integer(
        self, name: str, low: int, high: int | None = None, default: int | None = None
    ) -> int:
        """A number of low..high. Raises UsageError."""
        value = self._left.pop(name, default)
        if value is None:
            raise UsageError(f"{name}: is missing")
        if isinstance(value, bool) or not isinstance(value, int):
            raise UsageError(f"{name}: {shown(value)} does not fit: it must be an integer")
        if value < low or (high is not None and value > high):
            limits = f"{low}..{high}" if high is not None else f"at least {low}"
            raise UsageError(f"{name}: {shown(value)} does not fit: it must be {limits}")
        return value

    def optional_integer(self, name: str, low: int, high: int | None = None) -> int | None:
        """As `integer`; None where it is not given."""
        if self._left.get(name) is None:
            self._left.pop(name, None)
            return None
        return self.integer(name, low, high)

    def number(self, name: str, low: float, high: float, default: float | None = None) -> float:
        """A number of low..high. Raises UsageError."""
        value = self._left.pop(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UsageError(f"{name}: {shown(value)} does not fit: it must be a number")
        if not low <= value <= high:  # NaN is neither
            raise UsageError(f"{name}: {shown(value)} does not fit: it must be {low:g}..{high:g}")
        return float(value)

    def text(self, name: str, default: str | None = None) -> str:
        """A text. Raises UsageError."""
        value = self._left.pop(name, default)
        if value is None:
            raise UsageError(f"{name}: is missing")
        if not isinstance(value, str):
            raise UsageError(f"{name}: {shown(value)} does not fit: it must be a text")
        return value

    def optional_text(self, name: str) -> str | None:
        """As `text`; None where it is not given."""
        if self._left.get(name) is None:
            self._left.pop(name, None)
            return None
        return self.text(name)

    def flag(self, name: str, default: bool | None = None) -> bool:
        """true or false. Raises UsageError."""
        value = self._left.pop(name, default)
        if not isinstance(value, bool):
            raise UsageError(f"{name}: {shown(value)} does not fit: it must be true or false")
        return value

    def items(self, name: str, default: list[Any] | None = None) -> list[Any]:
        """A list. Raises UsageError."""
        value = self._left.pop(name, default)
        if not isinstance(value, list):
            raise UsageError(f"{name}: {shown(value)} does not fit: it must be a list")
        return value

    def integers(
        self, name: str, low: int, high: int, default: list[int] | None = None
    ) -> list[int]:
        """A list of numbers of low..high. Raises UsageError."""
        return [Fields({name: each}).integer(name, low, high) for each in self.items(name, default)]

    def fields(self, name: str) -> Fields:
        """An object; none is an empty one. Raises UsageError."""
        value = self._left.pop(name, {})
        if not isinstance(value, dict):
            raise UsageError(f"{name}: {shown(value)} does not fit: it must be an object")
        return Fields(value)

    def take(self, name: str) -> Any:
        """Whatever it is; None where it is not given."""
        return self._left.pop(name, None)
