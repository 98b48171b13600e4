"""Congestion controllers by name.

A controller of one's own is one file: a class derived from `CongestionController`, its name told to
`register`. A profile names it, either by that name once the file was imported, or as
"package.module:Class", and then nothing need be imported or registered.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

from host.congestion.base import CongestionController
from host.congestion.network import Network

#: What Python says of a knob that no parameter takes
_UNKNOWN_ARGUMENT = re.compile(r"unexpected keyword argument ('\w+')")

_Class = TypeVar("_Class", bound=type[CongestionController])

_REGISTERED: dict[str, type[CongestionController]] = {}


def register(name: str) -> Callable[[_Class], _Class]:
    """A class decorator that gives a controller its name. Raises ValueError for one in use."""

    def decorate(controller: _Class) -> _Class:
        taken = _REGISTERED.get(name)
        if taken is not None and taken.__qualname__ != controller.__qualname__:
            raise ValueError(f"{name!r} is already the name of {taken.__qualname__}")
        _REGISTERED[name] = controller
        return controller

    return decorate


def algorithms() -> tuple[str, ...]:
    """The names of all registered controllers (mrc_ctl.h: the device's cc.algorithms)."""
    return tuple(sorted(_REGISTERED))


def controller_class(algorithm: str) -> type[CongestionController]:
    """The class of a name, or of "package.module:Class". Raises ValueError for others."""
    module_name, colon, class_name = algorithm.partition(":")
    if not colon:
        found = _REGISTERED.get(algorithm)
        if found is None:
            raise ValueError(
                f"algorithm {algorithm!r} is not known; there are: {', '.join(algorithms())}, "
                'and any class as "package.module:Class"'
            )
        return found
    try:
        named = getattr(import_module(module_name), class_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"algorithm {algorithm!r}: {error}") from None
    if not (isinstance(named, type) and issubclass(named, CongestionController)):
        raise ValueError(f"algorithm {algorithm!r}: not a class derived from CongestionController")
    return named


def make_controller(algorithm: str, network: Network, **knobs: Any) -> CongestionController:
    """A controller for one destination. Raises ValueError for a wrong name, knob or value."""
    controller = controller_class(algorithm)
    try:
        return controller.make(network, **knobs)
    except (TypeError, ValueError, ArithmeticError) as error:
        unknown = _UNKNOWN_ARGUMENT.search(str(error))
        problem = f"it has no knob {unknown[1]}" if unknown else str(error)
        raise ValueError(f"algorithm {algorithm!r}: {problem}") from None
