"""Endpoint settings of RoCE, as a scenario has them, made into a `RoceConfig`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from host.congestion.dcqcn import DcqcnConfig
from host.endpoint_settings import NO_CONTROLLER, SettingsError
from host.roce.config import RoceConfig
from topologies.documents import did_you_mean

DCQCN = "dcqcn"
_CONTROLLERS = (DCQCN, NO_CONTROLLER)


def roce_config(given: Mapping[str, Any], congestion: Mapping[str, Any]) -> RoceConfig:
    """Of fields of `RoceConfig` and of a section `congestion`. Raises SettingsError.

    `congestion` has `controller` (dcqcn, the default, or none) and fields of `DcqcnConfig`.
    """
    try:
        return RoceConfig(dcqcn=_dcqcn(congestion), **given)
    except (TypeError, ValueError) as error:
        if isinstance(error, SettingsError):
            raise
        raise SettingsError(f"endpoint: {error}") from None


def _dcqcn(congestion: Mapping[str, Any]) -> DcqcnConfig | None:
    where = "endpoint.congestion"
    knobs = dict(congestion)
    controller = knobs.pop("controller", DCQCN)
    if controller not in _CONTROLLERS:
        hint = _hint(str(controller), _CONTROLLERS)
        raise SettingsError(f"{where}.controller: {controller!r} is none of RoCE's; {hint}")
    if controller == NO_CONTROLLER:
        if knobs:
            raise SettingsError(f"{where}.{next(iter(knobs))}: there is no controller to have it")
        return None
    known = tuple(each.name for each in fields(DcqcnConfig))
    for name in knobs:
        if name not in known:
            raise SettingsError(f"{where}.{name}: unknown field; {_hint(name, known)}")
    try:
        return DcqcnConfig(**knobs)
    except ValueError as error:
        raise SettingsError(f"{where}: {error}") from None


def _hint(text: str, names: tuple[str, ...]) -> str:
    near = did_you_mean(text, list(names))
    return f"did you mean {near}?" if near else f"there are {', '.join(names)}"
