"""Seeds depend on the run's seed and the component's name, and on nothing else."""

from __future__ import annotations

from topologies.seeds import random_of, seed_of


def test_seeds_are_fixed_numbers() -> None:
    # Recorded: runs of one version must repeat on any machine
    assert seed_of(0, "host h0") == 0xED90C12E61B5880C


def test_components_and_runs_differ() -> None:
    seeds = {seed_of(run, name) for run in range(10) for name in ("host h0", "host h1", "wire x")}
    assert len(seeds) == 30


def test_equal_names_draw_equally() -> None:
    first, second = random_of(3, "x"), random_of(3, "x")
    assert [first.random() for _ in range(5)] == [second.random() for _ in range(5)]
