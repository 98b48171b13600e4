"""What is shown while a scenario runs: a line that changes, and one for each thing that happens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from reports.result import EvTransition
from reports.text import rate_text
from topologies.addressing import AddressingError, path_of_ev
from topologies.model import Fabric

#: In a pipe there is a line about the progress so often
_LINE_EVERY_NS: Final = 5 * 10**9
#: Paths of one change of EVs that are named
_NAMED_PATHS: Final = 4
_STYLES: Final = {"fault": "yellow", "repair": "green", "ev": "cyan", "problem": "bold red"}


@dataclass(frozen=True, slots=True)
class Status:
    """How far a run is. `total_bytes` None: time ends it."""

    now_ns: int
    delivered_bytes: int
    total_bytes: int | None
    duration_ns: int | None
    plane_bps: Sequence[float]
    retransmitted: int


class LiveView:
    """Shows a run on a console."""

    def __init__(self, console: Console, fabric: Fabric) -> None:
        self._console = console
        self._fabric = fabric
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.fields[text]}", markup=False),
            BarColumn(bar_width=20),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("", total=None, text="")
        self._next_line_ns = _LINE_EVERY_NS

    @contextmanager
    def shown(self) -> Iterator[LiveView]:
        """The changing line is there meanwhile."""
        with self._progress:
            yield self

    def event(self, now_ns: int, kind: str, text: str) -> None:
        """Something happened: `kind` is fault, repair, ev or problem."""
        self._console.print(
            f"  {now_ns / 1e9:7.3f} s  [{_STYLES[kind]}]{escape(text)}[/]",
            highlight=False,
            soft_wrap=True,
        )

    def transitions(self, fresh: Sequence[EvTransition]) -> None:
        """EVs changed their states: those that did so alike are one line."""
        alike: dict[tuple[str, str, str], list[EvTransition]] = {}
        for each in fresh:
            alike.setdefault((each.old, each.new, each.cause), []).append(each)
        for (old, new, cause), members in alike.items():
            paths = Counter(self._path(each) for each in members)
            named = ", ".join(list(paths)[:_NAMED_PATHS])
            more = f" and {len(paths) - _NAMED_PATHS} more" if len(paths) > _NAMED_PATHS else ""
            hosts = ", ".join(sorted({each.host for each in members}))
            evs = f"{len(members)} EV{'s' if len(members) > 1 else ''}"
            self.event(
                members[0].now_ns, "ev", f"{evs} of {hosts}: {old} → {new}, {cause} ({named}{more})"
            )

    def _path(self, each: EvTransition) -> str:
        try:
            source, destination = self._fabric.host(each.host), self._fabric.host(each.peer)
            path = path_of_ev(each.ev, source.id, destination.id)
        except (AddressingError, ValueError):
            return f"EV {each.ev:#x}"
        return path.switches[min(1, len(path.switches) - 1)].name

    def status(self, status: Status) -> None:
        """Show how far it is."""
        now_s = max(status.now_ns, 0) / 1e9
        planes = ", ".join(
            f"plane {plane} {rate_text(max(rate, 0))}"
            for plane, rate in enumerate(status.plane_bps)
        )
        of = "" if status.total_bytes is None else f" of {status.total_bytes / 2**20:.1f}"
        text = (
            f"{now_s:5.1f} s  {status.delivered_bytes / 2**20:.1f}{of} MiB delivered; {planes}; "
            f"{status.retransmitted} resent"
        )
        if self._console.is_terminal:
            if status.total_bytes is not None:
                completed, total = status.delivered_bytes, status.total_bytes
            else:
                completed, total = status.now_ns, status.duration_ns or 0
            self._progress.update(self._task, text=text, completed=completed, total=total or None)
        elif status.now_ns >= self._next_line_ns:
            self._next_line_ns = (status.now_ns // _LINE_EVERY_NS + 1) * _LINE_EVERY_NS
            self._console.print(f"  {text}", highlight=False, soft_wrap=True, markup=False)
