"""The control socket's commands for traffic of scenarios: flows, ranks, and what is measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from host.agent import sampling
from host.agent.errors import UsageError
from host.agent.flow import Flow, FlowSpec
from host.agent.jsonlines import MAX_TIME_NS, Fields
from host.paths import EvSet

if TYPE_CHECKING:
    from host.agent.collective import Rank
    from host.agent.commands import Session

_U32: Final = (1 << 32) - 1

# --- flows ---


async def flow_open(session: Session, fields: Fields) -> Mapping[str, Any]:
    """Queue pairs, and memory at the far end, for a flow."""
    if session.flow is not None:
        raise UsageError("this connection has a flow already")
    agent = session.agent
    spec = FlowSpec.take(fields, agent.config.path_mtu_bytes)
    session.flow = await Flow.open(agent, spec)
    return session.flow.to_json()


async def flow_run(session: Session, fields: Fields) -> Mapping[str, Any]:
    """Write a flow's messages, from one time to another."""
    if session.flow is None:
        raise UsageError("this connection has no flow; flow_open makes one")
    start_ns = fields.integer("start_ns", 0, MAX_TIME_NS)
    until_ns = fields.optional_integer("until_ns", 0, MAX_TIME_NS)
    deadline_ns = fields.optional_integer("deadline_ns", 0, MAX_TIME_NS)
    fields.end()
    return await session.flow.run(start_ns, until_ns, deadline_ns)


# --- collectives ---


async def group_join(session: Session, fields: Fields) -> Mapping[str, Any]:
    """Be a rank of a group; its row of the table is for the other ranks."""
    from host.agent import collective

    if session.rank is not None:
        raise UsageError("this connection is a rank already")
    session.rank = collective.join(session.agent, fields)
    return {"info": session.rank.info}


def _joined(session: Session) -> Rank:
    if session.rank is None:
        raise UsageError("this connection is no rank; group_join makes it one")
    return session.rank


async def group_connect(session: Session, fields: Fields) -> Mapping[str, Any]:
    """Connect with all peers, by the rows of all ranks."""
    from host.agent import collective

    rank = _joined(session)
    await rank.connect(collective.take_table(fields))
    return {}


async def group_run(session: Session, fields: Fields) -> Mapping[str, Any]:
    """Run a collective, as all other ranks do."""
    from host.agent import collective

    return await _joined(session).run(collective.take_plan(fields))


# --- what is measured, and what an operator does meanwhile ---


async def sample(session: Session, fields: Fields) -> Mapping[str, Any]:
    """Counters that are cheap to ask for."""
    fields.end()
    return sampling.sample(session.agent)


async def tally(session: Session, fields: Fields) -> Mapping[str, Any]:
    """Data frames sent, by path."""
    fields.end()
    return {"paths": sampling.data_paths(session.agent)}


async def deny(session: Session, fields: Fields) -> Mapping[str, Any]:
    """Take EVs out of all queue pairs with a peer, or let them in again."""
    agent = session.agent
    peer = agent.address_of(fields.text("peer"))
    evs = fields.integers("evs", 0, _U32)
    denied = fields.flag("denied")
    fields.end()
    now_ns = agent.driver.now_ns()
    changed = []
    for qp in agent.nic.qps.values():
        if qp.attributes.peer_address == peer and isinstance(qp.evs, EvSet):
            (qp.evs.deny if denied else qp.evs.allow)(evs, now_ns)
            agent.nic.evs_administered(qp, now_ns)
            changed.append(qp.number)
    agent.driver.kick()
    return {"qps": changed}
