"""How parameters and what is measured are called and written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from experiments.model import Value
from reports.text import bytes_text

#: What words on the page mean
WORDS: Final[Mapping[str, str]] = {
    "T0, T1": "switches of a rack, and those that join racks. T0-local: between hosts of a rack; "
    "cross-T1: between racks",
    "plane": "a fabric of its own; a NIC has a port on each, and a plane a T0 for each rack",
    "EV": "entropy value: names one path through the fabric (plane and T1). A path out of use is "
    "probed until it answers",
    "QP": "queue pair: one reliable connection",
    "share of line rate": "of what headers leave of the rate of the NIC, unless it says otherwise",
    "phase": "a part of a run between two faults",
    "lowest 10 µs": "the lowest rate in any bin of that length (in runs of more than 8 ms: of 8 to "
    "32 µs), beside the rate before the faults",
    "trimmed": "a queue was full: the switch sent on the headers alone, and the data is sent again",
    "timeout": "an ACK timeout: a packet was sent again because nothing was heard of it",
    "bus bandwidth": "of a collective, as nccl-tests have it: comparable between numbers of ranks",
    "P50, P99, P100": "of all flows, messages or steps of a run: half, 99 %, all were no slower",
    "seed": "of what is drawn at random in a run: EVs, losses, which links flap",
    "Jain's index": "1: all flows have the same rate; 1/n: one of n has everything",
}

#: Parameter → its heading, and how a value is written
_PARAMETERS: Final[Mapping[str, tuple[str, Callable[[Any], str]]]] = {
    "bytes": ("size", bytes_text),
    "loss": ("loss", lambda share: f"{100 * share:g} %"),
    "qps": ("QPs a NIC", str),
    "flaps": ("links flap", lambda flaps: "yes" if flaps else "no"),
    "rate_gbps": ("links, Gb/s", str),
    "fan_in": ("senders to one", lambda count: str(count) if count else "-"),
    "transport": ("transport", lambda name: {"mrc": "MRC", "roce": "RoCE"}.get(name, name)),
}


def heading_of(parameter: str) -> str:
    """What a parameter is called at the head of a table."""
    return _PARAMETERS[parameter][0] if parameter in _PARAMETERS else parameter.replace("_", " ")


def value_text(parameter: str, value: Value) -> str:
    """A parameter's value with its unit."""
    if value is None:
        return "-"
    return _PARAMETERS[parameter][1](value) if parameter in _PARAMETERS else str(value)


def percent(value: float) -> str:
    """A share as people read it."""
    return f"{100 * value:.1f} %"
