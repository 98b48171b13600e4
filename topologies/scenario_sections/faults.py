"""`faults`: what goes wrong, links and switches by name; each time of it is a fault of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from topologies import scenario as model
from topologies import scenario_schema as schema
from topologies.documents import Location
from topologies.fault_scope import collisions
from topologies.scenario_sections.resolver import ItemNames, Resolver
from topologies.units import delay_text


def faults_in(file: schema.ScenarioFile, resolver: Resolver) -> tuple[model.Fault, ...]:
    """The faults of a file, item by item."""
    located = list(_located_faults(file, resolver))
    #: By identity: names may be taken twice, which is complained about elsewhere
    places = {id(fault): location for location, fault in located}
    faults = tuple(fault for _, fault in located)
    told: set[tuple[Location, Location]] = set()
    for first, second, switch in collisions(faults):
        pair = places[id(first)], places[id(second)]
        if pair in told:  # of other switches, or at other times
            continue
        told.add(pair)
        resolver.complain(
            pair[1],
            f"{second.name} and {first.name} hold {switch} at one time, and the end of one "
            "would revive it for both; let the later begin after the earlier is over",
        )
    return faults


def _located_faults(
    file: schema.ScenarioFile, resolver: Resolver
) -> Iterator[tuple[Location, model.Fault]]:
    names = ItemNames(resolver)
    for number, item in enumerate(file.faults):
        kind, section = item.chosen()
        location: Location = ("faults", number, kind)
        name = names.item(section.name, kind, location)
        _check_begins(section, location, file, resolver)
        problems = len(resolver.problems)
        fault = _Maker(file.endpoint, resolver, location, name).fault(section)
        if fault is None or len(resolver.problems) > problems:
            continue
        for again in _times(fault, section):
            names.part(again.name, location)
            yield location, again


def _check_begins(
    section: schema.FaultSection, location: Location, file: schema.ScenarioFile, resolver: Resolver
) -> None:
    """Complain about a fault that the duration leaves no time for."""
    if file.duration is None:
        return
    last = section.at + (section.times - 1) * (section.every or 0)
    if section.at >= file.duration:
        at, what = "at", delay_text(section.at)
    elif last >= file.duration and file.expect.faults_begin:
        at, what = "times", f"the last of {section.times} begins at {delay_text(last)}, which"
    else:
        return
    resolver.complain(
        (*location, at), f"{what} is after the end: duration is {delay_text(file.duration)}"
    )


def _times(fault: model.Fault, section: schema.FaultSection) -> Iterator[model.Fault]:
    """A fault as often as its section says; what it concerns is the same every time."""
    if section.times == 1:
        yield fault
        return
    assert section.every is not None
    for time in range(section.times):
        at_ns = section.at + time * section.every
        yield replace(fault, name=f"{fault.name}-{time + 1}", at_ns=at_ns)


class _Maker:
    """Makes the fault of one section, the first time it happens."""

    def __init__(
        self, endpoint: schema.EndpointSection, resolver: Resolver, location: Location, name: str
    ) -> None:
        self._endpoint = endpoint
        self._resolver = resolver
        self._location = location
        self._name = name

    def fault(self, section: schema.FaultSection) -> model.Fault | None:
        """The fault; of no use where the resolver has something new to complain about."""
        when: dict[str, Any] = {
            "name": self._name,
            "at_ns": section.at,
            "for_ns": section.lasts,
        }
        match section:
            case schema.LinkDownSection():
                return model.LinkDown(links=self._links(section), **when)
            case schema.PortDownSection():
                return self._port_down(section, when)
            case schema.SlowLinkSection():
                return model.SlowLink(links=self._links(section), rate_bps=section.rate, **when)
            case schema.SwitchDeadSection():
                return model.SwitchDead(switches=self._switches(section), **when)
            case schema.SwitchRebootSection():
                return model.SwitchReboot(switches=self._switches(section), **when)
            case schema.DenySection():
                paths = self._paths(section, section.uplinks, self._location, "uplinks")
                return model.Deny(paths=paths, **when)
            case schema.ImpairmentSection():
                return self._impairment(section, when)
        raise AssertionError(section)

    def _impairment(
        self, section: schema.ImpairmentSection, when: dict[str, Any]
    ) -> model.Impairment:
        where: dict[str, Any] = {
            **when,
            "up": section.direction in ("both", "up"),
            "down": section.direction in ("both", "down"),
        }
        if section.path is None:
            where["links"] = self._links(section)
        else:
            where["path"] = self._path(section.path)
        match section:
            case schema.LossSection():
                return model.Loss(probability=section.probability, **where)
            case schema.CorruptionSection():
                return model.Corruption(probability=section.probability, **where)
            case schema.DuplicationSection():
                return model.Duplication(probability=section.probability, **where)
            case schema.DelaySection():
                return model.Delay(extra_ns=section.extra, jitter_ns=section.jitter, **where)
        raise AssertionError(section)

    def _port_down(
        self, section: schema.PortDownSection, when: dict[str, Any]
    ) -> model.LinkDown | None:
        host = self._resolver.host(section.host, (*self._location, "host"))
        if not self._resolver.plane_fits(section.plane, self._location) or host is None:
            return None
        return model.LinkDown(links=(self._resolver.port_link(host, section.plane),), **when)

    def _links(self, section: schema.LinkFaultSection) -> tuple[str, ...]:
        return self._resolver.links(section, self._location)

    def _switches(self, section: schema.SwitchSection) -> tuple[str, ...]:
        return self._resolver.switches(section.switch, (*self._location, "switch"))

    def _path(self, section: schema.PathSection) -> model.PathRef | None:
        paths = self._paths(section, [section.uplink], (*self._location, "path"), "uplink")
        return paths[0] if paths else None

    def _paths(
        self,
        section: schema.PathSection | schema.DenySection,
        uplinks: Sequence[int],
        location: Location,
        field: str,
    ) -> tuple[model.PathRef, ...]:
        """The paths of a section at a location, whose `field` has the uplinks."""
        resolver, endpoint = self._resolver, self._endpoint
        if endpoint.is_roce or endpoint.effective_forwarding != "srv6":
            what = "transport roce"
            if not endpoint.is_roce:
                what = f"forwarding {endpoint.effective_forwarding}"
            resolver.complain(location, f"paths are MRC's to choose; with {what}, name links")
            return ()
        source = resolver.host(section.source, (*location, "from"))
        destination = resolver.host(section.to, (*location, "to"))
        fits = resolver.plane_fits(section.plane, location)
        if source is None or destination is None or not fits:
            return ()
        there = 1 if source.id.t0 == destination.id.t0 else resolver.fabric.t1_per_plane
        for uplink in uplinks:
            if not 0 <= uplink < there:
                resolver.complain(
                    (*location, field),
                    f"{uplink} does not fit: from {source.name} to {destination.name} "
                    f"there are uplinks 0..{there - 1}",
                )
        return tuple(
            model.PathRef(source.name, destination.name, section.plane, uplink)
            for uplink in uplinks
        )
