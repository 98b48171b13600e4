"""The controller's plan of a switch, laid straight into a pipeline (without P4Runtime)."""

from __future__ import annotations

from functools import cache

from controller.entries import ActionCall, Group, GroupRef, Member, MemberRef, TableEntry
from controller.plan import SwitchPlan
from p4src import compiled
from softswitch import tables as st
from softswitch.pipeline import Pipeline
from softswitch.program import Program, load_program
from topologies.model import Fabric


@cache
def fabric_program() -> Program:
    """fabric.p4 as compiled: one for all switches, which then share the generated code."""
    return load_program(compiled("fabric").json_text)


def install_plan(pipeline: Pipeline, plan: SwitchPlan) -> None:
    """Write everything that a switch must hold into its fresh pipeline."""
    for entity in plan.entities():
        if isinstance(entity, Member):
            pipeline.action_profiles[entity.profile].insert_member(
                entity.member_id, st.ActionCall(entity.call.action, entity.call.args)
            )
        elif isinstance(entity, Group):
            members = {member_id: (weight, -1) for member_id, weight in entity.members}
            pipeline.action_profiles[entity.profile].insert_group(
                entity.group_id, st.Group(members)
            )
        else:
            pipeline.tables[entity.table].insert(st.Entry(entity.match, _target(entity)))


def _target(entity: TableEntry) -> st.Target:
    target = entity.target
    if isinstance(target, ActionCall):
        return st.ActionCall(target.action, target.args)
    if isinstance(target, MemberRef):
        return st.MemberRef(target.member_id)
    assert isinstance(target, GroupRef)
    return st.GroupRef(target.group_id)


def planned_pipeline(fabric: Fabric, switch: str, *, seed: int) -> Pipeline:
    """fabric.p4 with the tables of a switch."""
    pipeline = Pipeline(fabric_program(), seed=seed)
    install_plan(pipeline, SwitchPlan(fabric, fabric.switch(switch)))
    return pipeline
