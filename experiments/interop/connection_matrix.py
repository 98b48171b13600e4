"""htsim's connection matrices (`.cm`): who sends how much to whom, and when.

    Nodes 32
    Connections 2
    19->0 id 1 start 0 size 2000000
    1->25 id 2 start 500000 size 2000000

Starts are in picoseconds (taken to the nanosecond before), sizes in bytes, nodes are numbered from
0. Connections that wait for others (`trigger`) cannot be told in a scenario, and are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from experiments.interop.lines import FormatError, Numbers, integer, problem, read, words_of
from topologies.model import Fabric
from topologies.scenario import Flow

_PS_PER_NS: Final = 1000
_UNTOLD: Final = ("Triggers", "Failures")
_HEADER: Final = ("Nodes", "Connections", *_UNTOLD)
_TRIGGERS: Final = ("trigger", "send_done_trigger", "recv_done_trigger")

__all__ = ["Connection", "ConnectionMatrix", "FormatError", "flows_of", "load", "parse"]


@dataclass(frozen=True, slots=True)
class Connection:
    """`size_bytes` from one node to another at `start_ns`."""

    source: int
    destination: int
    size_bytes: int
    start_ns: int = 0


@dataclass(frozen=True, slots=True)
class ConnectionMatrix:
    """All connections among `nodes` nodes."""

    nodes: int
    connections: tuple[Connection, ...]

    def text(self) -> str:
        """As htsim reads it."""
        lines = [f"Nodes {self.nodes}", f"Connections {len(self.connections)}"]
        lines += [
            f"{each.source}->{each.destination} id {number} start {each.start_ns * _PS_PER_NS} "
            f"size {each.size_bytes}"
            for number, each in enumerate(self.connections, 1)
        ]
        return "\n".join(lines) + "\n"


def load(path: str | Path) -> ConnectionMatrix:
    """The matrix of a file. Raises FormatError."""
    return parse(read(path), str(path))


def parse(text: str, source: str) -> ConnectionMatrix:
    """The matrix of a file's text; `source` names it in errors. Raises FormatError."""
    header = Numbers(source)
    connections = []
    #: The line of each connection that has an id
    line_of_id: dict[int, int] = {}
    line = 1
    for line, words in words_of(text):
        if words[0] in _HEADER:
            header.read(line, words[0], words[1:], 1 if words[0] == "Nodes" else 0)
            if words[0] in _UNTOLD and header[words[0].lower()]:
                raise problem(source, line, f"{words[0]}: cannot be told in a scenario")
        elif "->" in words[0]:
            if "nodes" not in header:
                raise problem(source, line, "Nodes must stand before the first connection")
            connections.append(_connection(source, line, words, header["nodes"], line_of_id))
        elif words[0] in ("trigger", "failure"):
            raise problem(source, line, f"{words[0]}: cannot be told in a scenario")
        else:
            raise problem(
                source,
                line,
                f"{words[0]!r}: is neither a connection (3->7) nor one of {', '.join(_HEADER)}",
            )
    if "nodes" not in header:
        raise problem(source, line, "Nodes is missing")
    told = header.get("connections", len(connections))
    if told != len(connections):
        raise header.problem(
            "connections",
            f"Connections: says {told}, but there are {len(connections)}",
        )
    return ConnectionMatrix(header["nodes"], tuple(connections))


def _connection(
    source: str, line: int, words: list[str], nodes: int, line_of_id: dict[int, int]
) -> Connection:
    ends = [
        integer(source, line, name, [part])
        for name, part in zip(("sender", "receiver"), words[0].split("->", 1), strict=True)
    ]
    for end in ends:
        if end >= nodes:
            raise problem(source, line, f"{words[0]}: there are nodes 0 to {nodes - 1}")
    if ends[0] == ends[1]:
        raise problem(source, line, f"{words[0]}: a node does not send to itself")
    values = Numbers(source, line)
    for name, value in zip(words[1::2], [*words[2::2], None], strict=False):
        if name in _TRIGGERS:
            raise problem(
                source, line, f"{name}: connections that wait cannot be told in a scenario"
            )
        if name not in ("id", "start", "size"):
            raise problem(source, line, f"{name}: is none of id, start, size")
        least = 0 if name == "start" else 1
        values.read(line, name, [] if value is None else [value], least)
    for name in ("start", "size"):
        if name not in values:
            raise problem(source, line, f"{words[0]}: {name} is missing")
    if "id" in values:
        first = line_of_id.setdefault(values["id"], line)
        if first != line:
            raise problem(source, line, f"id: {values['id']} is that of line {first} already")
    return Connection(ends[0], ends[1], values["size"], values["start"] // _PS_PER_NS)


def flows_of(
    matrix: ConnectionMatrix, fabric: Fabric, *, group: str = "connections"
) -> tuple[Flow, ...]:
    """A flow for each connection; node number i is host hi. Raises FormatError."""
    if matrix.nodes > fabric.host_count:
        raise FormatError(
            [
                f"{group}: {matrix.nodes} nodes are more than the {fabric.host_count} hosts "
                f"of {fabric.name}"
            ]
        )
    return tuple(
        Flow(
            name=f"{group}-{number}-h{each.source}-h{each.destination}",
            group=group,
            source=f"h{each.source}",
            destination=f"h{each.destination}",
            size_bytes=each.size_bytes,
            start_ns=each.start_ns,
            depth=1,
        )
        for number, each in enumerate(matrix.connections, 1)
    )


def permutation(order: Sequence[int], size_bytes: int) -> ConnectionMatrix:
    """Node i sends to node `order[i]`."""
    return ConnectionMatrix(
        len(order),
        tuple(Connection(node, other, size_bytes) for node, other in enumerate(order)),
    )


def incast(nodes: int, senders: Sequence[int], receiver: int, size_bytes: int) -> ConnectionMatrix:
    """All senders to one node at once."""
    return ConnectionMatrix(
        nodes, tuple(Connection(sender, receiver, size_bytes) for sender in senders)
    )


def all_to_all(nodes: int, size_bytes: int) -> ConnectionMatrix:
    """Every node to every other at once, from its neighbour on."""
    return ConnectionMatrix(
        nodes,
        tuple(
            Connection(node, (node + step) % nodes, size_bytes)
            for node in range(nodes)
            for step in range(1, nodes)
        ),
    )
