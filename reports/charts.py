"""Pictures along time, all with the same axis, faults as bands on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from reports import svg
from reports.record import EvSpan, FaultRecord, RunRecord
from reports.style import COLOURS
from reports.text import count_text, rate_text, time_text

_WIDTH: Final = 960
_LEFT: Final = 150
_RIGHT: Final = 944
#: Points that a curve has at most; more cannot be seen
_MAX_POINTS: Final = 320
_LANE: Final = 13
_MAX_LANES: Final = 4
#: EVs that are drawn; those out of use go first
MAX_EV_ROWS: Final = 48
#: Flows that have a curve of their own
MAX_CURVES: Final = 8
#: Flows that have a bar from start to completion, and processes one of their CPU time
MAX_BARS: Final = 32
_STATES: Final = ("ASSUMED_BAD", "DENIED", "SKIP")


@dataclass(frozen=True, slots=True)
class Axis:
    """Time from left to right."""

    end_ns: int

    def x(self, time_ns: float) -> float:
        """The place of a time."""
        share = time_ns / self.end_ns if self.end_ns else 0.0
        return _LEFT + (_RIGHT - _LEFT) * min(max(share, 0.0), 1.0)

    def ticks(self) -> list[float]:
        """Round times, six or so."""
        step = round_up(self.end_ns / 7)
        return [index * step for index in range(int(self.end_ns / step) + 1)] if step else [0.0]

    def draw(self, top: float, bottom: float) -> Iterator[str]:
        """Lines and times below them."""
        for tick in self.ticks():
            x = self.x(tick)
            yield svg.line(x, top, x, bottom, "grid")
            yield svg.text(x, bottom + 14, time_text(tick) if tick else "0", "dim m")


def round_up(value: float) -> float:
    """The next of 1, 2, 5, 10, ... times a power of ten; 0 for 0."""
    if value <= 0:
        return 0.0
    power: float = 10.0 ** (len(f"{value:.0f}") - 1) if value >= 1 else 1.0
    return next(power * step for step in (1, 2, 5, 10) if power * step >= value)


@dataclass(frozen=True, slots=True)
class Bins:
    """Intervals of a series, so many together that they can be drawn."""

    width_ns: int
    starts_ns: list[int]

    @classmethod
    def of(cls, record: RunRecord) -> Bins:
        """The bins of all series of a run."""
        intervals = max(len(record.series.delivered_bytes) - 1, 0)
        together = max(1, -(-intervals // _MAX_POINTS))
        width_ns = together * record.interval_ns
        return cls(width_ns, [index * width_ns for index in range(intervals // together)])

    def increases(self, record: RunRecord, totals: Sequence[int]) -> list[int]:
        """By how much a counter rose in each bin."""
        together = self.width_ns // record.interval_ns
        chosen = totals[::together][: len(self.starts_ns) + 1]
        return [after - before for before, after in pairwise(chosen)]

    def peaks(self, record: RunRecord, values: Sequence[int]) -> list[int]:
        """The highest value in each bin."""
        together = self.width_ns // record.interval_ns
        return [
            max(values[index * together + 1 : (index + 1) * together + 1])
            for index in range(len(self.starts_ns))
        ]


def _bands(axis: Axis, faults: Sequence[FaultRecord], top: float, bottom: float) -> Iterator[str]:
    """Times with a fault, as faintly where there are many; each fault has an edge and a title."""
    for start_ns, end_ns in _together(axis, faults):
        x1, x2 = axis.x(start_ns), axis.x(end_ns)
        yield svg.rect(x1, top, max(x2 - x1, 1), bottom - top, "band")
    for index, fault in enumerate(faults, start=1):
        if not fault.begun:
            continue
        end_ns = axis.end_ns if fault.end_ns is None else fault.end_ns
        x1, x2 = axis.x(fault.at_ns), axis.x(end_ns)
        until = "to the end" if fault.end_ns is None else f"until {time_text(fault.end_ns)}"
        title = f"F{index} {fault.name} ({fault.kind}) from {time_text(fault.at_ns)} {until}"
        yield svg.rect(x1, top, max(x2 - x1, 1), bottom - top, "hover", title)
        yield svg.line(x1, top, x1, bottom, "edge")


def _together(axis: Axis, faults: Sequence[FaultRecord]) -> list[tuple[int, int]]:
    """When there was a fault, those that overlap taken together."""
    times: list[tuple[int, int]] = []
    for start_ns, end_ns in sorted(
        (fault.at_ns, axis.end_ns if fault.end_ns is None else fault.end_ns)
        for fault in faults
        if fault.begun
    ):
        if times and start_ns <= times[-1][1]:
            times[-1] = times[-1][0], max(times[-1][1], end_ns)
        else:
            times.append((start_ns, end_ns))
    return times


def _band_labels(axis: Axis, faults: Sequence[FaultRecord]) -> tuple[list[str], float]:
    """Labels above a picture, and the height that they need; those without room are left out."""
    taken: list[float] = []
    placed: list[tuple[float, int, str]] = []
    for index, fault in enumerate(faults, start=1):
        if not fault.begun:
            continue
        whole = f"F{index} {fault.name}"
        label = whole if len(whole) <= 28 else f"{whole[:27]}…"
        width = 6.6 * len(label) + 8
        x = min(axis.x(fault.at_ns), _RIGHT - width + 8)
        lane = next((lane for lane, end in enumerate(taken) if end <= x), len(taken))
        if lane == _MAX_LANES:
            continue
        if lane == len(taken):
            taken.append(0.0)
        taken[lane] = x + width
        placed.append((x, lane, label))
    parts = [svg.text(x, 11 + lane * _LANE, label, "f") for x, lane, label in placed]
    return parts, len(taken) * _LANE + 6.0


def _scale(
    top: float, bottom: float, highest: float, text: Callable[[float], str]
) -> tuple[Callable[[float], float], list[str]]:
    """Where a value is, and lines for 0, the half and the whole."""
    whole = round_up(highest) or 1.0
    # Between 5 and 10 there is much air
    whole = next((whole * part for part in (0.6, 0.8) if highest <= whole * part), whole)
    lines = []
    for value in (0.0, whole / 2, whole):
        y = bottom - (bottom - top) * value / whole
        lines.append(svg.line(_LEFT, y, _RIGHT, y, "grid"))
        lines.append(svg.text(_LEFT - 8, y + 4, text(value) if value else "0", "dim e"))
    return lambda value: bottom - (bottom - top) * value / whole, lines


def _steps(
    axis: Axis, bins: Bins, values: Sequence[float], y: Callable[[float], float]
) -> list[tuple[float, float]]:
    steps = []
    for start_ns, value in zip(bins.starts_ns, values, strict=True):
        steps.append((axis.x(start_ns), y(value)))
        steps.append((axis.x(start_ns + bins.width_ns), y(value)))
    return steps


def throughput(record: RunRecord) -> str:
    """Delivered payload of all flows together, and of each where they are few."""
    axis, bins = Axis(record.end_ns), Bins.of(record)
    scale = 8e9 / bins.width_ns if bins.width_ns else 0.0

    def rates(totals: Sequence[int]) -> list[float]:
        return [scale * value for value in bins.increases(record, totals)]

    total = rates(record.series.delivered_bytes)
    labels, top = _band_labels(axis, record.faults)
    bottom = top + 190
    y, lines = _scale(top, bottom, max(total, default=0.0), rate_text)
    parts = [*labels, *lines, *axis.draw(top, bottom), *_bands(axis, record.faults, top, bottom)]
    if total:
        steps = _steps(axis, bins, total, y)
        ground = [(steps[0][0], bottom), *steps, (steps[-1][0], bottom)]
        parts.append(svg.polygon(ground, "area"))
        if 1 < len(record.flows) <= MAX_CURVES:
            for index, flow in enumerate(record.flows):
                curve = _steps(axis, bins, rates(flow.delivered_bytes), y)
                parts.append(svg.polyline(curve, f"curve k{index % COLOURS}", flow.name))
        parts.append(svg.polyline(steps, "total", "all together"))
    return svg.svg(_WIDTH, bottom + 20, parts, "throughput over time")


def plane_shares(record: RunRecord) -> str:
    """Shares of the planes in the data that hosts send, one above the other."""
    axis, bins = Axis(record.end_ns), Bins.of(record)
    planes = [bins.increases(record, totals) for totals in record.series.plane_bytes]
    labels, top = _band_labels(axis, record.faults)
    bottom = top + 150
    y, lines = _scale(top, bottom, 100, lambda value: f"{value:.0f} %")
    parts = [*labels, *lines, *axis.draw(top, bottom)]
    for first, last in _runs(planes, len(bins.starts_ns)):
        below = [0.0] * (last - first)
        part = Bins(bins.width_ns, bins.starts_ns[first:last])
        for plane, values in enumerate(planes):
            above = list(below)
            for index in range(first, last):
                total = sum(each[index] for each in planes)
                above[index - first] += 100 * values[index] / total
            area = _steps(axis, part, above, y) + _steps(axis, part, below, y)[::-1]
            parts.append(svg.polygon(area, f"c{plane % COLOURS}", f"plane {plane}"))
            below = above
    parts += _bands(axis, record.faults, top, bottom)
    return svg.svg(_WIDTH, bottom + 20, parts, "share of each plane over time")


def _runs(planes: Sequence[Sequence[int]], count: int) -> Iterator[tuple[int, int]]:
    """Ranges of bins in which something was sent."""
    first: int | None = None
    for index in range(count):
        sent = any(values[index] for values in planes)
        if sent and first is None:
            first = index
        elif not sent and first is not None:
            yield first, index
            first = None
    if first is not None:
        yield first, count


def events(record: RunRecord) -> str:
    """Trims, marks, losses, retransmissions and queues, each on a scale of its own."""
    axis, bins = Axis(record.end_ns), Bins.of(record)
    series = record.series
    rows = [
        ("trimmed", bins.increases(record, series.trimmed)),
        ("marked CE", bins.increases(record, series.marked)),
        ("lost", bins.increases(record, series.lost)),
        ("retransmitted", bins.increases(record, series.retransmitted)),
        ("in switches", bins.peaks(record, series.queued)),
    ]
    labels, top = _band_labels(axis, record.faults)
    height, gap = 42, 12
    bottom = top + len(rows) * (height + gap)
    parts = [*labels, *axis.draw(top, bottom), *_bands(axis, record.faults, top, bottom)]
    for index, (name, values) in enumerate(rows):
        row_top = top + index * (height + gap) + gap / 2
        row_bottom = row_top + height
        highest = max(values, default=0)
        parts.append(svg.text(8, row_top + 18, name))
        parts.append(svg.text(8, row_top + 32, f"most {count_text(highest)}", "dim"))
        parts.append(svg.line(_LEFT, row_bottom, _RIGHT, row_bottom, "grid"))
        if highest:
            steps = _steps(axis, bins, values, _proportional(row_bottom, height / highest))
            ground = [(steps[0][0], row_bottom), *steps, (steps[-1][0], row_bottom)]
            parts.append(svg.polygon(ground, "area"))
            parts.append(svg.polyline(steps, "step", name))
    return svg.svg(_WIDTH, bottom + 20, parts, "trims, marks, losses and queues over time")


def _proportional(bottom: float, per_unit: float) -> Callable[[float], float]:
    return lambda value: bottom - value * per_unit


def bin_text(record: RunRecord) -> str:
    """How long an interval of the pictures is."""
    return time_text(Bins.of(record).width_ns)


EvKey = tuple[str, str, int, int, str]


def ev_rows(record: RunRecord) -> tuple[list[tuple[EvKey, list[EvSpan]]], int]:
    """EVs that are drawn with their spans, and how many more there are."""
    rows: dict[EvKey, list[EvSpan]] = {}
    for span in record.ev_spans:
        key = span.host, span.peer, span.qp_num, span.ev, span.path
        rows.setdefault(key, []).append(span)

    def only_skipped(item: tuple[EvKey, list[EvSpan]]) -> bool:
        return all(span.state == "SKIP" for span in item[1])

    # Stable: within each kind, by when the first span began
    chosen = sorted(rows.items(), key=only_skipped)[:MAX_EV_ROWS]
    return chosen, len(rows) - len(chosen)


def ev_timeline(record: RunRecord) -> str:
    """A row for each EV that was not GOOD at some time; empty where all were."""
    rows, _ = ev_rows(record)
    if not rows:
        return ""
    axis = Axis(record.end_ns)
    labels, top = _band_labels(axis, record.faults)
    height = 16
    bottom = top + height * len(rows)
    parts = [*labels, *axis.draw(top, bottom), *_bands(axis, record.faults, top, bottom)]
    for index, ((host, peer, qp_num, ev, path), spans) in enumerate(rows):
        y = top + index * height
        where = path.replace("plane ", "p", 1) if " via " not in path else path.split(" via ")[1]
        parts.append(svg.text(_LEFT - 8, y + 12, f"{host} → {peer} {where}", "e"))
        parts.append(svg.line(_LEFT, y + height, _RIGHT, y + height, "grid"))
        for span in spans:
            end_ns = record.end_ns if span.end_ns is None else span.end_ns
            x1, x2 = axis.x(span.start_ns), axis.x(end_ns)
            until = "the end" if span.end_ns is None else time_text(span.end_ns)
            title = (
                f"{host} → {peer}, QP {qp_num}, EV {ev:#010x}, {path}: {span.state} from "
                f"{time_text(span.start_ns)} to {until} ({span.cause})"
            )
            state = span.state if span.state in _STATES else "other"
            parts.append(svg.rect(x1, y + 3, max(x2 - x1, 1.5), height - 5, state, title))
    return svg.svg(_WIDTH, bottom + 20, parts, "states of EVs over time")


def completions(record: RunRecord) -> str:
    """A bar for each flow, from its start to its completion, or to the end where there is none."""
    axis = Axis(record.end_ns)
    flows = record.flows[:MAX_BARS]
    labels, top = _band_labels(axis, record.faults)
    height = 18
    bottom = top + height * len(flows)
    parts = [*labels, *axis.draw(top, bottom), *_bands(axis, record.faults, top, bottom)]
    for index, flow in enumerate(flows):
        y = top + index * height
        took = flow.completion_ns
        end_ns = record.end_ns if took is None else flow.start_ns + took
        x1, x2 = axis.x(flow.start_ns), axis.x(end_ns)
        done = flow.state == "done"
        colour = f"c{index % COLOURS}" if done else "bad"
        text = time_text(took) if done else flow.state
        title = f"{flow.name}: {flow.state}, from {time_text(flow.start_ns)} on, {text}"
        name = flow.name if len(flow.name) <= 22 else f"{flow.name[:21]}…"
        parts.append(svg.text(_LEFT - 8, y + 13, name, "e"))
        parts.append(svg.rect(x1, y + 4, max(x2 - x1, 1.5), height - 7, colour, title, radius=2))
        # Beside the bar, where there is room for it
        room = 7.0 * len(text) + 6
        behind = x2 + room <= _RIGHT
        place, classes = (x2 + 5, "") if behind else (max(x2 - 5, x1 + room), "e on")
        parts.append(svg.text(place, y + 13, text, classes))
    return svg.svg(_WIDTH, bottom + 20, parts, "start and completion of flows")


def cpu_bars(record: RunRecord) -> str:
    """Seconds of CPU of each process, most first."""
    used = sorted(record.cpu_s.items(), key=lambda item: (-item[1], item[0]))[:MAX_BARS]
    most = max((seconds for _, seconds in used), default=0.0) or 1.0
    height = 17
    parts = []
    for index, (name, seconds) in enumerate(used):
        y = index * height
        width = (_RIGHT - 60 - _LEFT) * seconds / most
        label = name if len(name) <= 22 else f"{name[:21]}…"
        parts.append(svg.text(_LEFT - 8, y + 12, label, "e"))
        parts.append(svg.rect(_LEFT, y + 3, max(width, 1), height - 6, "c0", name, radius=2))
        parts.append(svg.text(_LEFT + width + 6, y + 12, f"{seconds:.2f} s", "dim"))
    return svg.svg(_WIDTH, height * len(used) + 2, parts, "CPU time by process")
