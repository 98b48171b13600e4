"""One run, wherever it is made: in a process of this machine or on a worker of a cluster."""

from __future__ import annotations

import time

from experiments.catalogue import figure
from experiments.code_version import figure_version
from experiments.model import Piece, Run


class OtherCodeError(RuntimeError):
    """A worker's code is not the code of those who ask."""


def make_piece(run: Run, code: str) -> Piece:
    """Make a run. Raises OtherCodeError where the figure's code here is not that of `code`."""
    here = figure_version(run.figure)
    if here != code:
        raise OtherCodeError(
            f"{run.figure}: this worker's code is {here}, not {code}: give it the same checkout"
        )
    cpu = time.process_time()
    measured = figure(run.figure).measure(run.parameters, run.seed)
    return Piece(run, measured, round(time.process_time() - cpu, 3))
