"""The far end of a flow: memory that is written to, and every byte of it compared.

Both ends make the same contents from the flow's seed, so that a check needs a message's number and
not its bytes. The asking end tells which messages are complete; until it has the answer, it writes
nothing new to their slots. Slots that no message is under way to are compared at the end.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from host.agent.errors import UsageError
from host.agent.jsonlines import Fields
from host.agent.sampling import Account, placed_bytes, responders
from host.agent.service import Service
from host.agent.workspace import Connection, Workspace
from host.memory_check import GUARD_BYTES, Pattern, Slots
from host.qp.stats import sums
from host.verbs import Mr, QpInfo, WcOpcode, WcStatus, WorkCompletion

#: Of all queue pairs of one flow, at each end
MAX_FLOW_BYTES: Final = 1 << 30
MAX_DEPTH: Final = 1 << 12
MAX_QPS: Final = 1 << 10
MAX_SEED: Final = (1 << 64) - 1


class _Channel:
    """The receiving end of one queue pair of the flow."""

    def __init__(
        self, target: FlowTarget, first: int, part: range, connection: Connection, slots: int
    ) -> None:
        self.target = target
        self.connection = connection
        self.slots = Slots(len(part), slots)
        self._first = first
        self._part = slice(part.start, part.stop)
        self.mr: Mr = target.workspace.pd.reg_mr(self.slots.buffer)
        self.immediates = 0

    def contents(self, number: int) -> memoryview:
        """What message `number` of this queue pair has in it."""
        return self.target.pattern.message(self._first + number)[self._part]

    def arrived(self, completions: list[WorkCompletion]) -> None:
        """WriteIMM: in order of posting, each once."""
        problems = self.target.problems
        for completion in completions:
            if (
                completion.status is not WcStatus.SUCCESS
                or completion.opcode is not WcOpcode.RECV_RDMA_WITH_IMM
            ):
                continue
            if completion.imm != self.immediates & 0xFFFFFFFF:
                problems["immediates out of order"] += 1
            if completion.byte_len != self.slots.size_bytes:
                problems["immediates with a wrong length"] += 1
            self.immediates += 1
            self.connection.qp.post_recv(completion.wr_id)


class FlowTarget(Service):
    """Lets the asking end write a flow's messages, and checks them.

    Each queue pair has a region of its own, in their order, for its part of each message. Contents
    of message n of queue pair i are those of number i * `apart` + n.
    """

    name = "flow"
    receives: ClassVar[int] = 1024

    def __init__(self, workspace: Workspace, arguments: Fields, remotes: Sequence[QpInfo]) -> None:
        super().__init__(workspace, arguments, remotes)
        name = arguments.text("name")
        size_bytes = arguments.integer("size", 1, MAX_FLOW_BYTES)
        slots = arguments.integer("slots", 1, 2 * MAX_DEPTH)
        seed = arguments.integer("seed", 0, MAX_SEED)
        apart = arguments.integer("apart", 0)
        parts = [_part(each, size_bytes) for each in arguments.items("parts")]
        if len(parts) != len(remotes):
            raise UsageError(f"parts: {len(parts)} do not fit: there are {len(remotes)} QPs")
        self._immediate = arguments.flag("immediate")
        needed = sum(slots * (len(part) + GUARD_BYTES) for part in parts)
        if needed > MAX_FLOW_BYTES:
            raise UsageError(
                f"size: {len(parts)} QPs with {slots} messages of {size_bytes} bytes do not "
                f"fit: a flow has at most {MAX_FLOW_BYTES} bytes of memory"
            )
        workspace.reserve(needed + size_bytes)
        self.pattern = Pattern(random.Random(seed), size_bytes)
        self.problems: Counter[str] = Counter()
        self._channels = [
            _Channel(self, index * apart, part, connection, slots)
            for index, (part, connection) in enumerate(zip(parts, self.connections, strict=True))
        ]
        # Not with every queue pair's attributes: the regions of all would be told with each
        self.result = {"regions": [channel.mr.info.to_json() for channel in self._channels]}
        self._account = Account(name, delivered_bytes=lambda: placed_bytes(self._responders()))

    def _responders(self) -> list[Any]:
        return responders(connection.qp for connection in self.connections)

    def connected(self) -> None:
        """See `Service.connected`."""
        if self._immediate:
            super().connected()
            for channel in self._channels:
                channel.connection.on_completions = channel.arrived
        self.workspace.agent.accounts.add(self._account)

    async def handle(self, request: str, fields: Fields) -> Mapping[str, Any]:
        """`check` of messages that are complete; `finish`: what there is to tell at the end."""
        if request == "check":
            messages = [self._message(each) for each in fields.items("messages")]
            fields.end()
            wrong = 0
            for channel, number in messages:
                wrong += await self._check(channel, number)
            return {"wrong_bytes": wrong}
        if request == "finish":
            in_use = [_slots_in_use(each) for each in fields.items("in_use")]
            fields.end()
            wrong = 0
            for channel, used in zip(self._channels, in_use, strict=False):
                if used is not None:
                    wrong += await _written_bytes(channel.slots, used)
            halves = self._responders()
            return {
                "wrong_bytes": wrong,
                "immediates": [channel.immediates for channel in self._channels],
                "delivered_bytes": placed_bytes(halves),
                "problems": dict(self.problems),
                "receiving": sums(halves),
            }
        return await super().handle(request, fields)

    def _message(self, told: object) -> tuple[_Channel, int]:
        """Of what the asking end tells: a queue pair's index and the number of its message."""
        match told:
            case [int(index), int(number)] if 0 <= index < len(self._channels) and number >= 0:
                return self._channels[index], number
        raise UsageError(f"messages: {told!r} does not fit: it must be [queue pair, number]")

    async def _check(self, channel: _Channel, number: int) -> int:
        """Compare a message with what it must be, and make its slot ready for the next one."""
        slot = number % channel.slots.count
        wrong = 0
        for each in channel.slots.wrong_by_chunk(slot, channel.contents(number)):
            wrong += each
            await asyncio.sleep(0)
        channel.slots.clear(slot)
        return wrong

    def close(self) -> None:
        """See `Service.close`."""
        self.workspace.agent.accounts.discard(self._account)


def _part(told: object, size_bytes: int) -> range:
    """Of what the asking end tells: the bytes of each message that a queue pair has."""
    match told:
        case [int(start), int(end)] if 0 <= start < end <= size_bytes:
            return range(start, end)
    raise UsageError(f"parts: {told!r} does not fit: it must be [first byte, end] of {size_bytes}")


def _slots_in_use(told: object) -> set[int] | None:
    """Of one queue pair; None: it has failed, and nobody knows what is still written where."""
    if told is None:
        return None
    if isinstance(told, list) and all(isinstance(each, int) for each in told):
        return {*told}
    raise UsageError(f"in_use: {told!r} does not fit: it must be a list of slots, or null")


async def _written_bytes(slots: Slots, in_use: set[int]) -> int:
    """Bytes that were written to in slots that are not in use."""
    wrong = 0
    for slot in range(slots.count):
        if slot not in in_use:
            wrong += slots.written_bytes(slot)
            await asyncio.sleep(0)
    return wrong
