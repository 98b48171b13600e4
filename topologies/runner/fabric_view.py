"""The fabric drawn in text."""

# ruff: noqa: RUF001 (the drawing characters are meant)

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from topologies.addressing import HostId, Role, SwitchId
from topologies.model import Fabric
from topologies.units import rate_text

_GAP: Final = "   "
_MESH_ROWS: Final = 3
#: More hosts under one T0 than this, and only the first and the last are drawn
_DRAWN_HOSTS: Final = 6


def draw_fabric(fabric: Fabric, width: int) -> Iterator[str]:
    """Lines of at most `width` characters: as many planes as fit, side by side."""
    planes: list[list[str]] = []
    used = 0
    for plane in range(fabric.planes):
        drawing = _draw_plane(fabric, plane)
        size = len(drawing[0]) + (len(_GAP) if planes else 0)
        if planes and used + size > width:
            break
        planes.append(drawing)
        used += size
    if planes and len(planes[0][0]) > width:
        planes = []
    for row in zip(*planes, strict=True):
        yield _GAP.join(row).rstrip()
    left = fabric.planes - len(planes)
    if left:
        yield f"and {left} more like it" if planes else "(too wide to draw)"
    planes_text = "1 plane" if fabric.planes == 1 else f"{fabric.planes} planes, each"
    yield (
        f"{fabric.host_count} hosts; {planes_text} of {fabric.t0_per_plane} T0 and "
        f"{fabric.t1_per_plane} T1; in a plane every host is linked to its T0, every T0 to every T1"
    )
    yield (
        f"links: hosts {rate_text(fabric.host_link.rate_bps)}, "
        f"between switches {rate_text(fabric.fabric_link.rate_bps)}"
    )


def _draw_plane(fabric: Fabric, plane: int) -> list[str]:
    """Lines of equal length: heading, T1s, links, T0s, links, hosts."""
    t0s = [SwitchId(plane, Role.T0, index).name for index in range(fabric.t0_per_plane)]
    t1s = [SwitchId(plane, Role.T1, index).name for index in range(fabric.t1_per_plane)]
    hosts = [_host_names(fabric, index) for index in range(fabric.t0_per_plane)]
    cell = max(len(name) for names in hosts for name in names) + 1
    column = max(len(t0s[0]) + 2, len(t1s[0]) + 2, cell * max(map(len, hosts)) + 1)
    width = max(column * len(t0s), column * len(t1s))
    t0_centres = _centres(len(t0s), width)
    t1_centres = _centres(len(t1s), width)
    host_row, host_centres = [" "] * width, []
    for names, centre in zip(hosts, t0_centres, strict=True):
        left = centre - cell * len(names) // 2
        centres = [left + cell * number + cell // 2 for number in range(len(names))]
        for name, at in zip(names, centres, strict=True):
            _write(host_row, name, at)
        host_centres.append(centres)
    return [
        f"plane {plane}".ljust(width),
        _names(t1s, t1_centres, width),
        *_mesh(t0_centres, t1_centres, width),
        _names(t0s, t0_centres, width),
        _forks(t0_centres, host_centres, width),
        "".join(host_row),
    ]


def _host_names(fabric: Fabric, t0: int) -> list[str]:
    count = fabric.hosts_per_t0
    numbers = range(count) if count <= _DRAWN_HOSTS else (0, count - 1)
    names = [fabric.host_at(HostId(t0, number)).name for number in numbers]
    return names if count <= _DRAWN_HOSTS else [names[0], "…", names[1]]


def _centres(count: int, width: int) -> list[int]:
    return [width * (2 * number + 1) // (2 * count) for number in range(count)]


def _write(row: list[str], text: str, centre: int) -> None:
    start = max(0, min(len(row) - len(text), centre - len(text) // 2))
    row[start : start + len(text)] = text


def _names(names: Sequence[str], centres: Sequence[int], width: int) -> str:
    row = [" "] * width
    for name, centre in zip(names, centres, strict=True):
        _write(row, name, centre)
    return "".join(row)


def _mesh(lower: Sequence[int], upper: Sequence[int], width: int) -> list[str]:
    """Lines from each of the upper to each of the lower; a band where there are too many."""
    rows = [[" "] * width for _ in range(_MESH_ROWS)]
    if len(lower) * len(upper) > 4:
        first, last = min(*lower, *upper), max(*lower, *upper)
        for at in upper:
            rows[0][at] = "│"
        rows[1][first : last + 1] = "╳" * (last + 1 - first)
        for at in lower:
            rows[2][at] = "│"
        return ["".join(row) for row in rows]
    for top in upper:
        for bottom in lower:
            for number, row in enumerate(rows):
                at = round(top + (bottom - top) * (number + 1) / (_MESH_ROWS + 1))
                stroke = "│" if top == bottom else "╲" if bottom > top else "╱"
                row[at] = stroke if row[at] in (" ", stroke) else "╳"
    return ["".join(row) for row in rows]


def _forks(t0s: Sequence[int], hosts: Sequence[Sequence[int]], width: int) -> str:
    row = [" "] * width
    for t0, below in zip(t0s, hosts, strict=True):
        first, last = min(*below, t0), max(*below, t0)
        for at in range(first, last + 1):
            row[at] = "─"
        for at in below:
            row[at] = "┬"
        if len(below) > 1:
            row[below[0]], row[below[-1]] = "┌", "┐"
        row[t0] = "┼" if t0 in below else "┴"
        if first == last:
            row[t0] = "│"
    return "".join(row)
