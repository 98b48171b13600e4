"""Report files of a run: the record as JSON, and the page that shows it."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reports.page import page
from reports.record import RunRecord
from topologies.runner.errors import RunnerError

JSON_FILE: Final = "report.json"
HTML_FILE: Final = "report.html"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Where the user wants copies; None: nowhere."""

    json: Path | None = None
    html: Path | None = None

    def check(self) -> None:
        """Say before the run that a file could not be written. Raises RunnerError."""
        for path in (self.json, self.html):
            if path is None:
                continue
            folder = path.parent
            if path.is_dir():
                raise RunnerError(f"{path}: {os.strerror(errno.EISDIR)}")
            if not folder.is_dir():
                raise RunnerError(f"{path}: there is no folder {folder}")
            if not os.access(path if path.exists() else folder, os.W_OK):
                raise RunnerError(f"{path}: {os.strerror(errno.EACCES)}")


def write_report(record: RunRecord, folder: Path, wanted: Wanted) -> Sequence[Path]:
    """Write both into the run's folder, and copies; returns the files in the folder.

    Raises RunnerError for a file that cannot be written; a copy is written after both.
    """
    texts = {
        folder / JSON_FILE: json.dumps(record.to_json(), indent=2) + "\n",
        folder / HTML_FILE: page(record),
    }
    copies = zip((wanted.json, wanted.html), texts.values(), strict=True)
    for path, text in (*texts.items(), *copies):
        if path is None:
            continue
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise RunnerError(f"{path}: {error.strerror}") from None
    return list(texts)
