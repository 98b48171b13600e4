"""Where every frame went that a host's NIC put on a wire while the scenario ran.

The kernel counts what crosses each interface, switches count what they drop: two witnesses that
know nothing of each other. What went into a switch and did not come out must be what it says that
it dropped. Where that cannot be known (its process was killed, or is BMv2, which has no counters
around its program) the difference is counted as lost there, under a name that says so. What the
kernel could not send since a link had just gone down counts as lost at the link. A frame that a
veth interface refused while it went down was never in the switch behind it: its sender has it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from rawsocket.losses import INTERFACE_DROPPED
from softswitch.switch import PORT_DOWN
from topologies.runner.deployment import Deployment
from topologies.runner.scenario.interfaces import (
    Interfaces,
    dropped_at,
    kept_in,
    received_by,
    sent_by,
)
from topologies.runner.scenario.sampling import Sampler
from topologies.runner.scenario.tracks import Totals

_LINK_DOWN = "link down"
_SEND_DOWN = "send_enetdown"
_RANDOM = "random loss"
_IN_A_BOX = "in a box that cut a link"


@dataclass(slots=True)
class Books:
    """Frames: sent = received + lost + in flight + unaccounted. `notes`: which of these nobody
    confirms, a line each."""

    sent: int = 0
    received: int = 0
    lost: Counter[str] = field(default_factory=Counter)
    in_flight: int = 0
    unaccounted: int = 0
    corrupted: int = 0
    notes: list[str] = field(default_factory=list)


def balance(
    deployment: Deployment,
    sampler: Sampler,
    counters: Interfaces,
    *,
    killed: Collection[str],
    swallowing: Collection[str],
    cut_by_boxes: Collection[str],
    quiet: bool,
) -> Books:
    """The books of a run.

    Args:
        counters: of all interfaces, since before the first frame.
        killed: switches whose process was killed meanwhile, or ended.
        swallowing: switches that were told to swallow everything for a time.
        cut_by_boxes: links in which a box lost everything, in place of a fault of its switches.
        quiet: nothing moved any more when the counters were read.
    """
    hosts = [host.name for host in deployment.fabric.hosts()]
    books = Books(sent=sent_by(hosts, counters), received=received_by(hosts, counters))
    counts_all = deployment.target.name == "softswitch"
    left: Counter[str] = Counter()
    taken_for_lost: dict[str, int] = {}
    for name in deployment.places:
        counted = _own(sampler.drops, name)
        rest = kept_in(name, counters) - sum(counted.values())
        for reason, frames in counted.items():
            books.lost[_cause(reason, name, swallowing)] += frames
        unsent = min(max(rest, 0), dropped_at(name, counters))
        books.lost[_LINK_DOWN] += unsent
        rest -= unsent
        if name in killed and rest > 0:
            books.lost[f"with {name}, which was killed"] += rest
        elif not counts_all and rest > 0:
            taken_for_lost[name] = rest
        else:
            left[name] = rest
    if taken_for_lost:
        frames, target = sum(taken_for_lost.values()), deployment.target.name
        books.lost[f"in {target} before or after the program"] += frames
        books.notes.append(
            f"{frames} frames that {', '.join(taken_for_lost)} took and did not send are counted "
            f"as lost in {target} outside its program: it has no counters there that say so"
        )
    for link in deployment.boxes:
        counted = _own(sampler.boxes, link)
        books.corrupted += counted.get("corrupted", 0)
        lost = counted.get("lost", 0)
        own = sum(frames for name, frames in counted.items() if name.startswith("own "))
        books.lost[_IN_A_BOX if link in cut_by_boxes else _RANDOM] += lost
        books.lost[_LINK_DOWN] += own
        left[link] = kept_in(link, counters) - lost - own
    books.lost = +books.lost
    if quiet:
        # What is too much at one switch does not make up for what is missing at another
        books.unaccounted = (+left).total() or left.total()
    else:
        # Switches are asked what they dropped after the interfaces were read
        books.in_flight = max(left.total(), 0)
        books.unaccounted = min(left.total(), 0)
    if books.unaccounted:
        where = ", ".join(f"{name}: {frames:+}" for name, frames in left.items() if frames)
        books.notes.append(f"frames that went in, less those that came out or were lost: {where}")
    return books


def _own(totals: Mapping[str, Totals], name: str) -> dict[str, int]:
    """What a switch or box lost of the frames that it took."""
    if name not in totals:
        return {}
    refused = INTERFACE_DROPPED, f"own {INTERFACE_DROPPED}"
    counted = totals[name].counted.items()
    return {reason: frames for reason, frames in counted if reason not in refused}


def _cause(reason: str, switch: str, swallowing: Collection[str]) -> str:
    if reason == PORT_DOWN and switch in swallowing:
        return f"swallowed by {switch}"
    return _LINK_DOWN if reason in (PORT_DOWN, _SEND_DOWN) else reason.replace("_", " ")
