"""The switches a fabric can be made of, behind one interface."""

from __future__ import annotations

from topologies.runner.errors import UsageError
from topologies.runner.targets.base import PortLimit, SwitchPlace, Target

TARGETS = ("softswitch", "bmv2")

__all__ = ["TARGETS", "PortLimit", "SwitchPlace", "Target", "find_target"]


def find_target(name: str) -> Target:
    """The target of a name.

    Raises UsageError for an unknown one, RunnerError where it is not installed.
    """
    # Imported when wanted: a target brings its switch's modules along
    if name == "softswitch":
        from topologies.runner.targets.softswitch import Softswitch

        return Softswitch()
    if name == "bmv2":
        from topologies.runner.targets.bmv2 import Bmv2

        return Bmv2.find()
    raise UsageError(f"unknown target {name!r}; choose one of: {', '.join(TARGETS)}")
