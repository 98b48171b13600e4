"""How far a run in virtual time is, while it is built and while its time passes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol, TypeVar

from rich import progress as bars
from rich.console import Console

from reports.text import bytes_text, time_text

#: On a terminal the bar is redrawn no more often
_REDRAW_S: Final = 0.1
#: Elsewhere there is a line so often
LINE_EVERY_S: Final = 5.0

Item = TypeVar("Item")


class Progress(Protocol):
    """Is told how far a run is."""

    def building(self, what: str, done: int, total: int) -> None:
        """So many of a kind of things are made."""

    def running(self, delivered_bytes: int, total_bytes: int | None, now_ns: int) -> None:
        """So much payload is delivered; `total_bytes` None: time ends it."""


class RunProgress:
    """Shows it on a console: a bar that vanishes on a terminal, a line now and then elsewhere.

    `clock` gives seconds.
    """

    def __init__(
        self, console: Console, name: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console
        self._name = name
        self._clock = clock
        self._started_s = clock()
        self._interval_s = _REDRAW_S if console.is_terminal else LINE_EVERY_S
        self._next_s = self._started_s + self._interval_s
        self._bar = bars.Progress(
            bars.TextColumn("{task.description}", markup=False),
            bars.BarColumn(),
            bars.TextColumn("{task.fields[text]}", markup=False),
            bars.TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task(name, total=None, text="")

    @contextmanager
    def shown(self) -> Iterator[RunProgress]:
        """The bar is there meanwhile."""
        with self._bar:
            yield self

    def building(self, what: str, done: int, total: int) -> None:
        """As `Progress.building`."""
        self._tell(f"building: {done} of {total} {what}", done, total)

    def running(self, delivered_bytes: int, total_bytes: int | None, now_ns: int) -> None:
        """As `Progress.running`."""
        of = "" if total_bytes is None else f" of {bytes_text(total_bytes)}"
        text = f"{bytes_text(delivered_bytes)}{of} delivered, {time_text(now_ns)} of virtual time"
        self._tell(text, delivered_bytes, total_bytes)

    def _tell(self, text: str, done: int, total: int | None) -> None:
        now_s = self._clock()
        if now_s < self._next_s:
            return
        self._next_s = now_s + self._interval_s
        if self._console.is_terminal:
            # `update` takes None for no change
            self._bar.tasks[0].total = total
            self._bar.update(self._task, text=text, completed=done)
            return
        self._console.print(
            f"{self._name}: {text}, {now_s - self._started_s:.0f} s",
            highlight=False,
            soft_wrap=True,
            markup=False,
        )


def counted(
    items: Iterable[Item], what: str, total: int, progress: Progress | None
) -> Iterator[Item]:
    """The items, each of which is made into something while it is out; `what`: in the plural."""
    for done, item in enumerate(items):
        if progress is not None:
            progress.building(what, done, total)
        yield item
