"""The summary of a run, for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from reports.result import FlowResult, RunResult
from reports.text import NONE, rate_text, time_text
from reports.verdict import goodput_share, total_share
from topologies.model import Fabric
from topologies.units import size_text

#: Rows of a table; what is more is summed up
MAX_ROWS = 16
#: In front of what did not fit on a line
_HANGING = "    "


def print_result(console: Console, fabric: Fabric, result: RunResult) -> None:
    """Everything that a user wants to see first."""
    out = _Out(console)
    out.prose(f"[bold]{escape(result.scenario)}[/]  {escape(result.description)}")
    out.prose(
        f"  fabric {fabric.name}: {fabric.planes} planes x {fabric.t0_per_plane} T0 x "
        f"{fabric.t1_per_plane} T1, {fabric.host_count} hosts; base RTT "
        f"{time_text(result.base_rtt_ns)}; seed {result.seed}"
    )
    if result.flows:
        _flows(out, result)
    if result.collectives:
        _collectives(out, result)
    _planes(out, result)
    _frames(out, result)
    _transitions(out, result)
    _faults(out, result)
    packets = result.total["packets"]
    per_packet = f", {result.cpu_s / packets * 1e6:.0f} µs of CPU per packet" if packets else ""
    out.line()
    out.prose(
        f"  {time_text(result.now_ns)} of virtual time, {result.events} events in "
        f"{result.wall_s:.1f} s{per_packet}"
    )
    if result.failures:
        out.line()
        for failure in result.failures:
            out.line(f"[red]✗[/] {escape(failure)}")
    else:
        out.line("[green]✓[/] every byte is where it belongs; everything expected holds")


class _Out:
    """Lines and tables, within the width of the console where there is one to keep to."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def line(self, text: str = "") -> None:
        """A line as it is, however long."""
        self._console.print(text, highlight=False, soft_wrap=True)

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
        nothing is ever cut off.
        """
        widths = [
            max(cell_len(cell) for cell in cells) for cells in zip(columns, *rows, strict=True)
        ]
        self.line()
        self.line(f"[bold]{title}[/]")
        for part in _parts(widths, self._console.width):
            for number, row in enumerate((columns, *rows)):
                cells = [_aligned(row[0], widths[0], left=True)]
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


def _flows(out: _Out, result: RunResult) -> None:
    flows = result.flows
    rows = [_flow_row(flow, result) for flow in flows[:MAX_ROWS]]
    out.table(
        "flows",
        ("", "bytes", "done", "completion", "goodput", "of line", "packets", "resent", "timeouts",
         "trims", "ECN"),
        rows,
    )  # fmt: skip
    if len(flows) > MAX_ROWS:
        out.line(f"  … and {len(flows) - MAX_ROWS} more (all of them: --json)")
    for group, index in result.jain.items():
        members = [flow for flow in flows if flow.group == group]
        if len(members) > 1:
            share = total_share(members, result.payload_share)
            together = "" if share is None else f", together {100 * share:.1f} % of one line rate"
            out.prose(f"  {group}: {len(members)} flows, Jain's index {index:.4f}{together}")


def _flow_row(flow: FlowResult, result: RunResult) -> tuple[str, ...]:
    share = goodput_share(flow, result.payload_share)
    done = "yes" if flow.done and not flow.errors else ("failed" if flow.errors else "no")
    return (
        f"{flow.name} ({flow.source} → {flow.destination})",
        size_text(flow.completed_bytes),
        done,
        time_text(flow.completion_ns),
        rate_text(flow.goodput_bps),
        NONE if share is None else f"{100 * share:.1f} %",
        str(flow.packets),
        str(flow.retransmissions),
        str(flow.timeouts),
        str(flow.trims),
        str(flow.ecn_marked),
    )


def _collectives(out: _Out, result: RunResult) -> None:
    rows = []
    for each in result.collectives[:MAX_ROWS]:
        share = each.bus_share(result.payload_share)
        what = [] if each.name == each.collective else [each.collective]
        what += [each.data_type, *([each.reduce_op] if each.reduce_op else [])]
        state = "failed" if each.failures else "yes" if each.done else "no"
        rows.append(
            (
                f"{each.name} ({' '.join(what)})",
                str(len(each.hosts)),
                size_text(each.size_bytes),
                str(len(each.round_ns)),
                state,
                time_text(sum(each.round_ns) / len(each.round_ns)) if each.round_ns else NONE,
                rate_text(each.algorithm_bps),
                rate_text(each.bus_bps),
                NONE if share is None else f"{100 * share:.1f} %",
                str(each.packets),
                str(each.retransmissions),
                str(each.timeouts),
                str(each.trims),
            )
        )
    out.table(
        "collectives",
        ("", "ranks", "size", "rounds", "done", "a round", "algbw", "busbw", "of line", "packets",
         "resent", "timeouts", "trims"),
        rows,
    )  # fmt: skip
    if len(result.collectives) > MAX_ROWS:
        out.line(f"  … and {len(result.collectives) - MAX_ROWS} more (all of them: --json)")


def _planes(out: _Out, result: RunResult) -> None:
    total = sum(result.plane_bytes)
    if not total:
        return
    shares = [f"{plane}: {100 * size / total:.2f}" for plane, size in enumerate(result.plane_bytes)]
    out.line()
    out.items("  [bold]planes[/], percent of data sent:", shares)


def _frames(out: _Out, result: RunResult) -> None:
    lost = sum(result.lost.values())
    duplicated = f" + {result.duplicated} duplicated" if result.duplicated else ""
    out.prose(
        f"  [bold]frames[/]: {result.sent} sent{duplicated} = {result.received} received + "
        f"{lost} lost + {result.in_flight} on the way; {result.trimmed} trimmed, "
        f"{result.marked} marked"
    )
    for cause, count in result.lost.items():
        out.line(f"    lost: {count} {escape(cause)}")
    for reason, count in result.nic_drops.items():
        out.line(f"    dropped by NICs: {count} {escape(reason)}")
    for kind, count in result.nic_events.items():
        out.line(f"    events of NICs: {count} {escape(kind)}")


def _transitions(out: _Out, result: RunResult) -> None:
    if not result.transition_counts:
        return
    ordered = sorted(result.transition_counts.items(), key=lambda item: -item[1])
    out.table("EV transitions", ("", "count"), [(change, str(count)) for change, count in ordered])


def _full(after_ns: int | None, rate_bps: float | None) -> str:
    if after_ns is None:
        return "not again" if rate_bps is not None else NONE
    return "no dip" if after_ns == 0 else time_text(after_ns)


def _faults(out: _Out, result: RunResult) -> None:
    if not result.faults:
        return
    rows = []
    for fault in result.faults[:MAX_ROWS]:
        if not fault.begun:
            rows.append((f"{fault.name} (never began)", *(NONE,) * 10))
            continue
        last = "none sent" if fault.last_packet_ns is None else time_text(fault.last_packet_ns)
        end = NONE if fault.end_ns is None else time_text(fault.end_ns)
        rows.append(
            (
                f"{fault.name} ({fault.kind})",
                time_text(fault.at_ns),
                end,
                str(fault.lost),
                str(fault.packets_sent),
                last,
                str(fault.evs_out),
                time_text(fault.last_out_ns),
                rate_text(fault.lowest_rate_bps),
                _full(fault.full_rate_ns, fault.lowest_rate_bps),
                NONE if fault.end_ns is None else _full(fault.recovery_ns, fault.rate_before_bps),
            )
        )
    out.table(
        "faults",
        (
            "",
            "from",
            "until",
            "lost",
            "into it",
            "last at",
            "EVs out",
            "out by",
            "lowest",
            "full after",
            "repaired: full",
        ),
        rows,
    )
    if len(result.faults) > MAX_ROWS:
        out.line(f"  … and {len(result.faults) - MAX_ROWS} more (all of them: --json)")
