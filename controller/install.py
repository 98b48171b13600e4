"""Bringing one switch to its plan, and telling whether it is there."""

from __future__ import annotations

from dataclasses import dataclass

from controller.client import (
    DELETE,
    INSERT,
    MODIFY,
    NoPipelineError,
    Pipeline,
    SwitchClient,
    SwitchError,
)
from controller.compare import Difference, compare, of_kind
from controller.entries import Entity, Group, Member, TableEntry
from controller.p4info import Schema
from controller.plan import SwitchPlan

_SHOWN_DIFFERENCES = 3


@dataclass(frozen=True, slots=True)
class Installed:
    """What an installation did to a switch."""

    pipeline_set: bool
    written: int
    deleted: int
    entries: int


class WrongPipelineError(SwitchError):
    """The switch runs another program, or none."""


def install(client: SwitchClient, pipeline: Pipeline, plan: SwitchPlan) -> Installed:
    """Brings a switch to its plan, reads it back and compares.

    Only what differs is written: nothing, where the plan is installed already. The program is
    loaded only where the cookie tells that another one runs. Raises SwitchError.
    """
    schema = Schema(pipeline.p4info)
    client.become_primary()
    pipeline_set = _cookie(client) != pipeline.cookie
    if pipeline_set:
        client.set_pipeline(pipeline)
    wanted = list(plan.entities())
    difference = compare(wanted, client.read_entries(schema))
    _write(client, schema, difference)
    left = compare(wanted, client.read_entries(schema)) if difference else difference
    if left:
        raise SwitchError(_not_as_written(left, schema))
    return Installed(
        pipeline_set=pipeline_set,
        written=len(difference.missing) + len(difference.changed),
        deleted=len(difference.extra),
        entries=len(wanted),
    )


def verify(client: SwitchClient, pipeline: Pipeline, plan: SwitchPlan) -> Difference:
    """The difference between a switch and its plan.

    Raises WrongPipelineError where it runs another program, SwitchError where it cannot be read.
    """
    cookie = _cookie(client)
    if cookie is None:
        raise WrongPipelineError("has no program: install it")
    if cookie != pipeline.cookie:
        raise WrongPipelineError(
            f"runs another program: cookie {cookie:#x} instead of {pipeline.cookie:#x}"
        )
    return compare(plan.entities(), client.read_entries(Schema(pipeline.p4info)))


def _cookie(client: SwitchClient) -> int | None:
    try:
        return client.cookie()
    except NoPipelineError:
        return None


def _write(client: SwitchClient, schema: Schema, difference: Difference) -> None:
    """Writes a difference in an order that never leaves a reference dangling.

    A server may carry out the updates of one batch in any order, so kinds are never mixed.
    """
    changed: list[Entity] = [wanted for wanted, _ in difference.changed]
    client.write(DELETE, of_kind(difference.extra, TableEntry), schema)
    for kind in (Member, Group, TableEntry):
        client.write(MODIFY, of_kind(changed, kind), schema)
        client.write(INSERT, of_kind(difference.missing, kind), schema)
    for kind in (Group, Member):
        client.write(DELETE, of_kind(difference.extra, kind), schema)


def _not_as_written(left: Difference, schema: Schema) -> str:
    lines = left.lines(schema)
    shown = "; ".join(lines[:_SHOWN_DIFFERENCES])
    more = (
        f"; and {len(lines) - _SHOWN_DIFFERENCES} more" if len(lines) > _SHOWN_DIFFERENCES else ""
    )
    return f"reads back {left.count} entries other than written: {shown}{more}"
