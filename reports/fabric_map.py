"""The map of the fabric: planes side by side, T1 above T0 above hosts, links by their load."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from reports import svg
from reports.record import LinkRecord, RunRecord
from reports.style import LOAD_STEPS
from reports.text import bytes_text, rate_text

_WIDTH: Final = 960
_GAP: Final = 12
_TOP: Final = 24
_T1_Y, _T0_Y, _HOST_Y = 50, 124, 190
_HEIGHT: Final = 214
_MIN_WIDTH: Final = 200
_PER_HOST: Final = 11
#: Room that a label needs for every character
_PER_CHARACTER: Final = 5.6


def fabric_map(record: RunRecord) -> str:
    """The picture. Faulted are links and switches of faults that began, whatever came later."""
    fabric = record.fabric
    wanted = max(_MIN_WIDTH, _PER_HOST * fabric.host_count)
    columns = max(1, min(fabric.planes, int((_WIDTH + _GAP) / (wanted + _GAP))))
    width = (_WIDTH + _GAP) / columns - _GAP
    rows = -(-fabric.planes // columns)
    faults: dict[str, list[str]] = {}
    for fault in record.faults:
        if fault.begun:
            for name in (*fault.links, *fault.switches):
                faults.setdefault(name, []).append(fault.name)
    by_plane: dict[int, list[LinkRecord]] = {}
    for link in record.links:
        by_plane.setdefault(link.plane, []).append(link)
    parts: list[str] = []
    for plane in range(fabric.planes):
        row, column = divmod(plane, columns)
        parts.append(
            f'<g transform="translate({svg.number(column * (width + _GAP))} '
            f'{row * (_HEIGHT + _GAP)})">'
        )
        parts += _plane(record, plane, width, by_plane.get(plane, []), faults)
        parts.append("</g>")
    height = rows * (_HEIGHT + _GAP) - _GAP
    return svg.svg(_WIDTH, height, parts, "map of the fabric")


def load_key() -> str:
    """What the colours of links mean."""
    steps = ["nothing", "under 20 %", "20 %", "40 %", "60 %", "80 % and more"]
    items = [f'<span><i class="l{step}"></i>{text}</span>' for step, text in enumerate(steps)]
    return (
        '<div class="key"><span>mean load of the busier direction:</span>'
        + "".join(items)
        + '<span><i class="ASSUMED_BAD"></i>dashed with a cross: had a fault</span></div>'
    )


def load_of(link: LinkRecord, end_ns: int) -> float | None:
    """Mean load of the busier direction, 1: full. None where the link has no rate, or no time."""
    if link.rate_bps is None or not end_ns:
        return None
    return max(link.up_bytes, link.down_bytes) * 8 * 1e9 / (link.rate_bps * end_ns)


def _step(link: LinkRecord, end_ns: int) -> int:
    if not link.up_bytes and not link.down_bytes:
        return 0
    load = load_of(link, end_ns)
    return 1 if load is None else 1 + min(int(load * (LOAD_STEPS - 1)), LOAD_STEPS - 2)


def _plane(
    record: RunRecord,
    plane: int,
    width: float,
    links: list[LinkRecord],
    faults: Mapping[str, list[str]],
) -> Iterator[str]:
    fabric = record.fabric
    yield svg.rect(0, 0, width, _HEIGHT, "panel", radius=6)
    yield svg.text(8, 16, f"plane {plane}", "dim")
    t1 = [f"p{plane}-t1-{index}" for index in range(fabric.t1_per_plane)]
    t0 = [f"p{plane}-t0-{index}" for index in range(fabric.t0_per_plane)]
    hosts = [f"h{index}" for index in range(fabric.host_count)]
    places: dict[str, tuple[float, float]] = {}
    for names, y in ((t1, _T1_Y), (t0, _T0_Y), (hosts, _HOST_Y)):
        for index, name in enumerate(names):
            places[name] = 6 + (width - 12) * (index + 0.5) / len(names), y
    # What had a fault lies on top
    for link in sorted(links, key=lambda link: link.name in faults):
        yield from _link(record, link, places, faults.get(link.name))
    for names, y in ((t1, _T1_Y), (t0, _T0_Y)):
        room = (width - 12) / len(names)
        size = min(room - 4, 34)
        for index, name in enumerate(names):
            x, _ = places[name]
            label = f"{'T1' if names is t1 else 'T0'}-{index}"
            mine = faults.get(name)
            title = f"{name}: fault {', '.join(mine)}" if mine else name
            classes = "node faulted" if mine else "node"
            yield svg.rect(x - size / 2, y - 8, size, 16, classes, title, radius=3)
            if size >= len(label) * _PER_CHARACTER:
                yield svg.text(x, y + 3.5, label, "s m")
    room = (width - 12) / len(hosts)
    longest = max(map(len, hosts)) * _PER_CHARACTER
    every = max(1, -(-int(longest) // max(int(room), 1)))
    radius = min(4.0, room / 3)
    for index, name in enumerate(hosts):
        x, at = places[name]
        yield svg.rect(x - radius, at - radius, 2 * radius, 2 * radius, "node", name, radius=4)
        if index % every == 0:
            yield svg.text(x, at + 16, name, "s m dim")


def _link(
    record: RunRecord,
    link: LinkRecord,
    places: Mapping[str, tuple[float, float]],
    faults: list[str] | None,
) -> Iterator[str]:
    (x1, y1), (x2, y2) = places[link.lower], places[link.upper]
    load = load_of(link, record.end_ns)
    share = "" if load is None else f", {100 * load:.1f} % of {rate_text(link.rate_bps)}"
    title = (
        f"{link.name}: {bytes_text(link.up_bytes)} up, {bytes_text(link.down_bytes)} down{share}"
    )
    classes = f"link l{_step(link, record.end_ns)}"
    if faults:
        title += f"; fault {', '.join(faults)}"
        classes += " faulted"
    yield svg.line(x1, y1, x2, y2, classes, title)
    if faults:
        # Nearer the lower end: in the middle, links of a full mesh cross each other
        x, y = x1 + 0.35 * (x2 - x1), y1 + 0.35 * (y2 - y1)
        yield svg.line(x - 4, y - 4, x + 4, y + 4, "cross")
        yield svg.line(x - 4, y + 4, x + 4, y - 4, "cross")
