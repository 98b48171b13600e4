"""Reports are tried on runs in virtual time."""

from tests.sim.conftest import _run_scenario, _simulate

__all__ = ["_run_scenario", "_simulate"]
