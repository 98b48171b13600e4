"""Endpoint settings from a file: what they make, and that each mistake is named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from host.config import ForwardingMode, QpDefaults
from host.endpoint_settings import EndpointSettings, SettingsError, qp_defaults
from host.profiles import CcProfile


def test_nothing_given_changes_nothing() -> None:
    assert EndpointSettings.from_json("{}") == EndpointSettings()
    empty = {"transport": "mrc", "forwarding": "srv6", "qp": {}, "congestion": {}, "evs": {}}
    assert EndpointSettings.from_json(json.dumps({**empty, "roce": {}})) == EndpointSettings()


def test_sections_become_policies() -> None:
    document = {
        "forwarding": "ecmp",
        "qp": {"timeout": 17, "trim_nack": False},
        "congestion": {"controller": "none"},
        "evs": {"active_evs": 4, "denied": [1, 9]},
    }
    settings = EndpointSettings.from_json(json.dumps(document))
    assert settings.forwarding is ForwardingMode.ECMP
    assert settings.cc_profile == CcProfile(None)
    assert settings.ev_profile.active_evs == 4
    assert settings.ev_profile.denied == frozenset({1, 9})
    base = QpDefaults(timeout=3, sack_packets=16)
    changed = qp_defaults(settings.qp, base)
    assert (changed.timeout, changed.trim_nack, changed.sack_packets) == (17, False, 16)


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ("{", "endpoint: not JSON"),
        ("[]", "endpoint: [] is not a JSON object"),
        ({"cc": {}}, "endpoint.cc: unknown field"),
        ({"transport": "roce"}, "endpoint.transport: 'roce': does not fit: here it is mrc"),
        ({"roce": {"x": 1}}, "endpoint.roce: does not fit: here it is mrc"),
        ({"qp": 3}, "endpoint.qp: 3 is not a JSON object"),
        ({"forwarding": "srv7"}, "endpoint.forwarding: 'srv7': did you mean srv6?"),
        ({"forwarding": ["srv6"]}, "endpoint.forwarding"),
        ({"qp": {"timeuot": 3}}, "endpoint.qp.timeuot: unknown field; did you mean timeout?"),
        ({"qp": {"timeout": 25}}, "timeout: 25 does not fit: it must be 0..24"),
        ({"qp": {"timeout": "5"}}, "timeout: '5' does not fit: it must be an integer"),
        ({"qp": {"timeout": True}}, "timeout: True does not fit: it must be an integer"),
        ({"qp": {"trim_nack": 1}}, "trim_nack: 1 does not fit: it must be true or false"),
        ({"congestion": {"controller": "x"}}, "endpoint.congestion.controller: 'x' is not known"),
        ({"evs": {"mode": "atuo"}}, "endpoint.evs: mode: 'atuo': did you mean auto?"),
    ],
)
def test_what_cannot_be_is_named(document: Any, reason: str) -> None:
    text = document if isinstance(document, str) else json.dumps(document)
    with pytest.raises(SettingsError) as refused:
        EndpointSettings.from_json(text)
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)
