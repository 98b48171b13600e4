"""The page that lays ours beside the paper's: HTML that needs no other file and no network."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from experiments.model import Check, Figure, Results, Scale
from experiments.words import WORDS, heading_of, value_text
from reports.style import style_sheet

_EXTRA_STYLE: Final = """
img.plot { display: block; width: 100%; max-width: 820px; background: #fff; border-radius: 6px; }
figure { margin: 10px 0; } figcaption { color: var(--dim); font-size: 12px; margin-top: 3px; }
td.ok { color: var(--good); } tr.why td { white-space: normal; text-align: left; }
tr.because td { border-bottom: none; } td.w { max-width: 420px; }
details { margin: 10px 0; } summary { cursor: pointer; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 12px; margin: 6px 0; }
dt { color: var(--dim); } dd { margin: 0; }
"""
_HOLDS: Final = "✓ holds"
_DIFFERS: Final = "≠ differs"
_FAILS: Final = "✗ does not hold"


@dataclass(frozen=True, slots=True)
class Shown:
    """A figure with all that the page says of it. `pictures`: SVG by the plot's name."""

    figure: Figure
    results: Results
    checks: Sequence[Check]
    pictures: Mapping[str, bytes]
    failures: Sequence[str]
    csv: str


def page(shown: Sequence[Shown], scale: Scale, facts: Mapping[str, str]) -> str:
    """The page. `facts`: what else its head says, by name."""
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        "<title>MRC: ours beside the paper's</title>",
        f"<style>{style_sheet()}{_EXTRA_STYLE}</style>",
        "</head>",
        "<body>",
        *_head(shown, scale, facts),
        *(part for each in shown for part in _figure(each)),
        "</body>",
        "</html>",
    ]
    return "\n".join(parts) + "\n"


def verdict_of(check: Check) -> str:
    """In two or three words."""
    return _HOLDS if check.holds else _FAILS if check.failed else _DIFFERS


def _head(shown: Sequence[Shown], scale: Scale, facts: Mapping[str, str]) -> list[str]:
    checks = [check for each in shown for check in each.checks]
    failed = [check for check in checks if check.failed]
    lost = sum(len(each.failures) for each in shown)
    tiles = {
        "claims": str(len(checks)),
        "hold": str(sum(check.holds for check in checks)),
        "differ, with the reason": str(
            sum(not check.holds and not check.failed for check in checks)
        ),
        "do not hold": str(len(failed)),
        "runs": str(sum(len(each.results) for each in shown)),
        "runs failed": str(lost),
        "scale": str(scale),
        **facts,
    }
    good = not failed and not lost
    text = (
        "✓ Every claim holds, or the page says why not."
        if good
        else "✗ Not all claims hold, or runs are missing."
    )
    rows = "".join(
        f'<tr><td class="t"><a href="#{escape(each.figure.name)}">'
        f"{escape(each.figure.name)}</a></td>"
        f'<td class="t w">{escape(each.figure.title)}</td>'
        f"<td>{sum(check.holds for check in each.checks)} of {len(each.checks)}</td>"
        f'<td class="t">{_summary(each)}</td></tr>'
        for each in shown
    )
    return [
        "<h1>MRC: ours beside the paper's</h1>",
        "<p>The experiments of “Resilient AI Supercomputer Networking using MRC and SRv6” "
        "(arXiv:2605.04333), in virtual time: real frames through the compiled P4 program and the "
        "whole endpoint, every byte of memory compared. Shapes and ratios are what is compared; "
        "each figure says how it is scaled. Where there are several seeds, numbers are medians, "
        "with the lowest and the highest in brackets; bars in plots reach from one to the other. "
        "A claim beside which the paper says nothing is ours.</p>",
        f'<div class="verdict {"good" if good else "bad"}">{text}</div>',
        '<div class="tiles">'
        + "".join(
            f"<div><b>{escape(value)}</b><span>{escape(name)}</span></div>"
            for name, value in tiles.items()
        )
        + "</div>",
        '<div class="wide"><table><tr><th class="t">figure</th><th class="t">what</th>'
        f'<th>claims that hold</th><th class="t">others</th></tr>{rows}</table></div>',
        f"<details><summary>Words</summary><dl>{_words()}</dl></details>",
    ]


def _words() -> str:
    return "".join(
        f"<dt>{escape(word)}</dt><dd>{escape(meaning)}</dd>" for word, meaning in WORDS.items()
    )


def _summary(each: Shown) -> str:
    words = []
    if each.failures:
        words.append(f'<span class="bad">{len(each.failures)} runs failed</span>')
    if any(check.failed for check in each.checks):
        words.append(_FAILS)
    if any(not check.holds and not check.failed for check in each.checks):
        words.append(_DIFFERS)
    return ", ".join(words)


def _figure(each: Shown) -> list[str]:
    figure = each.figure
    parts = [
        f'<h2 id="{escape(figure.name)}">{escape(figure.name)}: {escape(figure.title)}</h2>',
        f"<dl><dt>paper</dt><dd>{_prose(figure.paper)}</dd>"
        f"<dt>here</dt><dd>{_prose(figure.setup)}</dd></dl>",
    ]
    if each.failures:
        lines = "".join(f"<li>{escape(failure)}</li>" for failure in each.failures)
        parts.append(f'<div class="verdict bad">Runs that failed:<ul>{lines}</ul></div>')
    for plot in figure.plots:
        if plot.name in each.pictures:
            data = b64encode(each.pictures[plot.name]).decode()
            parts.append(
                f'<figure><img class="plot" alt="{escape(plot.caption)}" '
                f'src="data:image/svg+xml;base64,{data}">'
                f"<figcaption>{escape(plot.caption)}</figcaption></figure>"
            )
    parts.append(_checks(each.checks))
    if figure.notes:
        parts.append(f'<p class="dim">{_prose(figure.notes)}</p>')
    if len(each.results):
        parts.append(_table(each))
    return parts


def _checks(checks: Sequence[Check]) -> str:
    rows, told = [], set()
    for check in checks:
        because = check.explanation
        rows.append(
            f'<tr{" class=because" if because else ""}><td class="t w">{escape(check.claim)}</td>'
            f'<td class="t w">{escape(check.paper) or "-"}</td>'
            f'<td class="t w">{escape(check.ours)}</td>'
            f'<td class="t {_class_of(check)}">{verdict_of(check)}</td></tr>'
        )
        if because:
            text = "for the reason given above" if because in told else _prose(because)
            told.add(because)
            rows.append(f'<tr class="why"><td colspan="4">{text[0].upper() + text[1:]}</td></tr>')
    return (
        '<div class="wide"><table><tr><th class="t">claim</th><th class="t">paper</th>'
        f'<th class="t">ours</th><th class="t">verdict</th></tr>{"".join(rows)}</table></div>'
    )


def _class_of(check: Check) -> str:
    return "ok" if check.holds else "bad" if check.failed else "dim"


def _prose(text: str) -> str:
    """Text with `code` in it."""
    return re.sub("`([^`]*)`", r"<code>\1</code>", escape(text))


def _table(each: Shown) -> str:
    figure, results = each.figure, each.results
    varied = [
        name
        for name in dict.fromkeys(name for piece in results for name in piece.run.parameters)
        if len({piece.run.parameters.get(name) for piece in results}) > 1
    ]
    head = "".join(f'<th class="t">{escape(heading_of(name))}</th>' for name in varied)
    head += "<th>seeds</th>"
    head += "".join(f"<th>{escape(column.heading)}</th>" for column in figure.columns)
    rows = []
    for parameters, group in results.groups():
        cells = "".join(
            f'<td class="t">{escape(value_text(name, parameters.get(name)))}</td>'
            for name in varied
        )
        cells += f"<td>{len(group)}</td>"
        for column in figure.columns:
            numbers = all(isinstance(piece[column.metric], (int, float)) for piece in group)
            text = group.spread(column.metric).text(column.form) if numbers else "-"
            cells += f"<td>{escape(text)}</td>"
        rows.append(f"<tr>{cells}</tr>")
    data = b64encode(each.csv.encode()).decode()
    return (
        f'<div class="wide"><table><tr>{head}</tr>{"".join(rows)}</table></div>'
        f'<p class="dim"><a download="{escape(figure.name)}.csv" '
        f'href="data:text/csv;base64,{data}">'
        f"All {len(results)} runs with all their metrics (CSV)</a></p>"
    )
