"""What of a scenario's faults can be done on these switches, decided before anything is started.

A fault becomes acts: requests to the live fabric, impairment boxes set, requests to agents. What
cannot be done is refused in one line that names fault and target. What is done in another way than
in virtual time is noted.

BMv2 does not survive an interface of its own that goes down. A link between two of its switches is
cut by a box in the link that loses every frame: neighbours get no signal, as with a cable that is
bad and not with one that is pulled. Nor can it be told to swallow everything: boxes in all of the
switch's links do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from topologies import scenario as model
from topologies.addressing import encode_ev
from topologies.fault_scope import collisions, path_of
from topologies.model import Fabric, Link
from topologies.runner.errors import UsageError
from topologies.runner.live import UNLIMITED
from topologies.runner.targets import Target
from topologies.units import rate_text


@dataclass(frozen=True, slots=True)
class CutLink:
    """A link goes down at both ends (BMv2: at the host's)."""

    link: str
    nodes: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Impair:
    """The box in a link loses and damages frames; `way` is up, down or both."""

    link: str
    way: str
    loss: float = 0.0
    corruption: float = 0.0


@dataclass(frozen=True, slots=True)
class SetRate:
    """A link has another rate; values as `mrc-topology link … rate` takes them."""

    nodes: tuple[str, str]
    value: str
    value_after: str


@dataclass(frozen=True, slots=True)
class Swallow:
    """A switch swallows every frame."""

    switch: str


@dataclass(frozen=True, slots=True)
class Reboot:
    """A switch's process is killed; in the end another one is started."""

    switch: str


@dataclass(frozen=True, slots=True)
class DenyEvs:
    """An operator's denial, at the agent of `host`."""

    host: str
    peer: str
    evs: tuple[int, ...]


Act: TypeAlias = CutLink | Impair | SetRate | Swallow | Reboot | DenyEvs


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """A fault of the scenario, and how it is done."""

    fault: model.Fault
    acts: tuple[Act, ...]


@dataclass(slots=True)
class RunPlan:
    """All faults, the links that need a box, and what differs from virtual time, a line each."""

    faults: list[FaultPlan] = field(default_factory=list)
    impaired_links: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)


def make_plan(scenario: model.Scenario, target: Target) -> RunPlan:
    """How to do a scenario's faults on a target. Raises UsageError for one that cannot be done."""
    _refuse_baselines(scenario)
    plan = RunPlan()
    if scenario.convergence_ns is not None:
        plan.notes.append("routing.convergence: is for virtual time; here routes are static")
    for first, second, switch in collisions(scenario.faults, touching=True):
        why = (
            f"{first.name} ends on {switch} as this begins, and nobody can say which is done first"
        )
        raise _refused(second, target, why)
    links = {link.name: link for link in scenario.fabric.links()}
    for fault in scenario.faults:
        acts = tuple(_acts(fault, scenario.fabric, links, target, plan))
        plan.faults.append(FaultPlan(fault, acts))
        plan.impaired_links |= {act.link for act in acts if isinstance(act, Impair)}
    plan.notes = list(dict.fromkeys(plan.notes))
    return plan


def _refuse_baselines(scenario: model.Scenario) -> None:
    """Raises UsageError for what the hosts' agents are not."""
    where = None
    if scenario.endpoint.transport != "mrc":
        where = f"endpoint.transport: {scenario.endpoint.transport}"
    elif any(flow.stripe and flow.qps > 1 for flow in scenario.flows):
        where = "traffic: stripe"
    if where is not None:
        raise UsageError(
            f"{where}: not in real time; --target sim runs the scenario in virtual time"
        )


def _refused(fault: model.Fault, target: Target, why: str) -> UsageError:
    return UsageError(
        f"fault {fault.name}: not in real time on {target.name}: {why}; "
        "--target sim runs the scenario in virtual time"
    )


def _acts(
    fault: model.Fault,
    fabric: Fabric,
    links: dict[str, Link],
    target: Target,
    plan: RunPlan,
) -> Iterator[Act]:
    match fault:
        case model.LinkDown():
            for name in fault.links:
                yield _cut(fault, links[name], target, plan)
        case model.Loss() | model.Corruption():
            way = "both" if fault.up and fault.down else "up" if fault.up else "down"
            loss = fault.probability if isinstance(fault, model.Loss) else 0.0
            corruption = fault.probability if isinstance(fault, model.Corruption) else 0.0
            names = fault.links
            if fault.path is not None:
                names, way = (_narrowest(fault, fault.path, fabric, plan),), "up"
            for name in names:
                yield Impair(name, way, loss, corruption)
        case model.SlowLink():
            yield from _slow(fault, links, target, plan)
        case model.SwitchDead():
            for switch in fault.switches:
                if target.can_be_black_hole:
                    yield Swallow(switch)
                    continue
                plan.notes.append(
                    f"{fault.name}: {switch} goes on working; boxes in its links lose every frame"
                )
                for link in links.values():
                    if switch in (link.lower.node, link.upper.node):
                        yield Impair(link.name, "both", loss=1.0)
        case model.SwitchReboot():
            for switch in fault.switches:
                yield Reboot(switch)
        case model.Deny():
            for path in fault.paths:
                ev = encode_ev(path.plane, path.uplink)
                yield DenyEvs(path.source, path.destination, (ev,))
        case model.Duplication():
            raise _refused(fault, target, "nothing here delivers a frame twice")
        case model.Delay():
            raise _refused(fault, target, "nothing here holds frames back")
        case _:
            raise _refused(fault, target, f"{type(fault).__name__} is for virtual time")


def _cut(fault: model.Fault, link: Link, target: Target, plan: RunPlan) -> Act:
    between_switches = not link.lower.is_host
    if target.needs_links_up and between_switches:
        plan.notes.append(
            f"{fault.name}: {target.name} does not survive an interface that goes down; a box in "
            f"{link.name} loses every frame instead, and its switches see no signal"
        )
        return Impair(link.name, "both", loss=1.0)
    return CutLink(link.name, (link.lower.node, link.upper.node))


def _narrowest(fault: model.Fault, ref: model.PathRef, fabric: Fabric, plan: RunPlan) -> str:
    """The link of a path that the fewest others share: that to its T1, else the source's."""
    links = fabric.links_of_path(path_of(fabric, ref))
    link = links[1] if len(links) > 2 else links[0]
    plan.notes.append(
        f"{fault.name}: a box in {link.name} treats all frames away from the hosts like those "
        f"from {ref.source} to {ref.destination}"
    )
    return link.name


def _slow(
    fault: model.SlowLink, links: dict[str, Link], target: Target, plan: RunPlan
) -> Iterator[Act]:
    if not target.can_set_rates():
        raise _refused(fault, target, "the rates of this BMv2 cannot be set (it has no Thrift)")
    for name in fault.links:
        link = links[name]
        if link.lower.is_host:
            plan.notes.append(
                f"{fault.name}: only the switch's end of {name} is slowed, {link.lower.node} "
                "sends as fast as before"
            )
        before = UNLIMITED if link.rate_bps is None else rate_text(link.rate_bps)
        nodes = (link.lower.node, link.upper.node)
        yield SetRate(nodes, f"{fault.rate_bps}bps", before)
