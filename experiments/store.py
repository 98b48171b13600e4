"""Finished runs, one JSON file each, by what decides their numbers."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from experiments.code_version import figure_version
from experiments.model import Measured, Piece, Run

#: Of the form of the files; another form is another run
_FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class Store:
    """A folder of finished runs. `version_of` has the hash of a figure's code."""

    folder: Path
    version_of: Callable[[str], str] = field(default=figure_version)

    def path(self, run: Run) -> Path:
        """Where a run is, or would be."""
        identity = f"{_FORMAT}\n{self.version_of(run.figure)}\n{run.identity()}"
        key = hashlib.sha256(identity.encode()).hexdigest()[:20]
        return self.folder / run.figure / f"{key}.json"

    def find(self, run: Run) -> Piece | None:
        """A finished run; None where there is none, or none that can be read."""
        try:
            document = json.loads(self.path(run).read_text(encoding="utf-8"))
            return _piece(run, document)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep(self, piece: Piece) -> None:
        """Write a finished run, whole or not at all. Raises OSError."""
        path = self.path(piece.run)
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        text = json.dumps(_document(piece, self.version_of(piece.run.figure))) + "\n"
        try:
            beside.write_text(text, encoding="utf-8")
            beside.replace(path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise


def _document(piece: Piece, code: str) -> dict[str, Any]:
    return {
        "figure": piece.run.figure,
        "parameters": dict(piece.run.parameters),
        "seed": piece.run.seed,
        "code": code,
        "cpu_s": piece.cpu_s,
        "metrics": dict(piece.measured.metrics),
        "series": {name: list(values) for name, values in piece.measured.series.items()},
    }


def _piece(run: Run, document: dict[str, Any]) -> Piece:
    if document["parameters"] != dict(run.parameters) or document["seed"] != run.seed:
        raise ValueError("another run")
    return Piece(run, Measured(document["metrics"], document["series"]), document["cpu_s"])
