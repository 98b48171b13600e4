"""The tables of one T0 of a topology, laid into a pipeline and into the hand-written switch."""

import random
from pathlib import Path

from benchmarks.handwritten import CONTROL, NO_TRIM, TRIMMABLE, HandwrittenFabric
from controller.entries import ActionCall, TableEntry
from controller.plan import SwitchPlan
from sim.tables import planned_pipeline
from softswitch.pipeline import Pipeline
from topologies.loader import load_topology
from topologies.model import Fabric

TOPOLOGY = Path(__file__).resolve().parent.parent / "topologies" / "eight-plane.yaml"
TRAFFIC_CLASSES = {"set_control": CONTROL, "set_trimmable": TRIMMABLE, "set_no_trim": NO_TRIM}


def fabric() -> Fabric:
    """The fabric whose switch is measured."""
    return load_topology(TOPOLOGY)


def compiled_switch(topology: Fabric, switch: str, seed: int = 1) -> Pipeline:
    """fabric.p4 compiled, with the tables of `switch`."""
    return planned_pipeline(topology, switch, seed=seed)


def handwritten_switch(topology: Fabric, switch: str, seed: int = 1) -> HandwrittenFabric:
    """The hand-written switch with the same tables."""
    by_table: dict[str, list[tuple[int, ActionCall]]] = {}
    for entity in SwitchPlan(topology, topology.switch(switch)).entities():
        if isinstance(entity, TableEntry) and isinstance(entity.target, ActionCall):
            (key,) = entity.match
            assert isinstance(key, int)
            name = entity.table.rpartition(".")[2]
            by_table.setdefault(name, []).append((key, entity.target))
    return HandwrittenFabric(
        my_sids={key.to_bytes(6, "big") for key, _ in by_table["my_sid"]},
        next_sids={key.to_bytes(6, "big"): call.args[0] for key, call in by_table["next_sid"]},
        traffic_classes={
            key: TRAFFIC_CLASSES[call.action.rpartition(".")[2]]
            for key, call in by_table["traffic_class"]
        },
        port_queues={
            key: (call.args[0], call.args[1], call.args[2]) for key, call in by_table["port_queue"]
        },
        trim_sizes={key: call.args[0] for key, call in by_table["trim_size"]},
        ecn_marking={
            key: (call.args[0], call.args[1], call.args[2])
            for key, call in by_table.get("ecn_marking", [])
        },
        neighbors={
            key: call.args[1].to_bytes(6, "big") + call.args[0].to_bytes(6, "big")
            for key, call in by_table["neighbor"]
        },
        random=random.Random(seed),
    )
