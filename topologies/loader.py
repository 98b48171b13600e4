"""Topology files → `Fabric`, with errors that name file, line, field and value."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ruamel.yaml.comments import CommentedMap

from topologies.documents import DocumentError, at, find_file, parse_yaml, read_text, validate
from topologies.model import Fabric, GrpcSettings, LinkOverride, LoadBalancing, TopologyError
from topologies.schema import TopologyFile

WHAT_A_TOPOLOGY_IS = "a topology is a list of fields, as 'planes: 2'"


class TopologyFileError(DocumentError):
    """A topology file that cannot be used. `problems` has one line for each thing wrong."""


@contextmanager
def _as_topology_error() -> Iterator[None]:
    try:
        yield
    except TopologyFileError:
        raise
    except DocumentError as error:
        raise TopologyFileError(error.problems) from None


def load_topology(path: str | Path) -> Fabric:
    """The fabric that a file describes.

    Raises TopologyFileError with everything that is wrong with it.
    """
    path = Path(path)
    with _as_topology_error():
        text = read_text(path)
    return parse_topology(text, str(path), default_name=path.stem)


def parse_topology(text: str, source: str, *, default_name: str = "fabric") -> Fabric:
    """The fabric that a file's text describes; `source` names it in errors.

    Raises TopologyFileError with everything that is wrong with it.
    """
    with _as_topology_error():
        document = parse_yaml(text, source, what=WHAT_A_TOPOLOGY_IS)
        file = validate(TopologyFile, source, document)
    return fabric_of(file, source, document, default_name)


def fabric_of(file: TopologyFile, source: str, document: CommentedMap, default_name: str) -> Fabric:
    """The fabric of a file that its schema found right. Raises TopologyFileError."""
    try:
        fabric = Fabric(
            name=file.name or default_name,
            planes=file.planes,
            t0_per_plane=file.t0_per_plane,
            t1_per_plane=file.t1_per_plane,
            hosts_per_t0=file.hosts_per_t0,
            addresses=file.addressing.plan(),
            host_link=file.links.host.settings(),
            fabric_link=file.links.fabric.settings(),
            host_queue=file.queues.host.settings(),
            fabric_queue=file.queues.fabric.settings(),
            pfc=file.queues.pfc.settings() if file.queues.pfc else None,
            trim=file.trimming.settings(),
            load_balancing=LoadBalancing(file.load_balancing),
            traffic=file.dscp.classes(),
            path_mtu_bytes=file.quantity("path_mtu") or 0,
            udp_port=file.udp_port,
            grpc=GrpcSettings(file.grpc.host, file.grpc.base_port),
        )
    except TopologyError as error:
        raise TopologyFileError([at(source, document, (), str(error))]) from None
    overrides = _link_overrides(file, fabric, source, document)
    try:
        return replace(fabric, link_overrides=overrides) if overrides else fabric
    except TopologyError as error:
        raise TopologyFileError([at(source, document, ("links",), str(error))]) from None


def _link_overrides(
    file: TopologyFile, fabric: Fabric, source: str, document: CommentedMap
) -> dict[str, LinkOverride]:
    overrides: dict[str, LinkOverride] = {}
    problems = []
    for number, section in enumerate(file.links.overrides):
        location = ("links", "overrides", number, "between")
        try:
            name = fabric.link(*section.between).name
        except TopologyError as error:
            problems.append(at(source, document, location, str(error)))
            continue
        if name in overrides:
            problems.append(at(source, document, location, f"{name} is overridden twice"))
        overrides[name] = section.override()
    if problems:
        raise TopologyFileError(problems)
    return overrides


def ready_topologies() -> dict[str, Path]:
    """The topology files that come with the repository, by name."""
    return {path.stem: path for path in sorted(Path(__file__).parent.glob("*.yaml"))}


def find_topology(name_or_path: str) -> Path:
    """The file meant: a path, or the name of a ready topology.

    Raises TopologyFileError where there is neither.
    """
    with _as_topology_error():
        return find_file(name_or_path, ready_topologies(), "topology")
