"""Each figure's claims, at tiny scale: a claim that breaks is a test that fails.

At other scales: that there is a scenario for every run.
"""

from __future__ import annotations

import pytest

from experiments import simulate
from experiments.catalogue import FIGURES, figure
from experiments.drawing import render
from experiments.model import Piece, Results, Scale
from topologies.scenario import Scenario


@pytest.mark.parametrize("name", FIGURES)
def test_claims_hold(name: str) -> None:
    one = figure(name)
    pieces = [Piece(run, one.measure(run.parameters, run.seed)) for run in one.runs(Scale.TINY)]
    results = Results(pieces)
    broken = [f"{check.claim}: {check.ours}" for check in one.checks(results) if check.failed]
    assert not broken
    for column in one.columns:
        assert all(piece[column.metric] is not None for piece in pieces)
    for plot in one.plots:
        assert render(plot, results, "svg").startswith(b"<?xml")


class _BuiltError(Exception):
    pass


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("scale", [Scale.QUICK, Scale.PAPER])
def test_every_run_has_a_scenario(name: str, scale: Scale, monkeypatch: pytest.MonkeyPatch) -> None:
    def simulation(scenario: Scenario) -> None:
        raise _BuiltError

    monkeypatch.setattr(simulate, "Simulation", simulation)
    one = figure(name)
    for run in one.runs(scale, seeds=1):
        with pytest.raises(_BuiltError):
            one.measure(run.parameters, run.seed)
