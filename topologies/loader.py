"""Topology files → `Fabric`, with errors that name file, line, field and value."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from topologies.model import Fabric, GrpcSettings, LinkOverride, TopologyError
from topologies.schema import Section, TopologyFile

Location = tuple[int | str, ...]


class TopologyFileError(Exception):
    """A topology file that cannot be used. `problems` has one line for each thing wrong."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


def load_topology(path: str | Path) -> Fabric:
    """The fabric that a file describes.

    Raises TopologyFileError with everything that is wrong with it.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise TopologyFileError([f"{path}: cannot be read: {error.strerror}"]) from None
    except UnicodeDecodeError as error:
        raise TopologyFileError([f"{path}: is not UTF-8 text: byte {error.start}"]) from None
    return parse_topology(text, str(path), default_name=path.stem)


def parse_topology(text: str, source: str, *, default_name: str = "fabric") -> Fabric:
    """The fabric that a file's text describes; `source` names it in errors.

    Raises TopologyFileError with everything that is wrong with it.
    """
    document = _parse_yaml(text, source)
    try:
        file = TopologyFile.model_validate(_plain(document))
    except ValidationError as error:
        problems = [
            (_line(document, details["loc"]), _problem(source, document, details))
            for details in error.errors()
        ]
        raise TopologyFileError([problem for _, problem in sorted(problems)]) from None
    return _fabric(file, source, document, default_name)


def _parse_yaml(text: str, source: str) -> CommentedMap:
    yaml = YAML(typ="rt")
    try:
        document = yaml.load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{source}:{mark.line + 1}" if mark else source
        problem = " ".join((error.problem or "is not YAML").split())
        raise TopologyFileError([f"{where}: {problem}"]) from None
    except YAMLError as error:
        raise TopologyFileError([f"{source}: {' '.join(str(error).split())}"]) from None
    if not isinstance(document, CommentedMap):
        raise TopologyFileError([f"{source}:1: a topology is a list of fields, as 'planes: 2'"])
    return document


def _plain(node: Any) -> Any:
    """What the round-trip loader read, as the plain types that strict validation wants."""
    if isinstance(node, dict):
        return {str(key): _plain(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_plain(value) for value in node]
    for plain in (bool, int, float, str):
        if isinstance(node, plain):
            return plain(node)
    return node


def _line(document: CommentedMap, location: Location) -> int:
    """The line (from 1) of a field, or of the nearest section around it that the file has."""
    line = document.lc.line
    node: Any = document
    for step in location:
        if isinstance(node, CommentedMap) and step in node:
            line = node.lc.key(step)[0]
        elif isinstance(node, CommentedSeq) and isinstance(step, int) and step < len(node):
            line = node.lc.item(step)[0]
        else:
            break
        node = node[step]
    return int(line) + 1


def _dotted(location: Location) -> str:
    text = ""
    for step in location:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def _at(source: str, document: CommentedMap, location: Location, message: str) -> str:
    where = f"{source}:{_line(document, location)}: "
    return f"{where}{_dotted(location)}: {message}" if location else where + message


def _problem(source: str, document: CommentedMap, details: ErrorDetails) -> str:
    return _at(source, document, details["loc"], _message(details))


def _message(details: ErrorDetails) -> str:
    value = details["input"]
    context = details.get("ctx", {})
    match details["type"]:
        case "missing":
            return "is missing"
        case "extra_forbidden":
            return _unknown_field(details["loc"])
        case "value_error":
            return str(context["error"])
        case "int_type" | "int_from_float":
            return f"{value!r} is not an integer"
        case "float_type":
            return f"{value!r} is not a number"
        case "bool_type":
            return f"{value!r} is neither true nor false"
        case "string_type":
            return f"{value!r} is not text"
        case "greater_than_equal":
            return f"{value!r} is too small: it must be at least {context['ge']}"
        case "less_than_equal":
            return f"{value!r} is too large: it must be at most {context['le']}"
        case "model_type" | "model_attributes_type" | "dict_type" if value is None:
            return "is empty; leave it out or write its fields under it"
        case "model_type" | "model_attributes_type" | "dict_type":
            return f"{value!r} is not a section: write its fields under it"
        case "list_type":
            return f"{value!r} is not a list"
        case "too_short" | "too_long":
            return f"has {context['actual_length']} items instead of 2"
        case "string_pattern_mismatch":
            return f"{value!r} may have letters, digits, '.', '_' and '-' only"
        case _:
            return f"{value!r}: {details['msg']}"


def _unknown_field(location: Location) -> str:
    names = list(_section_at(location[:-1]).model_fields)
    near = difflib.get_close_matches(str(location[-1]), names, n=1)
    if near:
        return f"unknown field; did you mean {near[0]}?"
    return f"unknown field; the fields here are {', '.join(names)}"


def _section_at(location: Iterable[int | str]) -> type[Section]:
    """The schema of the section at a location."""
    section: type[Section] = TopologyFile
    for step in location:
        if isinstance(step, str):
            section = next(sections_in(section.model_fields[step].annotation))
    return section


def sections_in(annotation: Any) -> Iterator[type[Section]]:
    """The sections that a field of this type holds: one, or none."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        yield annotation
    for argument in get_args(annotation):
        yield from sections_in(argument)


def _fabric(file: TopologyFile, source: str, document: CommentedMap, default_name: str) -> Fabric:
    try:
        fabric = Fabric(
            name=file.name or default_name,
            planes=file.planes,
            t0_per_plane=file.t0_per_plane,
            t1_per_plane=file.t1_per_plane,
            hosts_per_t0=file.hosts_per_t0,
            addresses=file.addressing.plan(),
            host_link=file.links.host.settings(),
            fabric_link=file.links.fabric.settings(),
            host_queue=file.queues.host.settings(),
            fabric_queue=file.queues.fabric.settings(),
            trim=file.trimming.settings(),
            traffic=file.dscp.classes(),
            path_mtu_bytes=file.quantity("path_mtu") or 0,
            udp_port=file.udp_port,
            grpc=GrpcSettings(file.grpc.host, file.grpc.base_port),
        )
    except TopologyError as error:
        raise TopologyFileError([_at(source, document, (), str(error))]) from None
    overrides = _link_overrides(file, fabric, source, document)
    return replace(fabric, link_overrides=overrides) if overrides else fabric


def _link_overrides(
    file: TopologyFile, fabric: Fabric, source: str, document: CommentedMap
) -> dict[str, LinkOverride]:
    overrides: dict[str, LinkOverride] = {}
    problems = []
    for number, section in enumerate(file.links.overrides):
        location = ("links", "overrides", number, "between")
        try:
            name = fabric.link(*section.between).name
        except TopologyError as error:
            problems.append(_at(source, document, location, str(error)))
            continue
        if name in overrides:
            problems.append(_at(source, document, location, f"{name} is overridden twice"))
        overrides[name] = section.override()
    if problems:
        raise TopologyFileError(problems)
    return overrides


def ready_topologies() -> dict[str, Path]:
    """The topology files that come with the repository, by name."""
    return {path.stem: path for path in sorted(Path(__file__).parent.glob("*.yaml"))}


def find_topology(name_or_path: str) -> Path:
    """The file meant: a path, or the name of a ready topology.

    Raises TopologyFileError where there is neither.
    """
    path = Path(name_or_path)
    if path.exists():
        return path
    ready = ready_topologies()
    if name_or_path not in ready:
        raise TopologyFileError(
            [f"{name_or_path}: no such file; ready topologies are {', '.join(ready)}"]
        )
    return ready[name_or_path]
