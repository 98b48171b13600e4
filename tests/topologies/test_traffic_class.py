"""DSCP values of the traffic classes."""

from __future__ import annotations

import pytest

from topologies.traffic_class import TrafficClasses


def test_defaults_and_groups() -> None:
    classes = TrafficClasses()
    assert dict(classes.items()) == {
        "control": 46,
        "trimmed": 12,
        "trimmed_lasthop": 16,
        "trimmable": 4,
        "trimmable_retx": 8,
        "no_trim": 0,
    }
    assert classes.control_class == (46, 12, 16)
    assert classes.trimmable_class == (4, 8)


def test_values_must_fit_and_differ() -> None:
    with pytest.raises(ValueError, match=r"control: 64 is not a DSCP \(0\.\.63\)"):
        TrafficClasses(control=64)
    with pytest.raises(ValueError, match="no_trim: DSCP 46 is already that of control"):
        TrafficClasses(no_trim=46)
