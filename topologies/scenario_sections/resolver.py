"""Hosts, switches and links that a scenario names, found in its fabric."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import count

from topologies import scenario_schema as schema
from topologies.documents import Location, did_you_mean
from topologies.model import Fabric, Host, Link, Tier, TopologyError
from topologies.scenario_sections.document import ScenarioDocument


class Resolver:
    """Finds what a scenario names.

    What is not there, or does not fit, is no error at once: `problems` has one line for each,
    with its place.
    """

    def __init__(self, document: ScenarioDocument, fabric: Fabric) -> None:
        self._document = document
        self.fabric = fabric
        self.problems: list[str] = []

    def complain(self, location: Location, message: str) -> None:
        """Note what is wrong in a place."""
        self.problems.append(self._document.at(location, message))

    def host(self, name: str, location: Location) -> Host | None:
        """The host of this name."""
        try:
            return self.fabric.host(name)
        except TopologyError as error:
            self.complain(location, str(error))
            return None

    def hosts(self, names: Sequence[str], location: Location) -> Iterator[tuple[int, Host]]:
        """The hosts of a list, each with its number in it; none may stand there twice."""
        for index, name in enumerate(names):
            host = self.host(name, (*location, index))
            if host is None:
                continue
            if name in names[:index]:
                self.complain((*location, index), f"{name} stands there twice")
                continue
            yield index, host

    def switches(self, pattern: str, location: Location) -> tuple[str, ...]:
        """The names of switches that a pattern matches."""
        names = [switch.name for switch in self.fabric.switches()]
        return self.matching(pattern, names, "switch", location)

    def links(self, section: schema.LinkFaultSection, location: Location) -> tuple[str, ...]:
        """The names of links that a section's link, host, switch or tier says."""
        if section.tier is not None:
            tier = Tier(section.tier)
            return tuple(link.name for link in self._links if link.tier is tier)
        if section.link is not None:
            first, second = section.link
            found = [
                link.name
                for link in self._links
                if (fnmatchcase(link.lower.node, first) and fnmatchcase(link.upper.node, second))
                or (fnmatchcase(link.lower.node, second) and fnmatchcase(link.upper.node, first))
            ]
            what, field = f"{first} and {second}", "link"
        else:
            pattern = section.host if section.host is not None else section.switch
            assert pattern is not None
            found = [
                link.name
                for link in self._links
                if fnmatchcase(link.lower.node, pattern) or fnmatchcase(link.upper.node, pattern)
            ]
            what, field = pattern, "host" if section.host is not None else "switch"
        if not found:
            self.complain((*location, field), f"no link of {self.fabric.name} joins {what}")
        return tuple(found)

    def port_link(self, host: Host, plane: int) -> str:
        """The name of the link of a host's port."""
        return next(
            link.name
            for link in self._links
            if link.lower.node == host.name and link.plane == plane
        )

    def plane_fits(self, plane: int, location: Location) -> bool:
        """Whether the fabric has a plane that a section at a location names."""
        if plane < self.fabric.planes:
            return True
        self.complain(
            (*location, "plane"),
            f"{plane} does not fit: {self.fabric.name} has planes 0..{self.fabric.planes - 1}",
        )
        return False

    def matching(
        self, pattern: str, names: Sequence[str], what: str, location: Location
    ) -> tuple[str, ...]:
        """Those of the names that a pattern matches; one must."""
        found = tuple(name for name in names if fnmatchcase(name, pattern))
        if not found:
            near = did_you_mean(pattern, names)
            hint = f"; did you mean {near}?" if near else ""
            self.complain(location, f"{pattern!r} matches no {what}{hint}")
        return found

    @cached_property
    def _links(self) -> tuple[Link, ...]:
        return tuple(self.fabric.links())


class ItemNames:
    """Names of a list's items, given or made of what they are and a number, and of their parts."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._items: set[str] = set()
        self._parts: set[str] = set()
        self._made: dict[str, Iterator[str]] = {}
        self._told: set[Location] = set()

    def item(self, given: str | None, kind: str, location: Location) -> str:
        """The name of one more item, `given` by the section at a location or made of its kind."""
        name = given
        if name is None:
            made = self._made.setdefault(kind, _numbered(kind))
            name = next(each for each in made if each not in self._items)
        return self._taken(name, self._items, location)

    def part(self, name: str, location: Location) -> str:
        """The name of a flow, or of one time of a fault, of the item at a location."""
        return self._taken(name, self._parts, location)

    def _taken(self, name: str, names: set[str], location: Location) -> str:
        if name in names and location not in self._told:
            self._told.add(location)
            self._resolver.complain((*location, "name"), f"{name!r} is a name already taken")
        names.add(name)
        return name


def _numbered(kind: str) -> Iterator[str]:
    """loss, loss2, loss3, …"""
    yield kind
    yield from (f"{kind}{number}" for number in count(2))
