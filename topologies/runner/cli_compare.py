"""`mrc-topology compare`: two runs side by side."""

from __future__ import annotations

from pathlib import Path

import click

from reports.compare import print_comparison, read_record
from reports.record import RecordError, RunRecord
from topologies.runner.cli_common import make_console
from topologies.runner.errors import UsageError
from topologies.runner.run_store import default_base


@click.command()
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
def compare(first: str, second: str) -> None:
    """Compare two runs, for example one scenario in real and in virtual time.

    A and B are a report.json, the folder of a run or its id, or a file from mrc-sim run --record.
    """
    print_comparison(make_console(), _record(first), _record(second))


def _record(name: str) -> RunRecord:
    path = Path(name)
    of_run = default_base() / name
    if not path.exists() and "/" not in name and of_run.is_dir():
        path = of_run
    try:
        return read_record(path)
    except RecordError as error:
        raise UsageError(str(error)) from None
