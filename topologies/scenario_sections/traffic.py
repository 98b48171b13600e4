"""`traffic`: what hosts send to each other, as flows and collectives."""

from __future__ import annotations

import random
from collections.abc import Iterator

from topologies import scenario as model
from topologies import scenario_schema as schema
from topologies.documents import Location
from topologies.scenario_sections.resolver import ItemNames, Resolver


def traffic_in(
    file: schema.ScenarioFile, resolver: Resolver, seed: int
) -> tuple[tuple[model.Flow, ...], tuple[model.Collective, ...]]:
    """The flows and collectives of a file; `seed` is that of permutations."""
    flows: list[model.Flow] = []
    collectives: list[model.Collective] = []
    names = ItemNames(resolver)
    for number, item in enumerate(file.traffic):
        kind, section = item.chosen()
        location: Location = ("traffic", number, kind)
        if isinstance(section, schema.CollectiveSection):
            name = names.item(section.name, section.op, location)
            collectives.extend(_collective(section, name, resolver, location))
            continue
        group = names.item(section.name, kind, location)
        stripe = file.endpoint.is_roce if section.stripe is None else section.stripe
        single = kind == "transfer" and section.name is not None
        for source, destination in _pairs(section, resolver, location, seed):
            name = group if single else f"{group}-{source}-{destination}"
            flows.append(
                model.Flow(
                    name=names.part(name, location),
                    group=group,
                    source=source,
                    destination=destination,
                    size_bytes=section.size,
                    start_ns=section.start,
                    repeat=1 if section.repeat is None else section.repeat,
                    until_ns=section.until,
                    depth=section.depth,
                    qps=section.qps,
                    immediate=section.op == "write_imm",
                    stripe=stripe,
                )
            )
    return tuple(flows), tuple(collectives)


# --- who sends to whom -------------------------------------------------------------------------


def _pairs(
    section: schema.FlowSection, resolver: Resolver, location: Location, seed: int
) -> Iterator[tuple[str, str]]:
    """(sender, receiver) of each flow of an item."""
    match section:
        case schema.TransferSection():
            return _transfer(section, resolver, location)
        case schema.IncastSection():
            return _incast(section, resolver, location)
        case schema.PermutationSection():
            return _permutation(section, resolver, location, seed)
    raise AssertionError(section)


def _transfer(
    section: schema.TransferSection, resolver: Resolver, location: Location
) -> Iterator[tuple[str, str]]:
    source = resolver.host(section.source, (*location, "from"))
    destination = resolver.host(section.to, (*location, "to"))
    if source is not None and source == destination:
        resolver.complain((*location, "to"), f"{section.to} cannot write to itself")
    elif source is not None and destination is not None:
        yield source.name, destination.name


def _incast(
    section: schema.IncastSection, resolver: Resolver, location: Location
) -> Iterator[tuple[str, str]]:
    target = resolver.host(section.to, (*location, "to"))
    if target is None:
        return
    if section.sources is not None:
        for index, source in resolver.hosts(section.sources, (*location, "from")):
            if source == target:
                resolver.complain((*location, "from", index), f"{source.name} is the target")
                continue
            yield source.name, target.name
        return
    # One downlink after the other, over all other T0s
    others = sorted(
        (host for host in resolver.fabric.hosts() if host.id.t0 != target.id.t0),
        key=lambda host: (host.id.downlink, host.id.t0),
    )
    assert section.fan_in is not None
    if section.fan_in > len(others):
        resolver.complain(
            (*location, "fan_in"),
            f"{section.fan_in} is too large: other T0s have {len(others)} hosts",
        )
        return
    for host in others[: section.fan_in]:
        yield host.name, target.name


def _permutation(
    section: schema.PermutationSection, resolver: Resolver, location: Location, seed: int
) -> Iterator[tuple[str, str]]:
    if section.hosts is None:
        names = [host.name for host in resolver.fabric.hosts()]
    else:
        found = resolver.hosts(section.hosts, (*location, "hosts"))
        names = [host.name for _, host in found]
    if len(names) < 2:
        return
    if section.shift is not None:
        shift = section.shift % len(names)
        if shift == 0:
            resolver.complain(
                (*location, "shift"), f"{section.shift} makes hosts write to themselves"
            )
            return
        targets = names[shift:] + names[:shift]
    else:
        # Sattolo: one cycle through all, so that nobody writes to itself
        rng = random.Random(f"{seed}/permutation {location[1]}")
        targets = list(names)
        for last in range(len(targets) - 1, 0, -1):
            other = rng.randrange(last)
            targets[last], targets[other] = targets[other], targets[last]
    yield from zip(names, targets, strict=True)


# --- collectives -------------------------------------------------------------------------------


def _collective(
    section: schema.CollectiveSection, name: str, resolver: Resolver, location: Location
) -> Iterator[model.Collective]:
    hosts = _ranks(section, resolver, location)
    if hosts is None:
        return
    if section.root >= len(hosts):
        resolver.complain(
            (*location, "root"),
            f"{section.root} does not fit: there are ranks 0..{len(hosts) - 1}",
        )
        return
    yield model.Collective(
        name=name,
        collective=section.op,
        hosts=hosts,
        size_bytes=section.size,
        start_ns=section.start,
        repeat=section.repeat,
        data_type=section.dtype,
        reduce_op=section.reduce,
        root=section.root,
        in_place=section.in_place,
        chunk_bytes=section.chunk,
        depth=section.depth,
        qps=section.qps,
    )


def _ranks(
    section: schema.CollectiveSection, resolver: Resolver, location: Location
) -> tuple[str, ...] | None:
    """The hosts of a collective by rank; None: something is wrong with them."""
    if section.hosts is not None:
        found = resolver.hosts(section.hosts, (*location, "hosts"))
        hosts = tuple(host.name for _, host in found)
        return hosts if len(hosts) == len(section.hosts) else None
    ordered = list(resolver.fabric.hosts())
    if section.order == "spread":
        ordered.sort(key=lambda host: (host.id.downlink, host.id.t0))
    ranks = len(ordered) if section.ranks is None else section.ranks
    if ranks > len(ordered):
        resolver.complain(
            (*location, "ranks"),
            f"{ranks} is too large: {resolver.fabric.name} has {len(ordered)} hosts",
        )
        return None
    return tuple(host.name for host in ordered[:ranks])
