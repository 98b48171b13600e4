"""How all plots look, and the files that they become."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from experiments.model import Plot, Results

#: Okabe and Ito's colours, which people with any kind of colour vision tell apart
BLUE: Final = "#0072B2"
ORANGE: Final = "#E69F00"
GREEN: Final = "#009E73"
RED: Final = "#D55E00"
PURPLE: Final = "#CC79A7"
SKY: Final = "#56B4E9"
GREY: Final = "#7F7F7F"
COLOURS: Final = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY)
#: Curves differ in their marks too, for those who print in black
MARKS: Final = ("o", "s", "^", "D", "v", "P")

_STYLE: Final[dict[Any, Any]] = {
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 5.0,
    "figure.dpi": 120.0,
    "svg.hashsalt": "mrc",
}


def render(plot: Plot, results: Results, form: str) -> bytes:
    """A plot as svg or png."""
    with mpl.rc_context(_STYLE):
        canvas = Canvas(figsize=(plot.width_inch, plot.height_inch), layout="constrained")
        plot.draw(results, canvas)
        out = io.BytesIO()
        metadata = {"Date": None} if form == "svg" else None
        canvas.savefig(out, format=form, metadata=metadata, dpi=160)
    return out.getvalue()


def axes(
    canvas: Canvas, x: str, y: str, *, rows: int = 1, columns: int = 1, index: int = 1
) -> Axes:
    """Axes with their units."""
    made = canvas.add_subplot(rows, columns, index)
    made.set_xlabel(x)
    made.set_ylabel(y)
    return made


def shade(ax: Axes, start: float, end: float, label: str | None = None) -> None:
    """A time at which something was wrong."""
    ax.axvspan(start, end, color=ORANGE, alpha=0.18, linewidth=0, label=label)


def level(ax: Axes, y: float, label: str) -> None:
    """A value to compare with."""
    ax.axhline(y, color=GREY, linestyle="--", linewidth=1.0, label=label)


def bands(
    ax: Axes,
    x: Sequence[float],
    results: Sequence[Results],
    metric: str,
    label: str,
    number: int,
    *,
    scale: float = 1.0,
) -> None:
    """A curve of medians over seeds, with bars from the lowest to the highest."""
    spreads = [each.spread(metric) for each in results]
    middle = [spread.median * scale for spread in spreads]
    below = [(spread.median - spread.low) * scale for spread in spreads]
    above = [(spread.high - spread.median) * scale for spread in spreads]
    ax.errorbar(
        x,
        middle,
        yerr=[below, above],
        color=COLOURS[number % len(COLOURS)],
        marker=MARKS[number % len(MARKS)],
        capsize=2.5,
        label=label,
    )


def legend(ax: Axes, columns: int = 4) -> None:
    """Above the axes, where it covers nothing."""
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=columns, fontsize="small")
