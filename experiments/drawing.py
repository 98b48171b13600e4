"""How all plots look, and the files that they become."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import matplotlib as mpl
from matplotlib.artist import Artist
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
#: What the paper reports, where it is drawn beside ours
PAPER: Final = "#4D4D4D"


@dataclass(frozen=True, slots=True)
class Look:
    """Of a curve or a bar. Curves differ in their marks too, for those who print in black."""

    colour: str
    mark: str


#: The same thing looks the same in every figure: MRC blue, RoCE orange
MRC: Final = Look(BLUE, "o")
ROCE: Final = Look(ORANGE, "s")
ROCE_MANY_QPS: Final = Look(RED, "^")
ROCE_PFC_ONLY: Final = Look(PURPLE, "v")
#: MRC with something else than usual
MRC_OTHERWISE: Final = (Look(SKY, "D"), Look(GREEN, "P"), Look(GREY, "X"))

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
    look: Look,
) -> None:
    """A curve of medians over seeds, with bars from the lowest to the highest."""
    spreads = [each.spread(metric) for each in results]
    middle = [spread.median for spread in spreads]
    below = [spread.median - spread.low for spread in spreads]
    above = [spread.high - spread.median for spread in spreads]
    ax.errorbar(
        x,
        middle,
        yerr=[below, above],
        color=look.colour,
        marker=look.mark,
        capsize=2.5,
        label=label,
    )


def legend(ax: Axes, columns: int = 4) -> None:
    """Above the axes, where it covers nothing."""
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=columns, fontsize="small")


def common_legend(canvas: Canvas, columns: int = 4) -> None:
    """One legend above all panels, of everything that is in any of them."""
    found: dict[str, Artist] = {}
    for ax in canvas.axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    canvas.legend(
        list(found.values()),
        list(found),
        loc="outside upper left",
        ncols=columns,
        fontsize="small",
    )
