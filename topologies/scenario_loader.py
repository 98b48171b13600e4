"""Scenario files → `Scenario`, with errors that name file, line, field and value.

What becomes of each section stands in `topologies.scenario_sections`, in the module of its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from topologies.documents import DocumentError, find_file, parse_yaml, read_text
from topologies.model import LoadBalancing
from topologies.scenario import Scenario
from topologies.scenario_sections.document import ScenarioDocument, ScenarioFileError
from topologies.scenario_sections.endpoint import endpoint_in
from topologies.scenario_sections.expect import expectations_in
from topologies.scenario_sections.faults import faults_in
from topologies.scenario_sections.resolver import Resolver
from topologies.scenario_sections.topology import fabric_in
from topologies.scenario_sections.traffic import traffic_in
from topologies.timing import sample_interval_ns

SCENARIO_DIRECTORY: Final = Path(__file__).parent / "scenarios"
WHAT_A_SCENARIO_IS: Final = "a scenario is a list of fields, as 'topology: two-plane'"

__all__ = [
    "ScenarioFileError",
    "find_scenario",
    "load_scenario",
    "parse_scenario",
    "ready_scenarios",
]


def ready_scenarios() -> dict[str, Path]:
    """The scenario files that come with the repository, by name."""
    return {path.stem: path for path in sorted(SCENARIO_DIRECTORY.glob("*.yaml"))}


def find_scenario(name_or_path: str) -> Path:
    """The file meant: a path, or the name of a ready scenario.

    Raises ScenarioFileError where there is neither.
    """
    try:
        return find_file(name_or_path, ready_scenarios(), "scenario")
    except DocumentError as error:
        raise ScenarioFileError(error.problems) from None


def load_scenario(
    path: str | Path,
    *,
    changes: Sequence[str] = (),
    seed: int | None = None,
    topology: Path | None = None,
) -> Scenario:
    """The scenario that a file describes.

    Args:
        path: of the file.
        changes: `key=value` each: a field by its place (`traffic[0].transfer.size`) and what it
            is to be, as YAML.
        seed: in place of the file's.
        topology: a topology file in place of the one that the scenario names. Where the scenario
            changes fields of the one it names, it changes those of this one.

    Raises ScenarioFileError with everything that is wrong with it.
    """
    path = Path(path)
    try:
        text = read_text(path)
    except DocumentError as error:
        raise ScenarioFileError(error.problems) from None
    return parse_scenario(
        text,
        str(path),
        default_name=path.stem,
        directory=path.parent,
        changes=changes,
        seed=seed,
        topology=topology,
    )


def parse_scenario(
    text: str,
    source: str,
    *,
    default_name: str = "scenario",
    directory: Path | None = None,
    changes: Sequence[str] = (),
    seed: int | None = None,
    topology: Path | None = None,
) -> Scenario:
    """The scenario that a file's text describes; `source` names it in errors.

    `directory` is where paths of topologies start; the rest is as in `load_scenario`.
    Raises ScenarioFileError with everything that is wrong with it.
    """
    try:
        yaml = parse_yaml(text, source, what=WHAT_A_SCENARIO_IS)
        document = ScenarioDocument(source, yaml, directory or Path())
        if topology is not None:
            document.replace_topology(topology)
        for change in changes:
            document.change(change)
        return _resolved(document, default_name, seed)
    except ScenarioFileError:
        raise
    except DocumentError as error:
        raise ScenarioFileError(error.problems) from None


def _resolved(document: ScenarioDocument, default_name: str, seed: int | None) -> Scenario:
    file = document.validate()
    fabric = fabric_in(file.topology, document, default_name)
    if file.endpoint.effective_forwarding == "spray":
        fabric = replace(fabric, load_balancing=LoadBalancing.PACKET)
    if seed is None:
        seed = file.seed
    resolver = Resolver(document, fabric)
    flows, collectives = traffic_in(file, resolver, seed)
    faults = faults_in(file, resolver)
    expect = expectations_in(
        file.expect,
        resolver,
        flows=[flow.name for flow in flows],
        collectives=[collective.name for collective in collectives],
        faults=[fault.name for fault in faults],
    )
    if resolver.problems:
        raise ScenarioFileError(resolver.problems)
    return Scenario(
        name=file.name or default_name,
        fabric=fabric,
        flows=flows,
        collectives=collectives,
        description=file.description,
        seed=seed,
        faults=faults,
        endpoint=endpoint_in(file.endpoint, document),
        duration_ns=file.duration,
        stop_with_traffic=file.stop == "traffic",
        interval_ns=file.measure.interval or sample_interval_ns(fabric),
        convergence_ns=file.routing.convergence,
        expect=expect,
    )
