"""One page that shows a run: HTML that needs no other file and no network."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from reports import charts
from reports.fabric_map import fabric_map, load_key
from reports.record import FaultRecord, FlowRecord, RunRecord
from reports.style import COLOURS, style_sheet
from reports.suspects import one_of
from reports.text import NONE, bytes_text, count_text, rate_text, time_text

#: Names in a cell; what is more is counted
_MAX_NAMES: Final = 6
_MAX_SUSPICIONS: Final = 16
_MAX_PAUSED_PORTS: Final = 16
#: Of a digest, enough to see that two are the same
_DIGEST_DIGITS: Final = 16
_CHANGED: Final = "changed"


def page(record: RunRecord) -> str:
    """The page. Equal records give equal pages.

    The record itself is in it, as JSON in the element with the id `record`.
    """
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(record.scenario)}</title>",
        f"<style>{style_sheet()}</style>",
        "</head>",
        "<body>",
        *_head(record),
        "<h2>Fabric</h2>",
        load_key(),
        fabric_map(record),
        "<h2>Throughput</h2>",
        '<p class="dim">Payload delivered, of all flows together (filled)'
        f"{_curves_text(record)}; intervals of {charts.bin_text(record)}. "
        "Red bands: faults, numbered as in their table.</p>",
        _flow_key(record),
        charts.throughput(record),
        "<h2>Share of each plane</h2>",
        '<p class="dim">Of the data that hosts sent.</p>',
        _key((f"c{plane % COLOURS}", f"plane {plane}") for plane in range(record.fabric.planes)),
        charts.plane_shares(record),
        "<h2>EV states</h2>",
        *_evs(record),
        "<h2>Trims, marks, losses, queues</h2>",
        f'<p class="dim">Packets in intervals of {charts.bin_text(record)}, each row on a scale of '
        "its own; “in switches”: packets held by all switches together.</p>",
        charts.events(record),
        *_flow_control(record),
        "<h2>Flows</h2>",
        *_completions(record),
        _flows(record.flows),
        "<h2>Faults</h2>",
        _faults(record.faults) if record.faults else '<p class="dim">None.</p>',
        *_tables(record),
        *_cpu(record),
        f'<script type="application/json" id="record">{_embedded(record)}</script>',
        "</body>",
        "</html>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _embedded(record: RunRecord) -> str:
    """JSON that cannot end the element that it stands in."""
    return json.dumps(record.to_json(), separators=(",", ":")).replace("<", "\\u003c")


def _head(record: RunRecord) -> list[str]:
    fabric = record.fabric
    if record.failures:
        lines = "".join(f"<li>{escape(failure)}</li>" for failure in record.failures)
        verdict = f'<div class="verdict bad">✗ Not as expected:<ul>{lines}</ul></div>'
    else:
        verdict = (
            '<div class="verdict good">✓ Every byte is where it belongs; everything expected '
            "holds.</div>"
        )
    tiles = [(time_text(record.end_ns), f"{record.clock} time")]
    tiles += [(count_text(value), name) for name, value in record.totals.items()]
    shown = "".join(
        f"<div><b>{escape(value)}</b><span>{escape(name)}</span></div>" for value, name in tiles
    )
    description = f"<p>{escape(record.description)}</p>" if record.description else ""
    return [
        f"<h1>{escape(record.scenario)}</h1>",
        description,
        f'<p class="dim">{escape(fabric.name)}: {fabric.planes} planes x {fabric.t0_per_plane} T0 '
        f"x {fabric.t1_per_plane} T1, {fabric.host_count} hosts; base RTT "
        f"{time_text(fabric.base_rtt_ns)}; {_where(record)}; seed {record.seed}</p>",
        verdict,
        *_notes(record),
        f'<div class="tiles">{shown}</div>',
    ]


def _where(record: RunRecord) -> str:
    return f"{record.clock} time" + (f" on {escape(record.target)}" if record.target else "")


def _notes(record: RunRecord) -> list[str]:
    """What of the scenario did not happen as it says."""
    if not record.notes:
        return []
    lines = "".join(f"<li>{escape(note)}</li>" for note in record.notes)
    return [f'<p class="dim">What is different here:</p><ul class="notes dim">{lines}</ul>']


def _key(items: Iterable[tuple[str, str]]) -> str:
    spans = "".join(f'<span><i class="{kind}"></i>{escape(text)}</span>' for kind, text in items)
    return f'<div class="key">{spans}</div>'


def _has_curves(record: RunRecord) -> bool:
    return 1 < len(record.flows) <= charts.MAX_CURVES


def _curves_text(record: RunRecord) -> str:
    return " and of each" if _has_curves(record) else ""


def _flow_key(record: RunRecord) -> str:
    if not _has_curves(record):
        return ""
    return _key((f"c{index % COLOURS}", flow.name) for index, flow in enumerate(record.flows))


def _evs(record: RunRecord) -> list[str]:
    if not record.ev_spans:
        return [
            '<p class="dim">No EV left the state GOOD. (Planes whose port is down are left '
            "without that.)</p>"
        ]
    _, more = charts.ev_rows(record)
    rest = f" {more} more EVs are not drawn." if more else ""
    if record.ev_changes_omitted:
        rest += f" {record.ev_changes_omitted} later changes were counted only."
    key = _key((state, state) for state in ("ASSUMED_BAD", "DENIED", "SKIP"))
    changes = sorted(record.ev_changes.items(), key=lambda item: (-item[1], item[0]))
    rows = [[change, str(count)] for change, count in changes]
    return [
        f'<p class="dim">Times that EVs were not GOOD, by source, destination and T1.{rest}</p>',
        key,
        charts.ev_timeline(record),
        *_suspicions(record),
        _table(["change", "count"], rows, {0}),
    ]


def _suspicions(record: RunRecord) -> list[str]:
    if not record.suspicions:
        return []
    rows = [
        [time_text(each.at_ns), str(each.paths_out), one_of(each.elements)]
        for each in record.suspicions[:_MAX_SUSPICIONS]
    ]
    more = len(record.suspicions) - len(rows)
    rest = f" {more} later times are left out." if more > 0 else ""
    return [
        '<p class="dim">What paths out of use had in common that no path in use had: as far as '
        f"endpoints can tell, one of these is bad.{rest}</p>",
        _table(["at", "paths out", "one of"], rows, {2}, wrapped={2}),
    ]


def _flow_control(record: RunRecord) -> list[str]:
    """Pauses; nothing without flow control."""
    pauses = record.pauses
    if pauses is None:
        return []
    said = (
        f"Switches asked for {pauses.pauses} pauses: {pauses.frames_sent} pause frames sent, "
        f"{pauses.frames_received} received. Ports of NICs were paused for "
        f"{time_text(pauses.hosts_paused_ns)}, ports of switches for "
        f"{time_text(pauses.switches_paused_ns)}, all together; at most "
        f"{bytes_text(pauses.peak_buffer_bytes)} were held for one port."
    )
    parts = ["<h2>Flow control</h2>", f'<p class="dim">{escape(said)}</p>']
    if not pauses.ports:
        return parts
    rows = [
        [
            f"{each.node}, port {each.port}",
            time_text(each.paused_ns),
            f"{100 * each.paused_ns / record.end_ns:.1f} %" if record.end_ns else NONE,
        ]
        for each in pauses.ports[:_MAX_PAUSED_PORTS]
    ]
    more = len(pauses.ports) - len(rows)
    rest = f'<p class="dim">{more} more ports were paused for less.</p>' if more > 0 else ""
    return [*parts, _table(["paused port", "for", "of the run"], rows, {0}), rest]


def _completions(record: RunRecord) -> list[str]:
    if not record.flows:
        return []
    more = len(record.flows) - charts.MAX_BARS
    rest = f" {more} more flows are not drawn." if more > 0 else ""
    return [
        f'<p class="dim">From start to completion.{rest}</p>',
        charts.completions(record),
    ]


def _tables(record: RunRecord) -> list[str]:
    """Digests of what switches held; nothing in virtual time."""
    if not record.tables:
        return []
    changed = sum(each.before != each.after for each in record.tables)
    said = (
        f'<p class="bad">{changed} of {len(record.tables)} switches hold other entries than '
        "before the traffic.</p>"
        if changed
        else f'<p><span class="good">✓</span> All {len(record.tables)} switches hold the same '
        "entries as before the traffic, by digest: static means static.</p>"
    )
    rows = [
        [
            each.switch,
            each.before[:_DIGEST_DIGITS],
            each.after[:_DIGEST_DIGITS],
            "same" if each.before == each.after else _CHANGED,
        ]
        for each in record.tables
    ]
    table = _table(["switch", "before", "after", ""], rows, {0, 1, 2, 3}, bad={_CHANGED})
    return ["<h2>Tables</h2>", said, f"<details><summary>Digests</summary>{table}</details>"]


def _cpu(record: RunRecord) -> list[str]:
    if not record.cpu_s:
        return []
    total = sum(record.cpu_s.values())
    packets = sum(flow.packets for flow in record.flows)
    each = f", {1e6 * total / packets:.0f} µs for each data packet" if packets else ""
    return [
        "<h2>CPU by process</h2>",
        f'<p class="dim">{total:.1f} s in all{each}.</p>',
        charts.cpu_bars(record),
    ]


def _flows(flows: Sequence[FlowRecord]) -> str:
    columns = ["flow", "between", "state", "start", "completion", "size", "rate", "packets",
               "resent", "timeouts", "trims", "ECN"]  # fmt: skip
    rows = []
    for flow in flows:
        name = flow.name if flow.kind in ("flow", flow.name) else f"{flow.name} ({flow.kind})"
        between = " → ".join(flow.hosts) if flow.kind == "flow" else _names(flow.hosts)
        rows.append(
            [
                name,
                between,
                flow.state,
                time_text(flow.start_ns),
                time_text(flow.completion_ns),
                bytes_text(flow.size_bytes),
                rate_text(flow.rate_bps),
                str(flow.packets),
                str(flow.retransmissions),
                str(flow.timeouts),
                str(flow.trims),
                str(flow.ecn_marked),
            ]
        )
    return _table(columns, rows, {0, 1, 2}, bad={"failed", "unfinished"})


def _faults(faults: Sequence[FaultRecord]) -> str:
    columns = ["", "fault", "kind", "where", "from", "until", "lost", "sent into it", "EVs out",
               "first out", "last out", "lowest rate", "full after", "repaired: full"]  # fmt: skip
    rows = []
    for index, fault in enumerate(faults, start=1):
        where = _names([*fault.switches, *([] if fault.switches else fault.links), *fault.paths])
        until = "the end" if fault.end_ns is None else time_text(fault.end_ns)
        row = [f"F{index}", fault.name, fault.kind, where, time_text(fault.at_ns), until]
        if fault.begun:
            compared = fault.lowest_rate_bps is not None
            row += [
                str(fault.lost),
                NONE if fault.packets_sent is None else str(fault.packets_sent),
                str(fault.evs_out),
                time_text(fault.first_out_ns),
                time_text(fault.last_out_ns),
                rate_text(fault.lowest_rate_bps),
                _full(fault.full_rate_ns, compared),
                NONE if fault.end_ns is None else _full(fault.recovery_ns, compared),
            ]
        else:
            row += ["never began", *[NONE] * 7]
        rows.append(row)
    return _table(columns, rows, {0, 1, 2, 3}, bad={"never began"}, wrapped={3})


def _full(after_ns: int | None, compared: bool) -> str:
    if after_ns is None:
        return "not again" if compared else NONE
    return time_text(after_ns) if after_ns else "no dip"


def _names(names: Sequence[str]) -> str:
    more = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" and {more} more" if more > 0 else "")


def _table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    left: set[int],
    *,
    bad: frozenset[str] | set[str] = frozenset(),
    wrapped: frozenset[int] | set[int] = frozenset(),
) -> str:
    """A table; `left`: columns of text, `wrapped`: those that may break, `bad`: cells in red."""

    def cell(tag: str, index: int, content: str) -> str:
        classes = " ".join(
            name
            for name, holds in (
                ("t", index in left),
                ("w", index in wrapped),
                ("bad", tag == "td" and content in bad),
            )
            if holds
        )
        return f'<{tag} class="{classes}">{escape(content)}</{tag}>'

    head = "".join(cell("th", index, text) for index, text in enumerate(columns))
    body = "\n".join(
        "<tr>" + "".join(cell("td", index, text) for index, text in enumerate(row)) + "</tr>"
        for row in rows
    )
    return f'<div class="wide"><table>\n<tr>{head}</tr>\n{body}\n</table></div>'
