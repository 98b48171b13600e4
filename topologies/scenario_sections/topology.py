"""`topology`: a topology file by name or path, with the fields of it that the scenario changes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from ruamel.yaml.comments import CommentedMap

from topologies.documents import (
    Location,
    dotted,
    line_of,
    message_of,
    parse_yaml,
    plain,
    read_text,
)
from topologies.loader import WHAT_A_TOPOLOGY_IS, TopologyFileError, fabric_of, find_topology
from topologies.model import Fabric
from topologies.scenario_sections.document import ScenarioDocument, ScenarioFileError
from topologies.schema import TopologyFile


def fabric_in(
    section: str | dict[str, Any], document: ScenarioDocument, default_name: str
) -> Fabric:
    """The fabric that a scenario is about; `default_name` where no file names it.

    Raises DocumentError with everything that is wrong with it.
    """
    if isinstance(section, str):
        path = _path_of(section, document, ("topology",))
        return _changed_fabric(path, {}, document, default_name)
    changes = dict(section)
    base = changes.pop("base", None)
    if base is None:
        return _changed_fabric(None, changes, document, default_name)
    at: Location = ("topology", "base")
    if not isinstance(base, str):
        raise ScenarioFileError([document.at(at, f"{base!r} is not a name or path")])
    return _changed_fabric(_path_of(base, document, at), changes, document, default_name)


def _path_of(name: str, document: ScenarioDocument, at: Location) -> Path:
    beside = document.directory / name
    if beside.is_file():
        return beside
    try:
        return find_topology(name)
    except TopologyFileError as error:
        raise ScenarioFileError([document.at(at, line) for line in error.problems]) from None


def _changed_fabric(
    path: Path | None, changes: dict[str, Any], document: ScenarioDocument, default_name: str
) -> Fabric:
    if path is None:
        base, name = CommentedMap(), default_name
    else:
        base = parse_yaml(read_text(path), str(path), what=WHAT_A_TOPOLOGY_IS)
        name = path.stem
    try:
        checked = TopologyFile.model_validate(_merge(plain(base), changes))
    except ValidationError as error:
        problems = []
        for details in error.errors():
            location = details["loc"]
            message = message_of(TopologyFile, details)
            if path is None or _has(changes, location):
                problems.append(document.at(("topology", *location), message))
            else:
                line = line_of(base, location)
                problems.append(f"{path}:{line}: {dotted(location)}: {message}")
        raise ScenarioFileError(problems) from None
    try:
        return fabric_of(checked, "topology", base, name)
    except TopologyFileError as error:
        raise ScenarioFileError(
            [document.at(("topology",), line.split(": ", 1)[1]) for line in error.problems]
        ) from None


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
