"""Paths: entropy values, their states and the choice among them."""

from host.paths.base import EvEvent, EvSelector, ReverseEvs
from host.paths.ev_set import EvSet
from host.paths.probing import ProbeTiming
from host.paths.profile import EvFieldRule, EvMode, EvProfile
from host.paths.reverse import ReverseEvSet
from host.paths.states import EvState
from host.paths.universe import EvUniverse

__all__ = [
    "EvEvent",
    "EvFieldRule",
    "EvMode",
    "EvProfile",
    "EvSelector",
    "EvSet",
    "EvState",
    "EvUniverse",
    "ProbeTiming",
    "ReverseEvSet",
    "ReverseEvs",
]
