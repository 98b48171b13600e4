"""`Pipeline`: one loaded program — its state and its two compiled functions.

The calling convention between a pipeline and the switch around it (traffic manager, replication
engine). It is made of plain tuples and bytes because it is crossed twice per packet::

    result = pipeline.ingress(frame, port, now_ns)              # parser, verify checksum, ingress
    if result is None:                                          # dropped by the program
        ...
    else:
        egress_port, priority, mcast_group, length, state, requests = result
        ...                                                     # see "After ingress"
    out = pipeline.egress(state, egress_port, now_ns, rid, enq_ns, enq_qdepth, deq_qdepth, qid)
    if out.__class__ is bytes: ...                              # send it
    elif out is None: ...                                       # dropped by the program
    else: ...                                                   # an EgressRequests, see below

**Ingress.** `frame` is the packet from the first byte of its first header; `port` the ingress port.
The result is None if the program dropped the packet and asked for nothing else, else a tuple:

=============  ===================================================================================
egress_port    `standard_metadata.egress_spec` after ingress; `Pipeline.drop_port` means drop
priority       `standard_metadata.priority` (0 if the program has no such field): the queue
mcast_group    `standard_metadata.mcast_grp`; if not 0 the packet goes to the members of that
               multicast group, each with its replication id, and not to `egress_port`
length         bytes the packet will have on leaving, as far as known before egress: what came in,
               plus headers added, less headers removed, cut to the `truncate` length. For depths.
state          opaque tuple: what egress and deparser need of the packet (PHV and payload).
               Immutable, so every multicast copy gets the same one.
requests       None (nearly always), or an `IngressRequests`
=============  ===================================================================================

**After ingress**, in simple_switch's order: 1. `requests.clone`: if the session exists, every port
of the session gets a copy with `clone.state`. 2. `requests.digest`: hand it to the control plane.
3. `requests.resubmit`: call `ingress` again with it, *and do nothing else with this packet*.
4. `mcast_group` ≠ 0: replicate. 5. `egress_port` is the drop port: drop. 6. enqueue there.

**Egress.** To be called when the packet leaves its queue. `port` is the egress port, `now_ns` the
dequeue time, `rid` the replication id (0 for unicast), `enq_ns` the enqueue time, `enq_qdepth` and
`deq_qdepth` the queue's depth in packets at enqueue and dequeue, `qid` the queue. The instance type
(unicast, multicast, clone) is in `state`. The result is the frame to send, None for a packet that
the program dropped, or an `EgressRequests`: 1. `clone` as above (E2E; the copy goes to the queues,
not through ingress). 2. `recirculate`: call `ingress` with it; `frame` is None then. 3. `frame`, if
not None, is sent.

**Again** (resubmit, recirculate): `pipeline.ingress(again.frame, again.port, now_ns, again)`.

Time is in integer nanoseconds since the switch started; programs see microseconds, as with BMv2.
No frame makes these functions raise. A failed `assert` or `assume` (where BMv2 aborts) drops the
packet and is counted in `Pipeline.failed_asserts`.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from softswitch import ir
from softswitch.compiler import RuntimeState, compile_program
from softswitch.externs import CounterArray, MeterArray, RegisterArray
from softswitch.program import Program, UnsupportedProgram
from softswitch.results import (
    INSTANCE_EGRESS_CLONE,
    INSTANCE_INGRESS_CLONE,
    INSTANCE_NORMAL,
    INSTANCE_RECIRCULATED,
    INSTANCE_REPLICATION,
    INSTANCE_RESUBMITTED,
    Again,
    Clone,
    Digest,
    EgressRequests,
    IngressRequests,
    State,
)
from softswitch.tables import (
    ActionCall,
    ActionProfile,
    ActionSignature,
    Entry,
    Table,
    TableError,
    ValueSet,
)

__all__ = [
    "DEFAULT_DROP_PORT",
    "INSTANCE_EGRESS_CLONE",
    "INSTANCE_INGRESS_CLONE",
    "INSTANCE_NORMAL",
    "INSTANCE_RECIRCULATED",
    "INSTANCE_REPLICATION",
    "INSTANCE_RESUBMITTED",
    "Again",
    "Clone",
    "Digest",
    "DigestInfo",
    "EgressRequests",
    "EgressResult",
    "IngressRequests",
    "IngressResult",
    "Pipeline",
    "State",
]

log = logging.getLogger(__name__)

DEFAULT_DROP_PORT = 511

IngressResult = tuple[int, int, int, int, State, IngressRequests | None] | None
EgressResult = bytes | EgressRequests | None
IngressFunction = Callable[..., IngressResult]
EgressFunction = Callable[..., EgressResult]


@dataclass(slots=True)
class DigestInfo:
    """A digest (learn list) of the program: its name and the (name, bits) of its fields."""

    name: str
    fields: tuple[tuple[str, int], ...] = field(default_factory=tuple)


class Pipeline:
    """One loaded program: state reached by name, and `ingress` and `egress` (module docstring).

    `ingress(frame: bytes, port: int, now_ns: int, again: Again | None = None) -> IngressResult`

    `egress(state, port: int, now_ns: int, rid: int = 0, enq_ns: int = 0, enq_qdepth: int = 0,
    deq_qdepth: int = 0, qid: int = 0) -> EgressResult`

    `seed` feeds `random()` and the `random` hash; the same seed gives the same run.
    Not thread-safe: the caller serialises packets and control-plane changes.
    """

    ingress: IngressFunction
    egress: EgressFunction
    ingress_source: str
    egress_source: str

    def __init__(
        self, program: Program, *, seed: int = 0, drop_port: int = DEFAULT_DROP_PORT
    ) -> None:
        self.program = program
        self.drop_port = drop_port
        self.failed_asserts: dict[str, int] = {}
        state = RuntimeState(drop_port, random.Random(seed), self._fail_assert)
        self.rng = state.rng
        self.counters = state.counters
        self.meters = state.meters
        self.registers = state.registers
        self.action_profiles = state.action_profiles
        self.tables = state.tables
        self.value_sets = state.value_sets
        self.digests: dict[str, DigestInfo] = {
            item.name: _digest_info(item) for item in program.digests.values()
        }
        self._make_externs()
        self._make_tables()
        compiled = compile_program(program, drop_port)
        self.ingress, self.egress = compiled.functions(state)
        self.ingress_source = compiled.ingress_source
        self.egress_source = compiled.egress_source

    def reset_state(self) -> None:
        """Registers, counters, meters, tables and value sets back to what the program says.

        Everything is changed in place, so that the compiled functions and the caller's references
        stay good.
        """
        for counter in self.counters.values():
            counter.reset()
        for meter in self.meters.values():
            meter.reset()
        for register in self.registers.values():
            register.reset()
        for value_set in self.value_sets.values():
            value_set.set_members(())
        for table in self.tables.values():
            table.clear()
        for profile in self.action_profiles.values():
            profile.clear()
        self._insert_const_entries()
        self.failed_asserts.clear()

    def set_port_up(self, port: int, up: bool) -> None:
        """Tell the action selectors about a port that members watch."""
        for profile in self.action_profiles.values():
            profile.set_port_up(port, up)

    # ---- making the state --------------------------------------------------------------------

    def _make_externs(self) -> None:
        program = self.program
        for counter in program.counters.values():
            self.counters[counter.name] = CounterArray(counter.name, counter.size)
        for meter in program.meters.values():
            if meter.table is None:
                self.meters[meter.name] = MeterArray(
                    meter.name, meter.size, meter.kind, meter.rate_count
                )
        for register in program.registers.values():
            self.registers[register.name] = RegisterArray(
                register.name, register.size, register.bitwidth
            )
        for name, widths in program.value_sets.items():
            self.value_sets[name] = ValueSet(name, widths)

    def _make_tables(self) -> None:
        definitions = [*self.program.ingress.tables, *self.program.egress.tables]
        for profile in self.program.profiles.values():
            actions = {
                action.name: _signature(action)
                for table in definitions
                if table.profile == profile.name
                for action in table.actions
            }
            self.action_profiles[profile.name] = ActionProfile(
                profile.name,
                profile.size,
                is_selector=profile.selector is not None,
                actions=actions,
            )
        for item in definitions:
            default = None
            if item.default is not None and item.profile is None:
                default = ActionCall(item.actions[item.default[0]].name, item.default[1])
            shared = None if item.profile is None else self.action_profiles.get(item.profile)
            if item.profile is not None and shared is None:
                raise UnsupportedProgram(f"table {item.name}: no action profile '{item.profile}'")
            table = Table(
                item.name,
                tuple(part.match for part in item.key),
                tuple(_signature(action) for action in item.actions),
                size=item.size,
                profile=shared,
                has_counters=item.with_counters,
                meter_kind=None if item.meter is None else item.meter.kind,
                has_timeout=item.with_timeout,
                default=default,
                const_default=item.const_default,
            )
            table.const_entries = item.const_entries
            if shared is not None:
                shared.tables.append(table)
            self.tables[item.name] = table
        self._insert_const_entries()

    def _insert_const_entries(self) -> None:
        for item in (*self.program.ingress.tables, *self.program.egress.tables):
            table = self.tables[item.name]
            for entry in item.entries:
                copy = Entry(entry.match, entry.target, entry.priority, is_const=True)
                try:
                    table.insert_const(copy)
                except TableError as error:
                    raise UnsupportedProgram(f"const entry: {error}") from error

    def _fail_assert(self, where: str) -> None:
        if where not in self.failed_asserts:
            log.error("assertion failed, packet dropped: %s", where)
        self.failed_asserts[where] = self.failed_asserts.get(where, 0) + 1


def _signature(action: ir.Action) -> ActionSignature:
    return ActionSignature(action.name, action.params)


def _digest_info(item: ir.DigestDef) -> DigestInfo:
    fields = []
    for index, element in enumerate(item.elements):
        if isinstance(element, ir.FieldLike):
            fields.append((element.field.name, element.field.bitwidth))
        else:
            fields.append((f"field{index}", 0))
    return DigestInfo(item.name, tuple(fields))
