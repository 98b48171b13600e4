"""A scenario's document: what it says, where it says it, and what `--set` changes in it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import YAMLError

from topologies import scenario_schema as schema
from topologies.documents import (
    DocumentError,
    Location,
    did_you_mean,
    dotted,
    line_of,
    message_of,
    plain,
    section_at,
)

_STEP: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*)((?:\[\d+\])*)")


class ScenarioFileError(DocumentError):
    """A scenario that cannot be used. `problems` has one line for each thing wrong."""


class ScenarioDocument:
    """A scenario's document. Paths of topologies start at `directory`."""

    def __init__(self, source: str, document: CommentedMap, directory: Path) -> None:
        self.source = source
        self.document = document
        self.directory = directory
        #: Place → the change (as it was written) that put something there
        self._changed: dict[Location, str] = {}

    # --- places ---

    def at(self, location: Location, message: str) -> str:
        """One line about a place."""
        rest = dotted(location[self._change_at(location) :])
        parts = (self.place(location), rest, message)
        return ": ".join(part for part in parts if part)

    def place(self, location: Location) -> str:
        """File and line of a place, or the change that put it there."""
        length = self._change_at(location)
        if length:
            return f"--set {self._changed[location[:length]]}"
        return f"{self.source}:{line_of(self.document, location)}"

    def _change_at(self, location: Location) -> int:
        """How many steps into a location a change was made, the innermost one; 0: none was."""
        lengths = range(len(location), 0, -1)
        return next((length for length in lengths if location[:length] in self._changed), 0)

    # --- schema ---

    def validate(self) -> schema.ScenarioFile:
        """The document as its schema has it. Raises ScenarioFileError with all that is wrong."""
        try:
            return schema.ScenarioFile.model_validate(plain(self.document))
        except RecursionError:
            raise ScenarioFileError([f"{self.source}: a section that contains itself"]) from None
        except ValidationError as error:
            problems = []
            for details in error.errors():
                location = details["loc"]
                if location[:1] == ("topology",):
                    location = location[:1]  # which member of the union was tried is no matter
                known = {**details, "loc": location}
                message = message_of(schema.ScenarioFile, known)  # type: ignore[arg-type]
                if location == ("topology",) and details["type"] != "missing":
                    message = "is neither the name of a topology nor a section"
                problems.append((line_of(self.document, location), self.at(location, message)))
            lines = dict.fromkeys(problem for _, problem in sorted(problems))
            raise ScenarioFileError(list(lines)) from None

    # --- changes ---

    def replace_topology(self, path: Path) -> None:
        """Name another topology; what the scenario changes in the one it names stays changed."""
        section = self.document.get("topology")
        if isinstance(section, CommentedMap) and "base" in section:
            section["base"] = str(path.resolve())
        else:
            self.document["topology"] = str(path.resolve())

    def change(self, change: str) -> None:
        """Put a value in a place: `key=value`. Raises ScenarioFileError where there is none."""
        key, equals, text = change.partition("=")
        if not equals:
            raise ScenarioFileError([f"--set {change}: write key=value"])
        location = _location(key)
        try:
            value = YAML(typ="rt").load(text)
        except RecursionError:
            raise ScenarioFileError([f"--set {key}: is nested too deep"]) from None
        except (YAMLError, ValueError) as error:
            # ValueError: a scalar that has the form of a number or date and is none
            problem = " ".join(str(error).split())
            raise ScenarioFileError([f"--set {key}: {text!r} is not YAML: {problem}"]) from None
        node: Any = self.document
        for index, step in enumerate(location):
            _check_step(key, node, location[:index], step)
            if index == len(location) - 1:
                node[step] = value
                break
            below = node[step] if isinstance(step, int) else node.get(step)
            if location[: index + 1] == ("topology",) and isinstance(below, str):
                below = node[step] = CommentedMap(base=below)
            if below is None:
                below = node[step] = CommentedMap()
            node = below
        self._changed[location] = key


def _location(key: str) -> Location:
    """The place that a change's key names: `traffic[0].transfer.size`."""
    location: list[int | str] = []
    for part in key.split("."):
        match = _STEP.fullmatch(part)
        if match is None:
            raise ScenarioFileError(
                [f"--set {key}: {part!r} is no field; write for example traffic[0].repeat=2"]
            )
        name = match[1]
        if location[:1] != ["topology"]:
            _check_field(key, tuple(location), name)
        location.append(name)
        location.extend(int(index) for index in re.findall(r"\d+", match[2]))
    return tuple(location)


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


def _check_step(key: str, node: Any, above: Location, step: int | str) -> None:
    """Complain where a node of the document, at `above`, has no such item or field."""
    if isinstance(step, int):
        items = len(node) if isinstance(node, CommentedSeq) else 0
        if step >= items:
            raise ScenarioFileError(
                [f"--set {key}: {dotted(above)} has {items} items, numbered from 0"]
            )
    elif not isinstance(node, CommentedMap):
        raise ScenarioFileError([f"--set {key}: {dotted(above)} has no fields"])
