"""The summary of a run, for people."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from reports.lines import Out
from reports.result import FlowResult, PauseTotals, RunResult
from reports.suspects import one_of, suspicions
from reports.text import NONE, rate_text, time_text
from reports.verdict import goodput_share, total_share
from topologies.model import Fabric
from topologies.units import size_text

#: Rows of a table; what is more is summed up
MAX_ROWS = 16
#: Ports that were paused longest and are named
MAX_PAUSED_PORTS = 4
#: Of a digest, enough to see that two are the same
_DIGEST_DIGITS = 16


def print_result(
    console: Console, fabric: Fabric, result: RunResult, files: Sequence[Path] = ()
) -> None:
    """Everything that a user wants to see first; `files` are where there is more."""
    out = Out(console)
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
    _suspicions(out, fabric, result)
    _faults(out, result)
    _tables(out, result)
    out.line()
    _cost(out, result)
    for note in result.notes:
        out.prose(f"  [yellow]note[/]: {escape(note)}")
    for path in files:
        out.line(f"  {escape(str(path))}")
    if result.failures:
        out.line()
        for failure in result.failures:
            out.line(f"[red]✗[/] {escape(failure)}")
    else:
        out.line("[green]✓[/] every byte is where it belongs; everything expected holds")


def _flows(out: Out, result: RunResult) -> None:
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


def _collectives(out: Out, result: RunResult) -> None:
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


def _planes(out: Out, result: RunResult) -> None:
    total = sum(result.plane_bytes)
    if not total:
        return
    shares = [f"{plane}: {100 * size / total:.2f}" for plane, size in enumerate(result.plane_bytes)]
    out.line()
    out.items("  [bold]planes[/], percent of data sent:", shares)


def _frames(out: Out, result: RunResult) -> None:
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
    if result.pauses is not None:
        _pauses(out, result.pauses, result.now_ns)
    for kind, count in result.nic_events.items():
        out.line(f"    events of NICs: {count} {escape(kind)}")


def _pauses(out: Out, pauses: PauseTotals, run_ns: int) -> None:
    out.prose(
        f"    pauses: {pauses.pauses} asked for, {pauses.frames} pause frames sent, "
        f"{pauses.frames_received} received; "
        f"NIC ports paused {time_text(pauses.hosts_paused_ns)}, "
        f"switch ports {time_text(pauses.switches_paused_ns)} together; at most "
        f"{size_text(pauses.peak_buffer_bytes)} held for one port"
    )
    if pauses.ports:
        longest = [
            f"{each.node} port {each.port} {100 * each.paused_ns / run_ns:.1f}"
            for each in pauses.ports[:MAX_PAUSED_PORTS]
        ]
        out.items("    paused longest, percent of the run:", longest)


def _transitions(out: Out, result: RunResult) -> None:
    if not result.transition_counts:
        return
    ordered = sorted(result.transition_counts.items(), key=lambda item: -item[1])
    out.table("EV transitions", ("", "count"), [(change, str(count)) for change, count in ordered])


def _tables(out: Out, result: RunResult) -> None:
    if not result.tables:
        return
    rows = [
        (
            each.switch,
            each.before[:_DIGEST_DIGITS],
            each.after[:_DIGEST_DIGITS],
            "same" if each.before == each.after else "DIFFERENT",
        )
        for each in result.tables[:MAX_ROWS]
    ]
    out.table("table entries, by digest", ("", "before", "after", ""), rows)
    left = result.tables[MAX_ROWS:]
    if left:
        same = sum(each.before == each.after for each in left)
        out.line(f"  … and {len(left)} more switches, {same} of them the same before and after")


def _cost(out: Out, result: RunResult) -> None:
    packets = result.total["packets"]
    per_packet = f", {result.cpu_s / packets * 1e6:.0f} µs of CPU per packet" if packets else ""
    if result.clock == "virtual":
        out.prose(
            f"  {time_text(result.now_ns)} of virtual time, {result.events} events in "
            f"{result.wall_s:.1f} s{per_packet}"
        )
        return
    out.prose(
        f"  {time_text(result.now_ns)} of real time on {result.target}, {result.cpu_s:.1f} s of "
        f"CPU in all{per_packet}"
    )
    if result.cpu_by_process:
        used = [f"{name} {seconds:.1f}" for name, seconds in result.cpu_by_process.items()]
        out.items("  [bold]CPU[/], seconds by process:", used)


def _suspicions(out: Out, fabric: Fabric, result: RunResult) -> None:
    """What EVs out of use have in common, as far as endpoints can tell."""
    found = suspicions(fabric, result)
    if not found:
        return
    out.line()
    out.line("[bold]what paths out of use have in common[/]")
    for each in found[:MAX_ROWS]:
        paths = "1 path" if each.paths_out == 1 else f"{each.paths_out} paths"
        out.prose(f"  at {time_text(each.at_ns)}, {paths}: {one_of(each.elements)}")
    if len(found) > MAX_ROWS:
        out.line(f"  … and {len(found) - MAX_ROWS} more")


def _full(after_ns: int | None, rate_bps: float | None) -> str:
    if after_ns is None:
        return "not again" if rate_bps is not None else NONE
    return "no dip" if after_ns == 0 else time_text(after_ns)


def _faults(out: Out, result: RunResult) -> None:
    if not result.faults:
        return
    rows = []
    for fault in result.faults[:MAX_ROWS]:
        if not fault.begun:
            rows.append((f"{fault.name} (never began)", *(NONE,) * 11))
            continue
        sent, last = str(fault.packets_sent), time_text(fault.last_packet_ns)
        if not fault.sent_known:
            sent = last = NONE
        elif fault.last_packet_ns is None:
            last = "none sent"
        end = NONE if fault.end_ns is None else time_text(fault.end_ns)
        rows.append(
            (
                f"{fault.name} ({fault.kind})",
                time_text(fault.at_ns),
                end,
                str(fault.lost),
                sent,
                last,
                str(fault.evs_out),
                time_text(fault.first_out_ns),
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
            "first out",
            "out by",
            "lowest",
            "full after",
            "repaired: full",
        ),
        rows,
    )
    if len(result.faults) > MAX_ROWS:
        out.line(f"  … and {len(result.faults) - MAX_ROWS} more (all of them: --json)")
