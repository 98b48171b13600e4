"""The figures there are, by name."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Final

from experiments.model import Figure
from topologies.documents import did_you_mean

_PACKAGE: Final = "experiments.figures"

#: Name → module, in the order of the page
FIGURES: Final[dict[str, str]] = {
    "table-5.2.1": "table_5_2_1",
    "fig-4": "fig_04",
    "fig-5": "fig_05",
    "fig-8": "fig_08",
    "fig-9a": "fig_09a",
    "fig-9b": "fig_09b",
    "fig-9c": "fig_09c",
    "fig-9d": "fig_09d",
    "fig-10": "fig_10",
    "fig-11": "fig_11",
    "fig-12": "fig_12",
    "fig-14": "fig_14",
    "fig-15": "fig_15",
    "fig-16": "fig_16",
    "fig-17": "fig_17",
    "fig-18": "fig_18",
    "fig-19a": "fig_19a",
    "fig-19b": "fig_19b",
    "fig-19c": "fig_19c",
    "bins": "bins",
    "ablations": "ablations",
    "leaf-spine": "leaf_spine",
}

#: What else a figure is called
ALIASES: Final[dict[str, str]] = {"fig-13": "fig-12"}


class UnknownFigureError(ValueError):
    """A name that is no figure's; the message is one line and says what would be one."""


@cache
def figure(name: str) -> Figure:
    """A figure by its name. Raises UnknownFigureError."""
    if name not in FIGURES:
        raise UnknownFigureError(_unknown(name))
    found: Figure = import_module(module_name(name)).FIGURE
    return found


def module_name(name: str) -> str:
    """The module of a figure."""
    return f"{_PACKAGE}.{FIGURES[name]}"


def names_meant(given: tuple[str, ...]) -> list[str]:
    """Names of figures from a command line, in the order of the page: 9a is fig-9a, all is all.

    Raises UnknownFigureError.
    """
    names: set[str] = set()
    for name in given:
        if name == "all":
            names.update(FIGURES)
            continue
        for candidate in (name, f"fig-{name}"):
            meant = ALIASES.get(candidate, candidate)
            if meant in FIGURES:
                names.add(meant)
                break
        else:
            raise UnknownFigureError(_unknown(name))
    return [name for name in FIGURES if name in names]


def _unknown(name: str) -> str:
    words = [*FIGURES, *ALIASES, "all"]
    near = did_you_mean(name, words) or did_you_mean(f"fig-{name}", words)
    hint = f"did you mean {near}?" if near else f"there are {', '.join(FIGURES)}, or all"
    return f"{name}: no such experiment; {hint}"
