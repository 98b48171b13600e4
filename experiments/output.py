"""The folder of results: tables, pictures and the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from experiments.drawing import render
from experiments.model import Check, Figure, Scale
from experiments.page import Shown, page
from experiments.sweep import Outcome
from experiments.tables import csv_text

PAGE_NAME: Final = "paper.html"


def show(figure: Figure, outcome: Outcome, expected: int) -> Shown:
    """A figure's checks and pictures. Checks and pictures need all of its runs."""
    results = outcome.of(figure.name)
    failures = [
        f"{failed.run.text()}: {failed.why}"
        for failed in outcome.failed
        if failed.run.figure == figure.name
    ]
    whole = len(results) == expected
    checks = [_missing(len(results), expected)]
    pictures: dict[str, bytes] = {}
    if whole:
        try:
            checks = list(figure.checks(results))
            pictures = {plot.name: render(plot, results, "svg") for plot in figure.plots}
        except (ArithmeticError, LookupError, ValueError) as error:
            # Something was not measured, say; other figures are not worse for it
            missing = f"{error} was not measured" if isinstance(error, KeyError) else str(error)
            checks = [Check("there is what it is judged by", "", missing, holds=False)]
    return Shown(figure, results, checks, pictures, failures, csv_text(results))


def _missing(made: int, expected: int) -> Check:
    return Check("all runs are there", "", f"{made} of {expected}", holds=False)


def write(folder: Path, shown: Sequence[Shown], scale: Scale, facts: Mapping[str, str]) -> Path:
    """Write everything; returns the page's path. Raises OSError."""
    tables, pictures = folder / "tables", folder / "figures"
    tables.mkdir(parents=True, exist_ok=True)
    pictures.mkdir(parents=True, exist_ok=True)
    for each in shown:
        name = each.figure.name
        (tables / f"{name}.csv").write_text(each.csv, encoding="utf-8")
        for plot in each.figure.plots:
            if plot.name not in each.pictures:
                continue
            file = f"{name}-{plot.name}"
            (pictures / f"{file}.svg").write_bytes(each.pictures[plot.name])
            (pictures / f"{file}.png").write_bytes(render(plot, each.results, "png"))
    target = folder / PAGE_NAME
    beside = target.with_suffix(".tmp")
    beside.write_text(page(shown, scale, facts), encoding="utf-8")
    beside.replace(target)
    return target
