"""The compiled program that a controller installs: P4Info, BMv2 JSON, and a cookie of both."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import p4src
from controller import fabric_program
from controller.client import Pipeline
from controller.p4info import Field, Schema, SchemaError, load_p4info


def default_p4info() -> Path:
    """The P4Info of `fabric.p4` as the repository ships it."""
    return Path(p4src.__file__).parent / "build" / "fabric.p4info.txtpb"


def default_device_config() -> Path:
    """The BMv2 JSON of `fabric.p4` as the repository ships it."""
    return Path(p4src.__file__).parent / "build" / "fabric.json"


def load_pipeline(p4info: Path, device_config: Path) -> Pipeline:
    """A program from its two files; raises SchemaError naming the one that cannot be used.

    The cookie is a hash of both, so it tells whether a switch runs this very program.
    """
    message = load_p4info(p4info)
    try:
        config = device_config.read_bytes()
    except OSError as error:
        raise SchemaError(f"{device_config}: cannot be read: {error.strerror}") from None
    digest = hashlib.sha256(message.SerializeToString(deterministic=True) + config).digest()
    # 0 is what a switch without a cookie says
    return Pipeline(message, config, int.from_bytes(digest[:8], "big") or 1)


def check_program(pipeline: Pipeline, p4info: Path) -> None:
    """Raises SchemaError where a program has not the tables and actions that the plan fills."""
    schema = Schema(pipeline.p4info)
    try:
        for table in fabric_program.TABLES:
            _same(table.name, table.keys, schema.tables.name(table.name).keys)
        for action in fabric_program.ACTIONS:
            _same(action.name, action.params, schema.actions.name(action.name).params)
        schema.profiles.name(fabric_program.ECMP)
    except SchemaError as error:
        raise SchemaError(
            f"{p4info}: is not fabric.p4 as this controller knows it: {error}"
        ) from None


def _same(name: str, known: Sequence[fabric_program.Column], there: Sequence[Field]) -> None:
    known_names = [column.name for column in known]
    names = [field.name for field in there]
    if known_names != names:
        raise SchemaError(f"{name} has {', '.join(names)} instead of {', '.join(known_names)}")
