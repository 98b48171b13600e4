"""The endpoint settings of a scenario, as the NIC's policies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from host.config import ForwardingMode, NicConfig, QpDefaults
from host.congestion import algorithms, make_controller
from host.congestion.network import Network
from host.congestion.nscc import ALGORITHM as NSCC
from host.congestion.nscc import NsccConfig
from host.paths import EvFieldRule, EvMode, EvProfile
from host.profiles import CcProfile, MrcProfiles
from sim.timing import base_rtt_ns
from topologies.documents import did_you_mean
from topologies.scenario import Scenario

#: What a scenario calls having no congestion control
NO_CONTROLLER = "none"


class EndpointError(ValueError):
    """Endpoint settings that cannot be; the message names section, field and value."""


def make_profiles(scenario: Scenario) -> MrcProfiles:
    """EV profile and congestion control of all NICs. Raises EndpointError."""
    fabric = scenario.fabric

    def base_rtt(config: NicConfig, peer_address: int) -> int:
        peer = fabric.host_at(fabric.addresses.host_of_address(peer_address))
        return base_rtt_ns(fabric, fabric.host_at(config.id), peer)

    return MrcProfiles(
        ev_profile=_ev_profile(scenario.endpoint.evs),
        cc_profile=_cc_profile(scenario.endpoint.congestion),
        base_rtt_ns=base_rtt,
    )


def nic_changes(scenario: Scenario) -> dict[str, Any]:
    """Fields of `NicConfig` that the scenario sets. Raises EndpointError."""
    endpoint = scenario.endpoint
    try:
        qp = QpDefaults(**endpoint.qp)
    except ValueError as error:
        raise EndpointError(f"endpoint: {error}") from None
    return {"qp": qp, "forwarding": ForwardingMode(endpoint.forwarding)}


def _cc_profile(given: Mapping[str, Any]) -> CcProfile:
    knobs = dict(given)
    algorithm = knobs.pop("controller", NSCC)
    where = "endpoint.congestion"
    if algorithm == NO_CONTROLLER:
        if knobs:
            raise EndpointError(f"{where}.{next(iter(knobs))}: there is no controller to have it")
        return CcProfile(None)
    if algorithm == NSCC:
        _check_names(where, knobs, ["controller", *(each.name for each in fields(NsccConfig))])
    elif ":" not in str(algorithm) and algorithm not in algorithms():
        known = [*algorithms(), NO_CONTROLLER]
        near = did_you_mean(str(algorithm), known)
        hint = f"did you mean {near}?" if near else f"there are {', '.join(known)}"
        raise EndpointError(f"{where}.controller: {algorithm!r} is not known; {hint}")
    try:
        make_controller(algorithm, Network(), **knobs)
    except ValueError as error:
        raise EndpointError(f"{where}: {error}") from None
    return CcProfile(algorithm, knobs)


def _ev_profile(given: Mapping[str, Any]) -> EvProfile:
    where = "endpoint.evs"
    values = dict(given)
    names = [each.name for each in fields(EvProfile) if each.name != "ev_event_mask"]
    _check_names(where, values, names)
    try:
        if "mode" in values:
            values["mode"] = _ev_mode(values["mode"])
        for name in ("evs", "denied", "fields"):
            if name in values and not isinstance(values[name], list):
                raise ValueError(f"{name}: {values[name]!r} is not a list")
        if "evs" in values:
            evs = values["evs"]
            values["evs"] = tuple(tuple(ev) if isinstance(ev, list) else ev for ev in evs)
        if "denied" in values:
            values["denied"] = frozenset(map(_hashable, values["denied"]))
        if "fields" in values:
            values["fields"] = tuple(map(_field_rule, values["fields"]))
        return EvProfile(**values)
    except EndpointError:
        raise
    except (TypeError, ValueError) as error:
        raise EndpointError(f"{where}: {error}") from None


def _hashable(value: object) -> Any:
    """The value, or what shows it in a complaint."""
    return value if isinstance(value, (int, float, str)) else repr(value)


def _field_rule(given: object) -> EvFieldRule:
    if not isinstance(given, Mapping):
        raise ValueError(f"fields: {given!r} is not a section, as {{width: 3, max_val: 7}}")
    _check_names("endpoint.evs.fields", given, [each.name for each in fields(EvFieldRule)])
    if "width" not in given:
        raise ValueError("fields: width: is missing")
    return EvFieldRule(**given)


def _ev_mode(text: object) -> EvMode:
    names = [mode.value for mode in EvMode]
    if text not in names:
        near = did_you_mean(str(text), names)
        hint = f"did you mean {near}?" if near else f"it must be one of {', '.join(names)}"
        raise ValueError(f"mode: {text!r}: {hint}")
    return EvMode(text)


def _check_names(where: str, given: Mapping[str, Any], known: list[str]) -> None:
    for name in given:
        if name not in known:
            near = did_you_mean(name, known)
            hint = f"did you mean {near}?" if near else f"the fields here are {', '.join(known)}"
            raise EndpointError(f"{where}.{name}: unknown field; {hint}")
