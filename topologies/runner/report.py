"""What a run shows: steps while it runs, tables and a verdict when it is over."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
from rich.table import Table

from topologies.model import Fabric
from topologies.runner.check.exchange import Flow
from topologies.runner.check.paths import HostPath
from topologies.runner.fabric_view import draw_fabric
from topologies.runner.session import CheckResult, Step

#: More host pairs or paths a pair than this, and the table sums them up
_MATRIX_ROWS: Final = 40
_MATRIX_COLUMNS: Final = 8
#: More ways than this, and planes are summed up
_SUMMARY_ROWS: Final = 16
_LISTED_PATHS: Final = 20
_LISTED_PROBLEMS: Final = 20
#: Columns that every table fits into
_TABLE_WIDTH: Final = 80
#: More switches than this, and only those that did more than forward are listed
_LISTED_SWITCHES: Final = 24
_TITLE_WIDTH: Final = 42


class ConsoleNarrator:
    """Shows steps on a console: a line each, and on a terminal a bar meanwhile."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @contextmanager
    def step(self, title: str, total: int) -> Iterator[Step]:
        """See `Narrator.step`."""
        started = time.monotonic()
        progress = Progress(
            SpinnerColumn(),
            TextColumn(title.ljust(_TITLE_WIDTH), markup=False),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        step = _ConsoleStep(progress, total)
        ok = False
        try:
            with progress:
                yield step
            ok = True
        finally:
            mark = "[green]✓[/]" if ok else "[red]✗[/]"
            seconds = time.monotonic() - started
            self._console.print(
                f"{mark} {escape(title.ljust(_TITLE_WIDTH))} {escape(step.text)}"
                f" [dim]({seconds:.1f} s)[/]",
                highlight=False,
                soft_wrap=True,
            )


class _ConsoleStep:
    def __init__(self, progress: Progress, total: int) -> None:
        self.text = ""
        self._progress = progress
        self._task = progress.add_task("", total=total)

    def advance(self, count: int = 1) -> None:
        self._progress.advance(self._task, count)

    def result(self, text: str) -> None:
        self.text = text


def print_fabric(console: Console, fabric: Fabric) -> None:
    """The fabric's picture."""
    for line in draw_fabric(fabric, console.width - 4):
        console.print("  " + line, markup=False, highlight=False, soft_wrap=True)
    console.print()


def print_result(console: Console, fabric: Fabric, result: CheckResult) -> None:
    """Tables of paths, bursts and counters."""
    tables = [_path_table(result)]
    if result.bad_paths:
        tables.append(_bad_path_table(result.bad_paths))
    if result.bursts:
        tables.append(_burst_table(fabric, result))
    if result.books:
        tables.append(_switch_table(result))
    given_width = console.width
    console.width = max(given_width, _TABLE_WIDTH)  # a narrower one would lose columns
    for table in tables:
        # Apart from its table, the title is not folded to the table's width
        title, table.title = table.title, None
        console.print(f"\n[bold]{title}[/]", highlight=False)
        console.print(table)
    console.width = given_width
    if result.no_burst:
        console.print(f"[yellow]{escape(result.no_burst)}[/]")
    console.print()


def print_verdict(console: Console, result: CheckResult, seconds: float) -> bool:
    """The problems, if any, and one closing line. Returns whether the check passed."""
    problems = result.problems()
    for problem in problems[:_LISTED_PROBLEMS]:
        console.print(f"[red]•[/] {escape(problem)}", highlight=False, soft_wrap=True)
    if len(problems) > _LISTED_PROBLEMS:
        console.print(f"  and {len(problems) - _LISTED_PROBLEMS} more")
    summary = _summary(result)
    verdict = "[bold red]FAIL[/]" if problems else "[bold green]PASS[/]"
    console.print(
        f"{verdict}  {summary} [dim]({seconds:.1f} s)[/]", highlight=False, soft_wrap=True
    )
    return not problems


def result_json(result: CheckResult) -> str:
    """The result for programs: packets per path, burst and switch, and the problems."""
    document = {
        "passed": not result.problems(),
        "problems": result.problems(),
        "dead_switches": result.dead_switches,
        "paths": [
            {
                "source": path.source.name,
                "destination": path.destination.name,
                "plane": path.path.plane,
                "switches": [switch.name for switch in path.path.switches],
                "ev": path.path.ev,
                **_packets(flow),
            }
            for path, flow in result.paths
        ],
        "bursts": [
            {
                "switch": burst.burst.switch.name,
                "port": burst.burst.port,
                "rate_bps": burst.burst.rate_bps,
                "sent": burst.sent,
                "whole": burst.whole,
                "trimmed": burst.trimmed,
                "marked_ce": burst.marked_ce,
                "dropped": dict(burst.dropped),
                "uncounted": burst.uncounted,
            }
            for burst in result.bursts
        ],
        "switches": {
            name: {
                "received": books.received,
                "sent_data": books.sent_data,
                "sent_control": books.sent_control,
                "trimmed": books.trimmed,
                "marked_ce": books.marked_ce,
                "dropped": dict(books.dropped),
                "uncounted": books.uncounted,
            }
            for name, books in result.books.items()
        },
    }
    return json.dumps(document, indent=2)


def _packets(flow: Flow) -> dict[str, int]:
    return {
        "to_send": flow.write.packets,
        "sent": flow.sent,
        "whole": flow.whole,
        "trimmed": flow.trimmed,
        "wrong": flow.wrong,
        "missing": flow.missing,
    }


def _summary(result: CheckResult) -> str:
    flows = [flow for _, flow in result.paths]
    good = len(flows) - len(result.bad_paths)
    parts = [
        f"{good} of {len(flows)} paths delivered every packet",
        f"{sum(flow.whole for flow in flows)} of {sum(flow.write.packets for flow in flows)} "
        "packets whole, every byte checked",
    ]
    if result.bursts:
        sent = sum(burst.sent for burst in result.bursts)
        whole = sum(burst.whole for burst in result.bursts)
        trimmed = sum(burst.trimmed for burst in result.bursts)
        dropped = sum(burst.dropped.total() for burst in result.bursts)
        parts.append(f"bursts: {sent} sent = {whole} whole + {trimmed} trimmed + {dropped} dropped")
    lost = sum(burst.uncounted for burst in result.bursts)
    lost += sum(abs(books.uncounted) for books in result.books.values())
    lost += sum(abs(loss.sent - loss.received) for loss in result.link_losses)
    parts.append(f"lost uncounted: {lost}")
    return "; ".join(parts)


def _arrived(flows: Sequence[Flow]) -> str:
    """'4/4': packets that arrived whole, of those to be sent; trimmed ones apart."""
    planned = sum(flow.write.packets for flow in flows)
    whole = sum(flow.whole for flow in flows)
    trimmed = sum(flow.trimmed for flow in flows)
    text = f"{whole}/{planned}" + (f" +{trimmed} trimmed" if trimmed else "")
    return f"[green]{text}[/]" if whole == planned else f"[bold red]{text}[/]"


def _table(title: str, *headings: str) -> Table:
    """A table with a name in its first column and numbers in the others."""
    table = Table(
        title=title,
        header_style="dim",
        box=box.SIMPLE_HEAD,
        padding=(0, 0, 0, 1),
        pad_edge=False,
        show_edge=False,
    )
    for number, heading in enumerate(headings):
        table.add_column(
            heading,
            justify="right" if number else "left",
            min_width=max(map(len, heading.split())),
            no_wrap=not number,
        )
    return table


def _way(path: HostPath) -> tuple[int, int]:
    """(plane, uplink) of a path, -1 where it turns at the T0: a column of the table."""
    uplink = path.path.uplink
    return path.path.plane, -1 if uplink is None else uplink


def _way_name(way: tuple[int, int]) -> str:
    plane, uplink = way
    return f"plane {plane}\n" + ("within T0" if uplink < 0 else f"over t1-{uplink}")


def _path_table(result: CheckResult) -> Table:
    ways = sorted({_way(path) for path, _ in result.paths})
    pairs = {(path.source.number, path.destination.number) for path, _ in result.paths}
    if len(pairs) > _MATRIX_ROWS or len(ways) > _MATRIX_COLUMNS:
        return _path_summary(result, ways)
    by_pair: dict[tuple[str, str], dict[tuple[int, int], list[Flow]]] = defaultdict(dict)
    for path, flow in result.paths:
        by_pair[path.source.name, path.destination.name].setdefault(_way(path), []).append(flow)
    table = _table(
        "Writes per path: packets that arrived whole / packets sent",
        "from → to",
        *map(_way_name, ways),
    )
    for (source, destination), cells in by_pair.items():
        row = (_arrived(cells[way]) if way in cells else "[dim]·[/]" for way in ways)
        table.add_row(f"{source} → {destination}", *row)
    return table


def _path_summary(result: CheckResult, ways: Sequence[tuple[int, int]]) -> Table:
    table = _table(
        "Writes per path, summed over host pairs (packets)",
        "way",
        "paths",
        "good",
        "arrived whole / sent",
        "missing",
    )
    by_way: dict[str, list[Flow]] = defaultdict(list)
    for path, flow in result.paths:
        way = _way(path)
        many = len(ways) > _SUMMARY_ROWS
        by_way[f"plane {way[0]}" if many else _way_name(way).replace("\n", ", ")].append(flow)
    for name, flows in by_way.items():
        good = sum(flow.whole == flow.write.packets for flow in flows)
        missing = sum(flow.missing for flow in flows)
        table.add_row(name, str(len(flows)), str(good), _arrived(flows), str(missing))
    return table


def _bad_path_table(bad: Sequence[tuple[HostPath, Flow]]) -> Table:
    shown = bad[:_LISTED_PATHS]
    title = "Paths that did not deliver every packet whole"
    if len(bad) > len(shown):
        title += f" (the first {len(shown)} of {len(bad)})"
    table = _table(title, "path", "to send", "sent", "whole", "trimmed", "wrong", "missing")
    for path, flow in shown:
        numbers = (
            flow.write.packets,
            flow.sent,
            flow.whole,
            flow.trimmed,
            flow.wrong,
            flow.missing,
        )
        table.add_row(path.name, *map(str, numbers))
    return table


def _burst_table(fabric: Fabric, result: CheckResult) -> Table:
    table = _table(
        "Bursts into a slowed port: sent = whole + trimmed + dropped + lost (packets)",
        "port",
        "slowed to",
        "sent",
        "whole",
        "trimmed",
        "dropped",
        "lost",
        "marked CE",
    )
    names = {dscp: name.upper() for name, dscp in fabric.traffic.items()}
    for each in result.bursts:
        burst = each.burst
        table.add_row(
            f"{burst.switch.name} → {burst.towards}\n[dim]trims to {names[burst.trimmed_dscp]}[/]",
            f"{burst.rate_bps / 1e6:.1f} Mb/s",
            str(each.sent),
            str(each.whole),
            str(each.trimmed),
            _reasons(each.dropped),
            _should_be_zero(each.uncounted),
            str(each.marked_ce),
        )
    return table


def _should_be_zero(number: int) -> str:
    return f"[bold red]{number}[/]" if number else "0"


def _reasons(dropped: Mapping[str, int]) -> str:
    total = sum(dropped.values())
    if not total:
        return "0"
    return f"{total} " + ", ".join(
        f"{reason} {count}" for reason, count in dropped.items() if count
    )


def _switch_table(result: CheckResult) -> Table:
    books = result.books
    title = "What the switches counted (packets, read over P4Runtime)"
    shown = books
    if len(books) > _LISTED_SWITCHES:
        shown = {
            name: each
            for name, each in books.items()
            if each.trimmed or each.marked_ce or each.dropped.total() or each.uncounted
        }
        title += f"; {len(books) - len(shown)} that only forwarded are left out"
    table = _table(
        title,
        "switch",
        "received",
        "sent as data",
        "sent as control",
        "dropped",
        "uncounted",
        "trimmed",
        "marked CE",
    )
    for name, each in shown.items():
        table.add_row(
            name,
            str(each.received),
            str(each.sent_data),
            str(each.sent_control),
            _reasons(each.dropped),
            _should_be_zero(each.uncounted),
            str(each.trimmed),
            str(each.marked_ce),
        )
    return table
