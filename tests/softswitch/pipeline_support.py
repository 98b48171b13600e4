"""A pipeline on the bench: its requests carried out at once, without queues."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from softswitch.pipeline import Again, Clone, Digest, Pipeline
from softswitch.program import load_program
from softswitch.tables import ActionCall, Entry, Match, MatchValue, Table

PROGRAMS = Path(__file__).parent / "programs"

Sent = list[tuple[int, bytes]]


@dataclass
class Bench:
    """A pipeline, with clone sessions and multicast groups as plain dictionaries."""

    pipeline: Pipeline
    sessions: dict[int, list[int]] = field(default_factory=dict)
    groups: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    digests: list[Digest] = field(default_factory=list)
    now_ns: int = 0
    wait_ns: int = 0

    def send(self, frame: bytes, port: int = 1) -> Sent:
        """What comes out, in order, for one frame in."""
        sent: Sent = []
        self._ingress(sent, frame, port, None)
        return sent

    def send_one(self, frame: bytes, port: int = 1) -> bytes:
        """The one frame that comes out of port 2."""
        sent = self.send(frame, port)
        assert [out for out, _ in sent] == [2], sent
        return sent[0][1]

    def table(self, name: str) -> Table:
        """A table by the last part of its name."""
        found = [t for n, t in self.pipeline.tables.items() if n.rpartition(".")[2] == name]
        assert len(found) == 1, f"{name}: {list(self.pipeline.tables)}"
        return found[0]

    def add(self, table: str, *match: MatchValue, call: ActionCall, priority: int = 0) -> Entry:
        """Insert an entry; the action may be named by its last part."""
        where = self.table(table)
        entry = Entry(Match(match), self.call(table, call), priority)
        where.insert(entry)
        return entry

    def call(self, table: str, call: ActionCall) -> ActionCall:
        """The call with the action's full name."""
        names = self.table(table).action_names
        full = [name for name in names if name.rpartition(".")[2] == call.action]
        return ActionCall(full[0], call.args)

    def _ingress(self, sent: Sent, frame: bytes, port: int, again: Again | None) -> None:
        pipeline = self.pipeline
        result = pipeline.ingress(frame, port, self.now_ns, again)
        if result is None:
            return
        out, _priority, group, _length, state, requests = result
        if requests is not None:
            if requests.clone is not None:
                self._clone(sent, requests.clone)
            if requests.digest is not None:
                self.digests.append(requests.digest)
            if requests.resubmit is not None:
                resubmit = requests.resubmit
                self._ingress(sent, resubmit.frame, resubmit.port, resubmit)
                return
        if group:
            for member, rid in self.groups.get(group, ()):
                self._egress(sent, state, member, rid)
        elif out != pipeline.drop_port:
            self._egress(sent, state, out, 0)

    def _clone(self, sent: Sent, clone: Clone) -> None:
        for port in self.sessions.get(clone.session_id, ()):
            self._egress(sent, clone.state, port, 0)

    def _egress(self, sent: Sent, state: tuple[object, ...], port: int, rid: int) -> None:
        leaves_ns = self.now_ns + self.wait_ns
        result = self.pipeline.egress(state, port, leaves_ns, rid, self.now_ns, 3, 4, 1)
        if result is None:
            return
        if isinstance(result, bytes):
            sent.append((port, result))
            return
        if result.clone is not None:
            self._clone(sent, result.clone)
        if result.recirculate is not None:
            again = result.recirculate
            self._ingress(sent, again.frame, again.port, again)
        elif result.frame is not None:
            sent.append((port, result.frame))


def bench(name: str, *, seed: int = 0) -> Bench:
    """A fresh pipeline of one of the test programs."""
    program = load_program((PROGRAMS / f"{name}.json").read_text())
    return Bench(Pipeline(program, seed=seed))
