"""What an experiment is made of: parameters, runs, measurements, checks, plots.

A figure is a module in `experiments/figures/` with one `FIGURE`. A run is a pure function of the
figure's name, parameters and a seed, so it can be made on any machine that has the same code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

#: What a parameter or a metric may be; None: not measured, or there was none
Value: TypeAlias = str | int | float | bool | None
Parameters: TypeAlias = Mapping[str, Value]


class Scale(StrEnum):
    """How large: what tests run, what a laptop runs in minutes, what memory and patience allow."""

    TINY = "tiny"
    QUICK = "quick"
    PAPER = "paper"


#: Seeds of a figure that says nothing else
DEFAULT_SEEDS: Final[Mapping[Scale, int]] = {Scale.TINY: 1, Scale.QUICK: 3, Scale.PAPER: 5}


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a figure."""

    figure: str
    parameters: Parameters
    seed: int

    def text(self) -> str:
        """As people read it: fig-16 size=1MiB loss=0.01, seed 2."""
        values = " ".join(f"{name}={value}" for name, value in self.parameters.items())
        return (
            f"{self.figure} {values}, seed {self.seed}"
            if values
            else (f"{self.figure}, seed {self.seed}")
        )

    def identity(self) -> str:
        """The same text for the same run, whatever the order of its parameters."""
        return json.dumps([self.figure, dict(self.parameters), self.seed], sort_keys=True)


@dataclass(frozen=True, slots=True)
class Measured:
    """What a run measured: one value each in `metrics`, curves in `series`."""

    metrics: Mapping[str, Value]
    series: Mapping[str, Sequence[float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Piece:
    """A finished run: what was kept of it. `cpu_s` is what it cost."""

    run: Run
    measured: Measured
    cpu_s: float = 0.0

    def __getitem__(self, name: str) -> Value:
        """A metric, or else a parameter. Raises KeyError for neither."""
        if name in self.measured.metrics:
            return self.measured.metrics[name]
        return self.run.parameters[name]

    def number(self, name: str) -> float:
        """A metric that is a number. Raises ValueError where it is none."""
        value = self[name]
        if not isinstance(value, (int, float)):
            raise ValueError(f"{self.run.text()}: {name} is {value!r}, not a number")
        return float(value)

    def curve(self, name: str) -> list[float]:
        """A series."""
        return list(self.measured.series[name])

    def row(self) -> dict[str, Value]:
        """One row of the tidy table: parameters, seed, metrics."""
        return {**self.run.parameters, "seed": self.run.seed, **self.measured.metrics}


@dataclass(frozen=True, slots=True)
class Spread:
    """The median over seeds, the lowest and the highest."""

    median: float
    low: float
    high: float
    count: int

    def text(self, form: Callable[[float], str]) -> str:
        """92.1 (91.8-92.4): the spread only where there is one."""
        middle, low, high = form(self.median), form(self.low), form(self.high)
        return middle if low == high else f"{middle} ({low}-{high})"


class Results:
    """Finished runs of one figure."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces = list(pieces)

    def __iter__(self) -> Iterator[Piece]:
        return iter(self.pieces)

    def __len__(self) -> int:
        return len(self.pieces)

    def of(self, **parameters: Value) -> Results:
        """Those with these parameters. Raises LookupError where there are none."""
        found = [
            piece
            for piece in self.pieces
            if all(piece.run.parameters.get(name) == value for name, value in parameters.items())
        ]
        if not found:
            raise LookupError(f"no finished run has {parameters}")
        return Results(found)

    def distinct(self, parameter: str) -> list[Any]:
        """The values of a parameter, in the order in which they came."""
        return list(dict.fromkeys(piece.run.parameters[parameter] for piece in self.pieces))

    def values(self, name: str) -> list[float]:
        """A metric of all runs."""
        return [piece.number(name) for piece in self.pieces]

    def spread(self, name: str) -> Spread:
        """A metric over all runs."""
        values = self.values(name)
        return Spread(median(values), min(values), max(values), len(values))

    def middle(self, name: str) -> float:
        """The median of a metric."""
        return median(self.values(name))

    def least(self, name: str) -> float:
        """The lowest of a metric."""
        return min(self.values(name))

    def most(self, name: str) -> float:
        """The highest of a metric."""
        return max(self.values(name))

    def first_seed(self) -> Piece:
        """The run that curves are drawn of."""
        return min(self.pieces, key=lambda piece: piece.run.seed)

    def groups(self) -> Iterator[tuple[Parameters, Results]]:
        """Runs that differ in their seed only."""
        found: dict[str, list[Piece]] = {}
        for piece in self.pieces:
            key = json.dumps(dict(piece.run.parameters), sort_keys=True)
            found.setdefault(key, []).append(piece)
        for pieces in found.values():
            yield pieces[0].run.parameters, Results(pieces)


@dataclass(frozen=True, slots=True)
class Reason:
    """Why ours does not do what the paper reports.

    Attributes:
        because: what we found; what is inference only says "we think".
        checked: what these same runs measured of it.
        holds: whether that measurement still bears the reason out.
    """

    because: str
    checked: str
    holds: bool

    def text(self) -> str:
        """The reason, and what was measured for it."""
        return f"{self.because} (checked: {self.checked})"


@dataclass(frozen=True, slots=True)
class Check:
    """A claim, the paper's number and ours.

    `differs`: why ours does not do what the paper reports. A claim that does not hold is a failure
    where there is no such reason, or where the reason's own measurement does not bear it out.
    """

    claim: str
    paper: str
    ours: str
    holds: bool
    differs: Reason | None = None

    @property
    def failed(self) -> bool:
        """Whether it does not hold, and no reason that is borne out says why."""
        return not self.holds and not (self.differs is not None and self.differs.holds)

    @property
    def explanation(self) -> str:
        """What is to be said of a claim that does not hold; empty where there is nothing."""
        if self.holds or self.differs is None:
            return ""
        if self.differs.holds:
            return f"differs because {self.differs.text()}"
        return f"no longer explained by this: {self.differs.text()}"


@dataclass(frozen=True, slots=True)
class Plot:
    """A picture: its name in file names, what it shows, and what draws it."""

    name: str
    caption: str
    draw: Callable[[Results, Canvas], None]
    width_inch: float = 7.5
    height_inch: float = 3.2


@dataclass(frozen=True, slots=True)
class Column:
    """A metric in the page's table: its heading with the unit, and how it is written."""

    metric: str
    heading: str
    form: Callable[[float], str] = "{:.4g}".format


@dataclass(frozen=True, slots=True)
class Figure:
    """An experiment.

    Attributes:
        name: on the command line and in file names.
        title: one line.
        paper: what the paper reports.
        setup: what is run here, and how it is scaled.
        parameters: of all runs at a scale; each is run with every seed.
        measure: the run itself, a pure function of parameters and seed.
        checks: what is claimed, of finished runs.
        plots: pictures of finished runs.
        columns: metrics that the page has a table of.
        notes: what else is worth saying about the outcome.
        seeds: how many by default.
    """

    name: str
    title: str
    paper: str
    setup: str
    parameters: Callable[[Scale], Sequence[Parameters]]
    measure: Callable[[Parameters, int], Measured]
    checks: Callable[[Results], Sequence[Check]]
    plots: Sequence[Plot]
    columns: Sequence[Column]
    notes: str = ""
    seeds: Mapping[Scale, int] = field(default_factory=lambda: DEFAULT_SEEDS)

    def runs(self, scale: Scale, seeds: int | None = None) -> list[Run]:
        """All runs at a scale. `seeds` in place of the figure's own number."""
        count = self.seeds[scale] if seeds is None else seeds
        return [
            Run(self.name, parameters, seed)
            for parameters in self.parameters(scale)
            for seed in range(count)
        ]
