"""Endpoint settings, as a scenario or a file has them, made into the NIC's policies.

The names are those of the endpoint's own configuration: `QpDefaults`, `EvProfile`, and of
congestion control `controller` and the knobs of that controller (of NSCC: `NsccConfig`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from host.config import ForwardingMode, QpDefaults
from host.congestion import algorithms, make_controller
from host.congestion.network import Network
from host.congestion.nscc import ALGORITHM as NSCC
from host.congestion.nscc import NsccConfig
from host.paths import EvFieldRule, EvMode, EvProfile
from host.profiles import CcProfile
from topologies.documents import did_you_mean

#: The transport that these settings are of
MRC = "mrc"
#: The name of having no congestion control
NO_CONTROLLER = "none"


class SettingsError(ValueError):
    """Endpoint settings that cannot be; the message names section, field and value."""


@dataclass(frozen=True, slots=True)
class EndpointSettings:
    """Settings of an MRC endpoint, checked. `qp` are changes of `QpDefaults`, by name."""

    forwarding: ForwardingMode = ForwardingMode.SRV6
    qp: Mapping[str, Any] = field(default_factory=dict)
    cc_profile: CcProfile = field(default_factory=CcProfile)
    ev_profile: EvProfile = field(default_factory=EvProfile)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Of a file {"forwarding": …, "qp": {…}, "congestion": {…}, "evs": {…}}; none is needed.

        The names are those of `topologies.scenario.Endpoint`, with `transport` mrc. Raises
        SettingsError.
        """
        try:
            document = json.loads(text)
        except ValueError as error:
            raise SettingsError(f"endpoint: not JSON: {error}") from None
        if not isinstance(document, dict):
            raise SettingsError(f"endpoint: {document!r} is not a JSON object")
        sections = ["qp", "congestion", "evs", "roce"]
        _check_names("endpoint", document, ["transport", "forwarding", *sections])
        for name in sections:
            section = document.get(name, {})
            if not isinstance(section, dict):
                raise SettingsError(f"endpoint.{name}: {section!r} is not a JSON object")
        transport = document.get("transport", MRC)
        if transport != MRC or document.get("roce"):
            given = "roce" if transport == MRC else f"transport: {transport!r}"
            raise SettingsError(f"endpoint.{given}: does not fit: here it is {MRC}")
        changes = document.get("qp", {})
        qp_defaults(changes)
        return cls(
            forwarding=forwarding_mode(document.get("forwarding", ForwardingMode.SRV6.value)),
            qp=changes,
            cc_profile=cc_profile(document.get("congestion", {})),
            ev_profile=ev_profile(document.get("evs", {})),
        )


def forwarding_mode(name: object) -> ForwardingMode:
    """By its name. Raises SettingsError."""
    names = [mode.value for mode in ForwardingMode]
    if name not in names:
        raise SettingsError(f"endpoint.forwarding: {name!r}: {_hint(str(name), names)}")
    return ForwardingMode(name)


def qp_defaults(changes: Mapping[str, Any], base: QpDefaults | None = None) -> QpDefaults:
    """`base` (None: `QpDefaults()`) with some of its fields changed. Raises SettingsError."""
    _check_names("endpoint.qp", changes, [each.name for each in fields(QpDefaults)])
    for name, value in changes.items():
        wanted = type(getattr(QpDefaults(), name))
        if type(value) is not wanted:
            kind = "true or false" if wanted is bool else "an integer"
            raise SettingsError(f"endpoint: {name}: {value!r} does not fit: it must be {kind}")
    try:
        return replace(QpDefaults() if base is None else base, **changes)
    except ValueError as error:
        raise SettingsError(f"endpoint: {error}") from None


def cc_profile(given: Mapping[str, Any]) -> CcProfile:
    """Congestion control: `controller` (None: NSCC) and its knobs. Raises SettingsError."""
    knobs = dict(given)
    algorithm = knobs.pop("controller", NSCC)
    where = "endpoint.congestion"
    if algorithm == NO_CONTROLLER:
        if knobs:
            raise SettingsError(f"{where}.{next(iter(knobs))}: there is no controller to have it")
        return CcProfile(None)
    if algorithm == NSCC:
        _check_names(where, knobs, ["controller", *(each.name for each in fields(NsccConfig))])
    elif ":" not in str(algorithm) and algorithm not in algorithms():
        known = [*algorithms(), NO_CONTROLLER]
        near = did_you_mean(str(algorithm), known)
        hint = f"did you mean {near}?" if near else f"there are {', '.join(known)}"
        raise SettingsError(f"{where}.controller: {algorithm!r} is not known; {hint}")
    try:
        make_controller(algorithm, Network(), **knobs)
    except ValueError as error:
        raise SettingsError(f"{where}: {error}") from None
    return CcProfile(algorithm, knobs)


def ev_profile(given: Mapping[str, Any]) -> EvProfile:
    """An EV profile by the names of its fields. Raises SettingsError."""
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
    except SettingsError:
        raise
    except (TypeError, ValueError) as error:
        raise SettingsError(f"{where}: {error}") from None


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
        raise ValueError(f"mode: {text!r}: {_hint(str(text), names)}")
    return EvMode(text)


def _hint(text: str, names: list[str]) -> str:
    near = did_you_mean(text, names)
    return f"did you mean {near}?" if near else f"it must be one of {', '.join(names)}"


def _check_names(where: str, given: Mapping[str, Any], known: list[str]) -> None:
    """Raises SettingsError for a field that nobody knows."""
    for name in given:
        if name not in known:
            near = did_you_mean(name, known)
            hint = f"did you mean {near}?" if near else f"the fields here are {', '.join(known)}"
            raise SettingsError(f"{where}.{name}: unknown field; {hint}")
