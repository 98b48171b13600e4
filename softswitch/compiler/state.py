"""The run-time objects that generated code is bound to."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from softswitch.externs import CounterArray, MeterArray, RegisterArray
from softswitch.tables import ActionProfile, Table, ValueSet


@dataclass(slots=True)
class RuntimeState:
    """State of one loaded program, by the names of the JSON."""

    drop_port: int
    rng: random.Random
    fail_assert: Callable[[str], None]
    tables: dict[str, Table] = field(default_factory=dict)
    action_profiles: dict[str, ActionProfile] = field(default_factory=dict)
    counters: dict[str, CounterArray] = field(default_factory=dict)
    meters: dict[str, MeterArray] = field(default_factory=dict)
    registers: dict[str, RegisterArray] = field(default_factory=dict)
    value_sets: dict[str, ValueSet] = field(default_factory=dict)
