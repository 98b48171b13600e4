"""Elements of SVG as text. Text and names are escaped here, numbers made short."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape


def number(value: float) -> str:
    """A coordinate, to a tenth."""
    return f"{value:.1f}".removesuffix(".0")


def points(pairs: Iterable[tuple[float, float]]) -> str:
    """Coordinates of a polyline."""
    return " ".join(f"{number(x)},{number(y)}" for x, y in pairs)


def text(x: float, y: float, content: str, classes: str = "") -> str:
    """A line of text; `y` is its baseline."""
    return f'<text x="{number(x)}" y="{number(y)}" class="{classes}">{escape(content)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, classes: str, title: str = "") -> str:
    """A line, with what the pointer shows on it."""
    return (
        f'<line x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}" '
        f'class="{classes}">{_title(title)}</line>'
    )


def rect(
    x: float, y: float, width: float, height: float, classes: str, title: str = "", radius: int = 0
) -> str:
    """A rectangle, with what the pointer shows on it."""
    corner = f' rx="{radius}"' if radius else ""
    return (
        f'<rect x="{number(x)}" y="{number(y)}" width="{number(max(width, 0))}" '
        f'height="{number(max(height, 0))}"{corner} class="{classes}">{_title(title)}</rect>'
    )


def polyline(pairs: Iterable[tuple[float, float]], classes: str, title: str = "") -> str:
    """A line through points."""
    return f'<polyline points="{points(pairs)}" class="{classes}">{_title(title)}</polyline>'


def polygon(pairs: Iterable[tuple[float, float]], classes: str, title: str = "") -> str:
    """An area round points."""
    return f'<polygon points="{points(pairs)}" class="{classes}">{_title(title)}</polygon>'


def svg(width: float, height: float, parts: Iterable[str], label: str) -> str:
    """A picture, as wide as the page, or scrolled where the page is narrow.

    `label` says what it is to who cannot see it.
    """
    return (
        f'<div class="chart"><svg viewBox="0 0 {number(width)} {number(height)}" role="img" '
        f'aria-label="{escape(label)}">\n' + "\n".join(parts) + "\n</svg></div>"
    )


def _title(title: str) -> str:
    return f"<title>{escape(title)}</title>" if title else ""
