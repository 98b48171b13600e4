"""What `mrc-host` prints of counters, paths and probes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

_PIPE_WIDTH: Final = 130
_STYLES: Final = {"GOOD": "green", "SKIP": "yellow", "ASSUMED_BAD": "red", "DENIED": "magenta"}


def console() -> Console:
    """In a pipe or a file nothing says how wide a line may be."""
    made = Console()
    return made if made.is_terminal else Console(width=_PIPE_WIDTH)


def as_json(answer: Mapping[str, Any], indent: int | None = 2) -> str:
    """Without what only says that the request was carried out."""
    return json.dumps(
        {name: value for name, value in answer.items() if name != "ok"}, indent=indent
    )


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left", header_style="bold", title_style="bold")
    for heading in headings:
        left = heading in ("interface", "state", "peer", "path", "set", "reason", "host")
        table.add_column(heading, justify="left" if left else "right", overflow="fold")
    return table


def _time(duration_ns: int | None) -> str:
    if duration_ns is None:
        return ""
    return (
        f"{duration_ns / 1e6:.2f} ms" if duration_ns >= 1_000_000 else f"{duration_ns / 1e3:.0f} us"
    )


def _rate(size_bytes: int, duration_ns: int) -> str:
    return f"{size_bytes * 8e3 / max(duration_ns, 1):.1f} Mb/s"


def stat_view(answer: Mapping[str, Any], before: Mapping[str, Any] | None) -> RenderableType:
    """Ports, queue pairs, drops; with an answer from before, rates in place of sums."""
    span_ns = answer["uptime_ns"] - (before["uptime_ns"] if before else 0)
    cpu_ns = answer["cpu_ns"] - (before["cpu_ns"] if before else 0)
    ports = _table("ports", "plane", "interface", "state", "rate", "sent", "received", "out", "in")
    for index, port in enumerate(answer["ports"]):
        old = before["ports"][index] if before else dict.fromkeys(port, 0)
        rate_bps = port["rate_bps"]
        ports.add_row(
            str(port["plane"]),
            port["interface"],
            Text("up", "green") if port["up"] else Text("down", "red"),
            "unlimited" if rate_bps is None else f"{rate_bps / 1e6:g} Mb/s",
            str(port["tx_frames"]),
            str(port["rx_frames"]),
            _rate(port["tx_bytes"] - old["tx_bytes"], span_ns),
            _rate(port["rx_bytes"] - old["rx_bytes"], span_ns),
        )
    qps = _table(
        "queue pairs", "QP", "state", "peer", "packets", "rtx", "timeouts", "trims",
        "in flight", "cwnd", "base RTT", "delay", "good EVs", "bad EVs",
    )  # fmt: skip
    for qp in answer["qps"]:
        states = qp.get("evs", {})
        bad = states.get("ASSUMED_BAD", 0)
        qps.add_row(
            f"{qp['qp']:#x}",
            qp["state"],
            qp["peer"] or "",
            *(
                str(qp.get(name, ""))
                for name in ("packets", "retransmissions", "timeouts", "trims")
            ),
            _kib(qp.get("inflight_bytes")),
            _kib(qp.get("cwnd_bytes")),
            _time(qp.get("base_rtt_ns")),
            _time(qp.get("avg_delay_ns")),
            str(states.get("GOOD", 0) + states.get("SKIP", 0)),
            Text(str(bad), "red" if bad else ""),
        )
    parts: list[RenderableType] = [
        Text(f"{answer['host']}: {cpu_ns * 100 / max(span_ns, 1):.0f} % of a core"),
        ports,
    ]
    if answer["qps"]:
        parts.append(qps)
    lost = {**answer["dropped"], **answer["lost"]}
    if lost:
        drops = _table("not used or lost", "reason", "frames")
        for reason, count in sorted(lost.items()):
            drops.add_row(reason, str(count))
        parts.append(drops)
    return Group(*parts)


def _kib(size_bytes: int | None) -> str:
    if size_bytes is None or size_bytes > 1 << 50:
        return ""
    return f"{size_bytes / 1024:.0f} KiB"


def path_text(elements: Sequence[str]) -> str:
    """Links of a path, in order: their names tell the switches too."""
    return " ".join(name for name in elements if "--" in name)


def evs_view(answer: Mapping[str, Any], before: Mapping[str, Any] | None) -> RenderableType:
    """A table for each queue pair."""
    if not answer["qps"]:
        return Text("no queue pair is connected")
    parts: list[RenderableType] = []
    for qp in answer["qps"]:
        title = f"QP {qp['qp']:#x} to {qp['peer']} ({qp['state']})"
        table = _table(title, "EV", "plane", "state", "set", "path")
        for ev in qp["evs"]:
            state = ev["state"]
            where = "active" if ev["active"] else "backup" if state == "GOOD" else ""
            shown = Text(state, _STYLES.get(state, ""))
            if not ev["port_up"]:
                shown.append(", port down", "red")
            table.add_row(f"{ev['ev']:#06x}", str(ev["plane"]), shown, where, path_text(ev["path"]))
        parts.append(table)
    return Group(*parts)


def merge_probes(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Several rounds of probes as one: least, average and largest RTT of each EV."""
    merged = []
    for index, ev in enumerate(rounds[0]["evs"]):
        rtts = [each["evs"][index]["rtt_ns"] for each in rounds]
        answered = [rtt for rtt in rtts if rtt is not None]
        merged.append(
            {
                "ev": ev["ev"],
                "plane": ev["plane"],
                "sent": len(rtts),
                "answered": len(answered),
                "min_rtt_ns": min(answered, default=None),
                "avg_rtt_ns": sum(answered) // len(answered) if answered else None,
                "max_rtt_ns": max(answered, default=None),
                "path": ev["path"],
            }
        )
    return {"peer": rounds[0]["peer"], "evs": merged}


def probe_view(answer: Mapping[str, Any]) -> RenderableType:
    """One line an EV."""
    table = _table(
        f"probes to {answer['peer']}", "EV", "plane", "answered", "min", "avg", "max", "path"
    )
    for ev in answer["evs"]:
        whole = ev["answered"] == ev["sent"]
        table.add_row(
            f"{ev['ev']:#06x}",
            str(ev["plane"]),
            Text(f"{ev['answered']} of {ev['sent']}", "" if whole else "red"),
            *(_time(ev[name]) for name in ("min_rtt_ns", "avg_rtt_ns", "max_rtt_ns")),
            path_text(ev["path"]),
        )
    return table
