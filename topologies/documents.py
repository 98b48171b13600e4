"""YAML documents with strict schemas: every problem of a file in one line that names its place.

Topology and scenario files share this. A document keeps its line numbers; what a schema finds
wrong becomes `file:line: field: value and what would be right`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from topologies.schema import Section

#: Of a document, aliases written out: a few lines of aliases can stand for more than fits in memory
_MAX_VALUES: Final = 1_000_000
#: Sections in one another
_MAX_HEIGHT: Final = 64

Location = tuple[int | str, ...]
Model = TypeVar("Model", bound=BaseModel)


class DocumentError(Exception):
    """A file that cannot be used. `problems` has one line for each thing wrong."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


def read_text(path: Path) -> str:
    """A file's text. Raises DocumentError where there is none."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise DocumentError([f"{path}: cannot be read: {error.strerror}"]) from None
    except UnicodeDecodeError as error:
        raise DocumentError([f"{path}: is not UTF-8 text: byte {error.start}"]) from None


def find_file(name_or_path: str, ready: Mapping[str, Path], kind: str) -> Path:
    """The file meant: a path, or the name of a ready file of its kind, a "scenario", say.

    Raises DocumentError where there is neither.
    """
    path = Path(name_or_path)
    if path.is_file():
        return path
    if name_or_path in ready:
        return ready[name_or_path]
    wrong = "is a directory" if path.is_dir() else f"no such file or ready {kind}"
    near = nearest(name_or_path, list(ready))
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    hint += "`mrc-topology list` names all"
    raise DocumentError([f"{name_or_path or repr('')}: {wrong}; {hint}"])


def parse_yaml(text: str, source: str, *, what: str) -> CommentedMap:
    """The document of a file; `what` says what a file of its kind is. Raises DocumentError."""
    yaml = YAML(typ="rt")
    try:
        document = yaml.load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{source}:{mark.line + 1}" if mark else source
        problem = " ".join((error.problem or "is not YAML").split())
        raise DocumentError([f"{where}: {problem}"]) from None
    except YAMLError as error:
        raise DocumentError([f"{source}: {' '.join(str(error).split())}"]) from None
    except ValueError as error:  # a scalar that has the form of a number or date and is none
        raise DocumentError([f"{source}: {' '.join(str(error).split())}"]) from None
    except RecursionError:
        raise DocumentError([f"{source}: is nested too deep"]) from None
    try:
        values, height = _extent(document, {})
    except RecursionError:
        raise DocumentError([f"{source}: is nested too deep"]) from None
    if height > _MAX_HEIGHT:
        raise DocumentError([f"{source}: is nested too deep"])
    if values > _MAX_VALUES:
        raise DocumentError(
            [f"{source}: with its aliases it has {values:.3g} values; {_MAX_VALUES:,} are the most"]
        )
    if not isinstance(document, CommentedMap):
        raise DocumentError([f"{source}:1: {what}"])
    return document


def _extent(node: Any, known: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """How many values `plain` makes of a node, and how deep: an alias is all it stands for."""
    if not isinstance(node, dict | list):
        return 1, 0
    extent = known.get(id(node))
    if extent is None:
        known[id(node)] = 1, 0  # what contains itself is found by `plain`
        values, height = 1, 0
        for child in node.values() if isinstance(node, dict) else node:
            child_values, child_height = _extent(child, known)
            values += child_values
            height = max(height, child_height)
        extent = known[id(node)] = values, height + 1
    return extent


def plain(node: Any) -> Any:
    """What the round-trip loader read, as the plain types that strict validation wants."""
    if isinstance(node, dict):
        return {str(key): plain(value) for key, value in node.items()}
    if isinstance(node, list):
        return [plain(value) for value in node]
    for kind in (bool, int, float, str):
        if isinstance(node, kind):
            return kind(node)
    return node


def validate(schema: type[Model], source: str, document: CommentedMap) -> Model:
    """The document as its schema has it. Raises DocumentError with everything that is wrong."""
    try:
        return schema.model_validate(plain(document))
    except RecursionError:
        raise DocumentError([f"{source}: a section that contains itself"]) from None
    except ValidationError as error:
        problems = [
            (line_of(document, details["loc"]), problem_at(schema, source, document, details))
            for details in error.errors()
        ]
        raise DocumentError([problem for _, problem in sorted(problems)]) from None


def line_of(document: CommentedMap, location: Location) -> int:
    """The line (from 1) of a field, or of the nearest section around it that the file has."""
    # A document that was made, not read, has no lines
    line = document.lc.line or 0
    node: Any = document
    for step in location:
        if isinstance(node, CommentedMap):
            known = step in node
        else:
            known = isinstance(node, CommentedSeq) and isinstance(step, int) and step < len(node)
        if not known:
            break
        line = _key_line(node, step, line)
        node = node[step]
    return int(line) + 1


def _key_line(node: CommentedMap | CommentedSeq, step: int | str, default: int) -> int:
    try:
        position = node.lc.key(step) if isinstance(node, CommentedMap) else node.lc.item(step)
    except (KeyError, TypeError):
        return default  # it was put there by the program, not read from the file
    return default if position is None else int(position[0])


def dotted(location: Location) -> str:
    """A location as people write it: traffic[0].transfer.size."""
    text = ""
    for step in location:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def at(source: str, document: CommentedMap, location: Location, message: str) -> str:
    """One line about a place of a document."""
    where = f"{source}:{line_of(document, location)}: "
    return f"{where}{dotted(location)}: {message}" if location else where + message


def problem_at(
    schema: type[BaseModel], source: str, document: CommentedMap, details: ErrorDetails
) -> str:
    """One line about what a schema found wrong."""
    return at(source, document, details["loc"], message_of(schema, details))


def message_of(schema: type[BaseModel], details: ErrorDetails) -> str:
    """What is wrong and what would be right, without the place."""
    value = details["input"]
    context = details.get("ctx", {})
    match details["type"]:
        case "missing":
            return "is missing"
        case "extra_forbidden":
            return _unknown_field(schema, details["loc"])
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
        case "greater_than":
            return f"{value!r} is too small: it must be above {context['gt']}"
        case "less_than_equal":
            return f"{value!r} is too large: it must be at most {context['le']}"
        case "less_than":
            return f"{value!r} is too large: it must be below {context['lt']}"
        case "literal_error":
            return _unknown_word(value, context["expected"])
        case "model_type" | "model_attributes_type" | "dict_type" if value is None:
            return "is empty; leave it out or write its fields under it"
        case "model_type" | "model_attributes_type" | "dict_type":
            return f"{value!r} is not a section: write its fields under it"
        case "list_type" if value is None:
            return "is empty; leave it out or write its items under it"
        case "list_type":
            return f"{value!r} is not a list"
        case "too_short":
            return _wrong_length(context["actual_length"], "at least", context["min_length"])
        case "too_long":
            return _wrong_length(context["actual_length"], "at most", context["max_length"])
        case "string_pattern_mismatch":
            return f"{value!r} may have letters, digits, '.', '_' and '-' only"
        case _:
            return f"{value!r}: {details['msg']}"


def _wrong_length(length: int, bound: str, needed: int) -> str:
    return f"has {length} item{'' if length == 1 else 's'}; it must have {bound} {needed}"


def did_you_mean(word: str, words: Sequence[str]) -> str | None:
    """The one of `words` that is most like a word, if one is like it."""
    near = difflib.get_close_matches(word, words, n=1)
    # A part of the right word says enough as well, where it is a part of no other
    near = near or [each for each in words if len(word) > 2 and word in each]
    return near[0] if len(near) == 1 else None


def nearest(word: str, words: Sequence[str], most: int = 3) -> list[str]:
    """Those of `words` that a word may stand for, the likeliest first."""
    parts = [each for each in words if len(word) > 2 and word in each]
    if parts:
        return sorted(parts, key=len)[:most]
    near = difflib.get_close_matches(word, words, n=most)
    # Others that are much less like it than the first are noise
    return [each for each in near if _likeness(word, each) > _likeness(word, near[0]) - 0.1]


def _likeness(word: str, other: str) -> float:
    return difflib.SequenceMatcher(None, other, word).ratio()


def _unknown_word(value: object, expected: str) -> str:
    words = [word.strip("'") for word in expected.replace(" or ", ", ").split(", ")]
    near = did_you_mean(str(value), words)
    hint = f"did you mean {near}?" if near else f"it must be one of {', '.join(words)}"
    return f"{value!r}: {hint}"


def _unknown_field(schema: type[BaseModel], location: Location) -> str:
    section = section_at(schema, location[:-1])
    names = [field.alias or name for name, field in section.model_fields.items()]
    near = did_you_mean(str(location[-1]), names)
    if near:
        return f"unknown field; did you mean {near}?"
    return f"unknown field; the fields here are {', '.join(names)}"


def section_at(schema: type[BaseModel], location: Location) -> type[BaseModel]:
    """The schema of the section at a location."""
    section: type[BaseModel] = schema
    for step in location:
        if isinstance(step, str):
            section = next(sections_in(_field(section, step)))
    return section


def _field(section: type[BaseModel], name: str) -> Any:
    for field_name, field in section.model_fields.items():
        if name in (field_name, field.alias):
            return field.annotation
    raise KeyError(name)


def sections_in(annotation: Any) -> Iterator[type[Section]]:
    """The sections that a field of this type holds: one, or none."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        yield annotation
    for argument in get_args(annotation):
        yield from sections_in(argument)
