"""Tidy tables of results: one row a run; parameters, seed, metrics."""

from __future__ import annotations

import csv
import io

from experiments.model import Results


def csv_text(results: Results) -> str:
    """The table of a figure's runs, with a heading; metrics that a run does not have are empty."""
    rows = [piece.row() for piece in results]
    names = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, names, restval="", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: "" if value is None else value for name, value in row.items()})
    return out.getvalue()
