"""Scenario files → `Scenario`, with errors that name file, line, field and value."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import YAMLError

from topologies import scenario as model
from topologies import scenario_schema as schema
from topologies.documents import (
    DocumentError,
    Location,
    did_you_mean,
    dotted,
    line_of,
    message_of,
    parse_yaml,
    plain,
    read_text,
    section_at,
)
from topologies.fault_scope import collisions
from topologies.loader import (
    WHAT_A_TOPOLOGY_IS,
    TopologyFileError,
    fabric_of,
    find_topology,
    ready_topologies,
)
from topologies.model import Fabric, Host, Link, LoadBalancing, Tier, TopologyError
from topologies.scenario import Scenario
from topologies.schema import TopologyFile
from topologies.timing import sample_interval_ns
from topologies.units import delay_text

SCENARIO_DIRECTORY = Path(__file__).parent / "scenarios"
WHAT_A_SCENARIO_IS = "a scenario is a list of fields, as 'topology: two-plane'"
#: Fields of the endpoint section that the endpoint itself calls otherwise
_ENDPOINT_NAMES = {
    "mpr": "mpr_psns",
    "sack_delay": "sack_delay_ns",
    "window": "window_psns",
    "cnp_interval": "cnp_interval_ns",
}
_STEP = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*)((?:\[\d+\])*)")

T = TypeVar("T", bound=model.Fault)


class ScenarioFileError(DocumentError):
    """A scenario that cannot be used. `problems` has one line for each thing wrong."""


def ready_scenarios() -> dict[str, Path]:
    """The scenario files that come with the repository, by name."""
    return {path.stem: path for path in sorted(SCENARIO_DIRECTORY.glob("*.yaml"))}


def find_scenario(name_or_path: str) -> Path:
    """The file meant: a path, or the name of a ready scenario.

    Raises ScenarioFileError where there is neither.
    """
    path = Path(name_or_path)
    if path.is_file():
        return path
    ready = ready_scenarios()
    if name_or_path in ready:
        return ready[name_or_path]
    near = did_you_mean(name_or_path, list(ready))
    hint = f"did you mean {near}?" if near else f"ready scenarios are {', '.join(ready)}"
    wrong = "is a directory" if path.is_dir() else "no such file or ready scenario"
    raise ScenarioFileError([f"{name_or_path or repr('')}: {wrong}; {hint}"])


def load_scenario(
    path: str | Path,
    *,
    changes: Sequence[str] = (),
    seed: int | None = None,
    topology: Path | None = None,
) -> Scenario:
    """The scenario that a file describes.

    Args:
        path: of the file.
        changes: `key=value` each: a field by its place (`traffic[0].transfer.size`) and what it
            is to be, as YAML.
        seed: in place of the file's.
        topology: a topology file in place of the one that the scenario names. Where the scenario
            changes fields of the one it names, it changes those of this one.

    Raises ScenarioFileError with everything that is wrong with it.
    """
    path = Path(path)
    try:
        text = read_text(path)
    except DocumentError as error:
        raise ScenarioFileError(error.problems) from None
    return parse_scenario(
        text,
        str(path),
        default_name=path.stem,
        directory=path.parent,
        changes=changes,
        seed=seed,
        topology=topology,
    )


def parse_scenario(
    text: str,
    source: str,
    *,
    default_name: str = "scenario",
    directory: Path | None = None,
    changes: Sequence[str] = (),
    seed: int | None = None,
    topology: Path | None = None,
) -> Scenario:
    """The scenario that a file's text describes; `source` names it in errors.

    `directory` is where paths of topologies start; the rest is as in `load_scenario`.
    Raises ScenarioFileError with everything that is wrong with it.
    """
    try:
        document = parse_yaml(text, source, what=WHAT_A_SCENARIO_IS)
        file = _File(source, document, directory or Path())
        if topology is not None:
            file.replace_topology(topology)
        for change in changes:
            file.change(change)
        checked = file.validate()
        return _Resolver(file, checked, default_name, seed).scenario()
    except ScenarioFileError:
        raise
    except DocumentError as error:
        raise ScenarioFileError(error.problems) from None


# --- the document ------------------------------------------------------------------------------


class _File:
    """A scenario's document: what it says, and where it says it."""

    def __init__(self, source: str, document: CommentedMap, directory: Path) -> None:
        self.source = source
        self.document = document
        self.directory = directory
        #: Place → the change (as it was written) that put something there
        self.changed: dict[Location, str] = {}

    def at(self, location: Location, message: str) -> str:
        """One line about a place."""
        rest = dotted(location[self._change_at(location) :])
        parts = (self.place(location), rest, message)
        return ": ".join(part for part in parts if part)

    def place(self, location: Location) -> str:
        """File and line of a place, or the change that put it there."""
        length = self._change_at(location)
        if length:
            return f"--set {self.changed[location[:length]]}"
        return f"{self.source}:{line_of(self.document, location)}"

    def _change_at(self, location: Location) -> int:
        """How many steps into a location a change was made, the innermost one; 0: none was."""
        lengths = range(len(location), 0, -1)
        return next((length for length in lengths if location[:length] in self.changed), 0)

    def validate(self) -> schema.ScenarioFile:
        """The document as its schema has it."""
        try:
            return schema.ScenarioFile.model_validate(plain(self.document))
        except RecursionError:
            raise ScenarioFileError([f"{self.source}: a section that contains itself"]) from None
        except ValidationError as error:
            problems = []
            for details in error.errors():
                # Which member of a union was tried is of no interest
                location = _without_unions(details["loc"])
                known = {**details, "loc": location}
                message = message_of(schema.ScenarioFile, known)  # type: ignore[arg-type]
                if location[:1] == ("topology",) and details["type"] != "missing":
                    message = "is neither the name of a topology nor a section"
                problems.append((line_of(self.document, location), self.at(location, message)))
            lines = dict.fromkeys(problem for _, problem in sorted(problems))
            raise ScenarioFileError(list(lines)) from None

    def replace_topology(self, path: Path) -> None:
        """Name another topology; what the scenario changes in the one it names stays changed."""
        section = self.document.get("topology")
        if isinstance(section, CommentedMap) and "base" in section:
            section["base"] = str(path.resolve())
        else:
            self.document["topology"] = str(path.resolve())

    def change(self, change: str) -> None:
        """Put a value in a place: `key=value`."""
        key, equals, text = change.partition("=")
        if not equals:
            raise ScenarioFileError([f"--set {change}: write key=value"])
        location = self._location(key)
        try:
            value = YAML(typ="rt").load(text)
        except YAMLError as error:
            problem = " ".join(str(error).split())
            raise ScenarioFileError([f"--set {key}: {text!r} is not YAML: {problem}"]) from None
        node: Any = self.document
        for index, step in enumerate(location):
            if isinstance(step, int):
                if not isinstance(node, CommentedSeq) or step >= len(node):
                    items = len(node) if isinstance(node, CommentedSeq) else 0
                    where = dotted(location[:index])
                    raise ScenarioFileError(
                        [f"--set {key}: {where} has {items} items, numbered from 0"]
                    )
            elif not isinstance(node, CommentedMap):
                where = dotted(location[:index])
                raise ScenarioFileError([f"--set {key}: {where} has no fields"])
            if index == len(location) - 1:
                node[step] = value
                break
            below = node[step] if isinstance(step, int) else node.get(step)
            if location[: index + 1] == ("topology",) and isinstance(below, str):
                below = node[step] = CommentedMap(base=below)
            if below is None:
                below = node[step] = CommentedMap()
            node = below
        self.changed[location] = key

    def _location(self, key: str) -> Location:
        location: list[int | str] = []
        for part in key.split("."):
            match = _STEP.fullmatch(part)
            if match is None:
                raise ScenarioFileError(
                    [f"--set {key}: {part!r} is no field; write for example traffic[0].repeat=2"]
                )
            name = match[1]
            if location[:1] != ["topology"]:
                self._check_field(key, tuple(location), name)
            location.append(name)
            location.extend(int(index) for index in re.findall(r"\d+", match[2]))
        return tuple(location)

    @staticmethod
    def _check_field(key: str, above: Location, name: str) -> None:
        """Complain about a field that the schema does not have, before anything is made for it."""
        try:
            fields = section_at(schema.ScenarioFile, above).model_fields
        except (StopIteration, KeyError, RuntimeError):
            return  # something without a schema, or without fields; validation will tell
        names = [field.alias or field_name for field_name, field in fields.items()]
        if name in names:
            return
        near = did_you_mean(name, names)
        hint = f"did you mean {near}?" if near else f"the fields here are {', '.join(names)}"
        raise ScenarioFileError([f"--set {key}: unknown field {name}; {hint}"])


def _without_unions(location: Location) -> Location:
    if location[:1] == ("topology",):
        return location[:1]
    return location


# --- what it refers to -------------------------------------------------------------------------


class _Resolver:
    """Turns a checked file into a scenario; collects what is wrong with names."""

    def __init__(
        self,
        file: _File,
        checked: schema.ScenarioFile,
        default_name: str,
        seed: int | None,
    ) -> None:
        self.file = file
        self.checked = checked
        self.default_name = default_name
        self.seed = checked.seed if seed is None else seed
        self.problems: list[str] = []
        self.fabric = self._topology()
        if self._forwarding == "spray":
            self.fabric = replace(self.fabric, load_balancing=LoadBalancing.PACKET)
        self._links: list[Link] | None = None

    def scenario(self) -> Scenario:
        """Everything. Raises ScenarioFileError."""
        checked = self.checked
        flows, collectives = self._traffic()
        faults = self._faults()
        expect = self._expectations(
            [flow.name for flow in flows],
            [collective.name for collective in collectives],
            [fault.name for fault in faults],
        )
        endpoint = self._endpoint()
        if self.problems:
            raise ScenarioFileError(self.problems)
        return Scenario(
            name=checked.name or self.default_name,
            fabric=self.fabric,
            flows=flows,
            collectives=collectives,
            description=checked.description,
            seed=self.seed,
            faults=faults,
            endpoint=endpoint,
            duration_ns=checked.duration,
            stop_with_traffic=checked.stop == "traffic",
            interval_ns=checked.measure.interval or sample_interval_ns(self.fabric),
            convergence_ns=checked.routing.convergence,
            expect=expect,
        )

    def _complain(self, location: Location, message: str) -> None:
        self.problems.append(self.file.at(location, message))

    # --- topology ---

    def _topology(self) -> Fabric:
        given = self.checked.topology
        if isinstance(given, str):
            return self._load_topology(given, {})
        changes = dict(given)
        base = changes.pop("base", None)
        if base is not None and not isinstance(base, str):
            raise ScenarioFileError(
                [self.file.at(("topology", "base"), f"{base!r} is not a name or path")]
            )
        return self._load_topology(base, changes)

    def _load_topology(self, base: str | None, changes: dict[str, Any]) -> Fabric:
        if base is None:
            path, document, name = None, CommentedMap(), self.default_name
        else:
            path = self._topology_path(base)
            document = parse_yaml(read_text(path), str(path), what=WHAT_A_TOPOLOGY_IS)
            name = path.stem
        merged = _merge(plain(document), changes)
        try:
            checked = TopologyFile.model_validate(merged)
        except ValidationError as error:
            problems = []
            for details in error.errors():
                location = details["loc"]
                message = message_of(TopologyFile, details)
                if path is None or _has(changes, location):
                    problems.append(self.file.at(("topology", *location), message))
                else:
                    line = line_of(document, location)
                    problems.append(f"{path}:{line}: {dotted(location)}: {message}")
            raise ScenarioFileError(problems) from None
        try:
            return fabric_of(checked, "topology", document, name)
        except TopologyFileError as error:
            raise ScenarioFileError(
                [
                    self.file.at(("topology",), problem.split(": ", 1)[1])
                    for problem in error.problems
                ]
            ) from None

    def _topology_path(self, name: str) -> Path:
        beside = self.file.directory / name
        if beside.is_file():
            return beside
        try:
            return find_topology(name)
        except TopologyFileError:
            ready = list(ready_topologies())
            near = did_you_mean(name, ready)
            hint = f"did you mean {near}?" if near else f"ready topologies are {', '.join(ready)}"
            where: Location = ("topology",)
            if isinstance(self.checked.topology, dict):
                where = ("topology", "base")
            raise ScenarioFileError(
                [self.file.at(where, f"{name}: no such file or ready topology; {hint}")]
            ) from None

    # --- names ---

    def _host(self, name: str, location: Location) -> Host | None:
        try:
            return self.fabric.host(name)
        except TopologyError as error:
            self._complain(location, str(error))
            return None

    def _matching(self, pattern: str, names: Sequence[str], what: str, at: Location) -> list[str]:
        found = [name for name in names if fnmatchcase(name, pattern)]
        if not found:
            near = did_you_mean(pattern, names)
            hint = f"; did you mean {near}?" if near else ""
            self._complain(at, f"{pattern!r} matches no {what}{hint}")
        return found

    def _all_links(self) -> list[Link]:
        if self._links is None:
            self._links = list(self.fabric.links())
        return self._links

    def _links_where(self, section: schema.LinkFaultSection, location: Location) -> tuple[str, ...]:
        if section.link is not None:
            first, second = section.link
            found = [
                link.name
                for link in self._all_links()
                if (fnmatchcase(link.lower.node, first) and fnmatchcase(link.upper.node, second))
                or (fnmatchcase(link.lower.node, second) and fnmatchcase(link.upper.node, first))
            ]
            what, at = f"{first} and {second}", (*location, "link")
        elif section.tier is not None:
            tier = Tier(section.tier)
            return tuple(link.name for link in self._all_links() if link.tier is tier)
        else:
            pattern = section.host if section.host is not None else section.switch
            assert pattern is not None
            found = [
                link.name
                for link in self._all_links()
                if fnmatchcase(link.lower.node, pattern) or fnmatchcase(link.upper.node, pattern)
            ]
            what = pattern
            at = (*location, "host" if section.host is not None else "switch")
        if not found:
            self._complain(at, f"no link of {self.fabric.name} joins {what}")
        return tuple(found)

    # --- traffic ---

    def _traffic(self) -> tuple[tuple[model.Flow, ...], tuple[model.Collective, ...]]:
        flows: list[model.Flow] = []
        collectives: list[model.Collective] = []
        taken: set[str] = set()
        for number, item in enumerate(self.checked.traffic):
            kind, section = item.chosen()
            location: Location = ("traffic", number, kind)
            makers: dict[str, Callable[[Any, Location], Iterator[tuple[str, str]]]] = {
                "transfer": self._transfer,
                "incast": self._incast,
                "permutation": self._permutation,
            }
            plain = section.op if kind == "collective" else kind
            group = section.name or plain
            if section.name is None:
                names = (f"{plain}{'' if n == 0 else n + 1}" for n in count())
                group = next(name for name in names if name not in taken)
            if group in taken:
                self._complain((*location, "name"), f"{group!r} is a name already taken")
            taken.add(group)
            if kind == "collective":
                collectives.extend(self._collective(section, group, location))
                continue
            for source, destination in makers[kind](section, location):
                single = kind == "transfer" and section.name is not None
                name = group if single else f"{group}-{source}-{destination}"
                flows.append(self._flow(section, name, group, source, destination))
        return tuple(flows), tuple(collectives)

    def _collective(
        self, section: schema.CollectiveSection, name: str, location: Location
    ) -> Iterator[model.Collective]:
        if section.hosts is not None:
            found = [
                self._host(each, (*location, "hosts", index))
                for index, each in enumerate(section.hosts)
            ]
            hosts = [host.name for host in found if host is not None]
            if len(hosts) < len(section.hosts):
                return
            for index, each in enumerate(hosts):
                if each in hosts[:index]:
                    self._complain((*location, "hosts", index), f"{each} stands there twice")
                    return
        else:
            ordered = list(self.fabric.hosts())
            if section.order == "spread":
                ordered.sort(key=lambda host: (host.id.downlink, host.id.t0))
            ranks = len(ordered) if section.ranks is None else section.ranks
            if ranks > len(ordered):
                self._complain(
                    (*location, "ranks"),
                    f"{ranks} is too large: {self.fabric.name} has {len(ordered)} hosts",
                )
                return
            hosts = [host.name for host in ordered[:ranks]]
        if section.root >= len(hosts):
            self._complain(
                (*location, "root"),
                f"{section.root} does not fit: there are ranks 0..{len(hosts) - 1}",
            )
            return
        yield model.Collective(
            name=name,
            collective=section.op,
            hosts=tuple(hosts),
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

    def _flow(
        self, section: schema.FlowSection, name: str, group: str, source: str, destination: str
    ) -> model.Flow:
        return model.Flow(
            name=name,
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
            stripe=self._is_roce if section.stripe is None else section.stripe,
        )

    def _transfer(
        self, section: schema.TransferSection, location: Location
    ) -> Iterator[tuple[str, str]]:
        source = self._host(section.source, (*location, "from"))
        destination = self._host(section.to, (*location, "to"))
        if source is not None and source == destination:
            self._complain((*location, "to"), f"{section.to} cannot write to itself")
        elif source is not None and destination is not None:
            yield source.name, destination.name

    def _incast(
        self, section: schema.IncastSection, location: Location
    ) -> Iterator[tuple[str, str]]:
        target = self._host(section.to, (*location, "to"))
        if target is None:
            return
        if section.sources is not None:
            names = section.sources
            for index, name in enumerate(names):
                source = self._host(name, (*location, "from", index))
                if source is None:
                    continue
                if source == target or name in names[:index]:
                    problem = "is the target" if source == target else "stands there twice"
                    self._complain((*location, "from", index), f"{name} {problem}")
                    continue
                yield source.name, target.name
            return
        # One downlink after the other, over all other T0s
        others = sorted(
            (host for host in self.fabric.hosts() if host.id.t0 != target.id.t0),
            key=lambda host: (host.id.downlink, host.id.t0),
        )
        assert section.fan_in is not None
        if section.fan_in > len(others):
            self._complain(
                (*location, "fan_in"),
                f"{section.fan_in} is too large: other T0s have {len(others)} hosts",
            )
            return
        for host in others[: section.fan_in]:
            yield host.name, target.name

    def _permutation(
        self, section: schema.PermutationSection, location: Location
    ) -> Iterator[tuple[str, str]]:
        if section.hosts is None:
            names = [host.name for host in self.fabric.hosts()]
        else:
            found = [
                self._host(name, (*location, "hosts", index))
                for index, name in enumerate(section.hosts)
            ]
            names = [host.name for host in found if host is not None]
            for index, name in enumerate(section.hosts):
                if name in section.hosts[:index]:
                    self._complain((*location, "hosts", index), f"{name} stands there twice")
                    return
        if len(names) < 2:
            return
        if section.shift is not None:
            if section.shift % len(names) == 0:
                self._complain(
                    (*location, "shift"), f"{section.shift} makes hosts write to themselves"
                )
                return
            targets = names[section.shift % len(names) :] + names[: section.shift % len(names)]
        else:
            # Sattolo: one cycle through all, so that nobody writes to itself
            rng = random.Random(f"{self.seed}/permutation {location[1]}")
            targets = list(names)
            for last in range(len(targets) - 1, 0, -1):
                other = rng.randrange(last)
                targets[last], targets[other] = targets[other], targets[last]
        yield from zip(names, targets, strict=True)

    # --- faults ---

    def _faults(self) -> tuple[model.Fault, ...]:
        located = list(self._located_faults())
        #: By identity: names may be taken twice, which is complained about elsewhere
        places = {id(fault): location for location, fault in located}
        faults = tuple(fault for _, fault in located)
        told: set[tuple[Location, Location]] = set()
        for first, second, switch in collisions(faults):
            pair = places[id(first)], places[id(second)]
            if pair in told:  # of other switches, or at other times
                continue
            told.add(pair)
            self._complain(
                pair[1],
                f"{second.name} and {first.name} hold {switch} at one time, and the end of one "
                "would revive it for both; let the later begin after the earlier is over",
            )
        return faults

    def _located_faults(self) -> Iterator[tuple[Location, model.Fault]]:
        taken: set[str] = set()
        for number, item in enumerate(self.checked.faults):
            kind, section = item.chosen()
            location: Location = ("faults", number, kind)
            name = section.name
            if name is None:
                names = (f"{kind}{'' if n == 0 else n + 1}" for n in count())
                name = next(each for each in names if each not in taken)
            elif name in taken:
                self._complain((*location, "name"), f"{name!r} is a name already taken")
            taken.add(name)
            duration = self.checked.duration
            if duration is not None and section.at >= duration:
                self._complain(
                    (*location, "at"),
                    f"{delay_text(section.at)} is after the end: duration is "
                    f"{delay_text(duration)}",
                )
            for time in range(section.times):
                when = {
                    "name": name if section.times == 1 else f"{name}-{time + 1}",
                    "at_ns": section.at + time * (section.every or 0),
                    "for_ns": section.lasts,
                }
                fault = self._fault(kind, section, location, when)
                if fault is None:
                    break
                yield location, fault

    def _fault(
        self, kind: str, section: Any, location: Location, when: dict[str, Any]
    ) -> model.Fault | None:
        before = len(self.problems)
        fault = self._make_fault(kind, section, location, when)
        return fault if len(self.problems) == before else None

    def _make_fault(
        self, kind: str, section: Any, location: Location, when: dict[str, Any]
    ) -> model.Fault | None:
        match kind:
            case "link_down":
                return model.LinkDown(links=self._links_where(section, location), **when)
            case "port_down":
                return self._port_down(section, location, when)
            case "slow_link":
                links = self._links_where(section, location)
                return model.SlowLink(links=links, rate_bps=section.rate, **when)
            case "switch_dead":
                return model.SwitchDead(switches=self._switches(section, location), **when)
            case "switch_reboot":
                return model.SwitchReboot(switches=self._switches(section, location), **when)
            case "deny":
                return self._deny(section, location, when)
        where: dict[str, Any] = {
            "up": section.direction in ("both", "up"),
            "down": section.direction in ("both", "down"),
        }
        if section.path is not None:
            where["path"] = self._path(section.path, (*location, "path"))
        else:
            where["links"] = self._links_where(section, location)
        match kind:
            case "loss":
                return model.Loss(probability=section.probability, **where, **when)
            case "corruption":
                return model.Corruption(probability=section.probability, **where, **when)
            case "duplication":
                return model.Duplication(probability=section.probability, **where, **when)
            case "delay":
                return model.Delay(
                    extra_ns=section.extra, jitter_ns=section.jitter, **where, **when
                )
        raise AssertionError(kind)

    def _port_down(
        self, section: schema.PortDownSection, location: Location, when: dict[str, Any]
    ) -> model.LinkDown | None:
        host = self._host(section.host, (*location, "host"))
        if not self._plane_fits(section.plane, location) or host is None:
            return None
        name = next(
            link.name
            for link in self._all_links()
            if link.lower.node == host.name and link.plane == section.plane
        )
        return model.LinkDown(links=(name,), **when)

    def _plane_fits(self, plane: int, location: Location) -> bool:
        if plane < self.fabric.planes:
            return True
        self._complain(
            (*location, "plane"),
            f"{plane} does not fit: {self.fabric.name} has planes 0..{self.fabric.planes - 1}",
        )
        return False

    def _switches(self, section: schema.SwitchSection, location: Location) -> tuple[str, ...]:
        names = [switch.name for switch in self.fabric.switches()]
        return tuple(self._matching(section.switch, names, "switch", (*location, "switch")))

    def _path(self, section: schema.PathSection, location: Location) -> model.PathRef | None:
        uplinks = [section.uplink]
        paths = self._paths(section, uplinks, location, (*location, "uplink"))
        return paths[0] if paths else None

    def _deny(
        self, section: schema.DenySection, location: Location, when: dict[str, Any]
    ) -> model.Deny:
        paths = self._paths(section, section.uplinks, location, (*location, "uplinks"))
        return model.Deny(paths=tuple(paths), **when)

    def _paths(
        self,
        section: schema.PathSection | schema.DenySection,
        uplinks: Sequence[int],
        location: Location,
        at: Location,
    ) -> list[model.PathRef]:
        if self._is_roce or self._forwarding != "srv6":
            what = "transport roce" if self._is_roce else f"forwarding {self._forwarding}"
            self._complain(location, f"paths are MRC's to choose; with {what}, name links")
            return []
        source = self._host(section.source, (*location, "from"))
        destination = self._host(section.to, (*location, "to"))
        fits = self._plane_fits(section.plane, location)
        if source is None or destination is None or not fits:
            return []
        there = 1 if source.id.t0 == destination.id.t0 else self.fabric.t1_per_plane
        paths = []
        for uplink in uplinks:
            if not 0 <= uplink < there:
                self._complain(
                    at,
                    f"{uplink} does not fit: from {source.name} to {destination.name} "
                    f"there are uplinks 0..{there - 1}",
                )
                continue
            paths.append(model.PathRef(source.name, destination.name, section.plane, uplink))
        return paths

    # --- expectations and endpoints ---

    def _expectations(
        self, flows: Sequence[str], collectives: Sequence[str], faults: Sequence[str]
    ) -> model.Expectations:
        expect = self.checked.expect
        of_flows = []
        for index, section in enumerate(expect.flows):
            at: Location = ("expect", "flows", index, "flow")
            of_flows.append(
                model.FlowExpectation(
                    flows=tuple(self._matching(section.flow, flows, "flow", at)),
                    pattern=section.flow,
                    status=section.status,
                    goodput_min_bps=section.goodput_min,
                    goodput_share_min=section.goodput_share_min,
                    total_share_min=section.total_share_min,
                    completion_max_ns=section.completion_max,
                    jain_min=section.jain_min,
                )
            )
        of_collectives = []
        for index, each in enumerate(expect.collectives):
            at = ("expect", "collectives", index, "collective")
            of_collectives.append(
                model.CollectiveExpectation(
                    collectives=tuple(
                        self._matching(each.collective, collectives, "collective", at)
                    ),
                    pattern=each.collective,
                    status=each.status,
                    completion_max_ns=each.completion_max,
                    bus_bandwidth_min_bps=each.bus_bandwidth_min,
                    bus_share_min=each.bus_share_min,
                )
            )
        of_faults = []
        for index, fault in enumerate(expect.faults):
            at = ("expect", "faults", index, "fault")
            of_faults.append(
                model.FaultExpectation(
                    faults=tuple(self._matching(fault.fault, faults, "fault", at)),
                    pattern=fault.fault,
                    lost_max=fault.lost_max,
                    last_packet_max_ns=fault.last_packet_max,
                    last_packet_max_rtts=fault.last_packet_max_rtts,
                    full_rate_max_ns=fault.full_rate_max,
                    evs_out_min=fault.evs_out_min,
                )
            )
        return model.Expectations(
            complete=expect.complete,
            flows=tuple(of_flows),
            collectives=tuple(of_collectives),
            faults=tuple(of_faults),
            plane_share_within=expect.plane_share_within,
            lost_max=expect.lost_max,
            timeouts_max=expect.timeouts_max,
            retransmissions_max=expect.retransmissions_max,
            trimmed_min=expect.trimmed_min,
            trimmed_max=expect.trimmed_max,
        )

    @property
    def _is_roce(self) -> bool:
        return self.checked.endpoint.transport == "roce"

    @property
    def _forwarding(self) -> str:
        return self.checked.endpoint.forwarding or ("ecmp" if self._is_roce else "srv6")

    def _endpoint(self) -> model.Endpoint:
        section = self.checked.endpoint
        given = {
            "timeout": section.timeout,
            "linear_retries": section.linear_retries,
            "exponential_retries": section.exponential_retries,
            "mpr_psns": section.mpr,
            "max_wimm": section.max_wimm,
            "sack_packets": section.sack_packets,
            "sack_delay_ns": section.sack_delay,
            "trim_nack": section.trim_nack,
            "dynamic_mpr": section.dynamic_mpr,
        }
        roce = {
            "window_psns": section.window,
            "rnr_retries": section.rnr_retries,
            "rnr_timer": section.rnr_timer,
            "cnp_interval_ns": section.cnp_interval,
        }
        return model.Endpoint(
            transport=section.transport,
            # Switches spray; to endpoints it is as with ECMP
            forwarding="ecmp" if self._forwarding == "spray" else self._forwarding,
            qp={name: value for name, value in given.items() if value is not None},
            congestion=section.congestion or {},
            evs=section.evs or {},
            roce={name: value for name, value in roce.items() if value is not None},
            places=dict(self._endpoint_places()),
        )

    def _endpoint_places(self) -> Iterator[tuple[str, str]]:
        """Where each field of the endpoint section stands, by its dotted name within it."""
        section = plain(self.file.document).get("endpoint")
        if not isinstance(section, dict):
            return
        yield "", self.file.place(("endpoint",))
        for name, value in ((str(key), value) for key, value in section.items()):
            place = self.file.place(("endpoint", name))
            yield name, place
            yield _ENDPOINT_NAMES.get(name, name), place
            if isinstance(value, dict):
                for inner in value:
                    yield f"{name}.{inner}", self.file.place(("endpoint", name, inner))


def _merge(base: Any, changes: Any) -> Any:
    """`base` with the fields of `changes`, section by section; lists are replaced whole."""
    if not isinstance(base, dict) or not isinstance(changes, dict):
        return changes
    merged = dict(base)
    for key, value in changes.items():
        twin = f"{key}_bps", f"{key}_ns", f"{key}_bytes"
        for name in (*twin, re.sub("_(bps|ns|bytes)$", "", key)):
            # The other way to write the same quantity
            if name != key:
                merged.pop(name, None)
        merged[key] = _merge(base.get(key), value)
    return merged


def _has(changes: Any, location: Location) -> bool:
    """Whether the changes say something at a place or in the section around it."""
    node = changes
    for step in location[:-1]:
        if not isinstance(node, dict) or step not in node:
            return False
        node = node[step]
    return isinstance(node, dict) and (not location or location[-1] in node)
