"""htsim's formats: what they say, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.interop import connection_matrix, leaf_spine
from experiments.interop.connection_matrix import Connection, flows_of
from experiments.interop.lines import FormatError
from topologies.timing import full_frame_bytes

_MATRIX = """# two flows
Nodes 8
Connections 2

3->0 id 1 start 0 size 2000000
0->7 start 1500000 size 4096
"""

_TOPOLOGY = """# comment
Nodes 8
Tiers 2
Podsize 8

Tier 0
Downlink_speed_Gbps 100
Radix_Down 4
Radix_Up 2
Oversubscribed 2
Downlink_Latency_ns 1000
Switch_Latency_ns 0

Tier 1
Downlink_speed_Gbps 400
Radix_Down 2
Downlink_Latency_ns 500
"""


def test_a_matrix_is_flows() -> None:
    matrix = connection_matrix.parse(_MATRIX, "two.cm")
    # Starts are in picoseconds
    assert matrix.connections == (Connection(3, 0, 2_000_000), Connection(0, 7, 4096, 1500))
    fabric = leaf_spine.parse(_TOPOLOGY, "small.topo").fabric("small")
    flows = flows_of(matrix, fabric)
    assert [(flow.source, flow.destination, flow.start_ns) for flow in flows] == [
        ("h3", "h0", 0),
        ("h0", "h7", 1500),
    ]
    assert len({flow.name for flow in flows}) == 2


def test_a_matrix_of_ours_is_read_again() -> None:
    matrix = connection_matrix.all_to_all(4, 1000)
    assert connection_matrix.parse(matrix.text(), "ours.cm") == matrix
    assert len(matrix.connections) == 12


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("3->0 id 1", "3->8 id 1", "m.cm:5: 3->8: there are nodes 0 to 7"),
        ("3->0 id 1", "0->0 id 1", "m.cm:5: 0->0: a node does not send to itself"),
        ("size 4096", "size -1", "m.cm:6: size: -1 is too small: it must be at least 1"),
        ("size 4096", "size", "m.cm:6: size: is without its value"),
        ("size 4096", "", "m.cm:6: 0->7: size is missing"),
        ("Connections 2", "Connections 3", "m.cm:3: Connections: says 3, but there are 2"),
        ("Nodes 8\n", "", "m.cm:4: Nodes must stand before the first connection"),
        ("start 0", "trigger 1", "m.cm:5: trigger: connections that wait cannot be told"),
        ("start 0", "begin 0", "m.cm:5: begin: is none of id, start, size"),
        ("start 0", "start now", "m.cm:5: start: 'now' is not an integer"),
        ("0->7", "0-7", "m.cm:6: '0-7': is neither a connection"),
        ("Connections 2", "Nodes 9", "m.cm:3: Nodes: is there twice, first in line 2"),
        ("\n\n", "\nConnections 2\n", "m.cm:4: Connections: is there twice, first in line 3"),
        ("Nodes 8", "Nodes 8 9", "m.cm:2: Nodes: 8 9: has one value only"),
        ("Nodes 8", "Nodes 0", "m.cm:2: Nodes: 0 is too small: it must be at least 1"),
        ("Nodes 8", "Nodes 1_0", "m.cm:2: Nodes: '1_0' is not an integer"),
        ("\n\n", "\nTriggers 1\n", "m.cm:4: Triggers: cannot be told in a scenario"),
        ("\n\n", "\nFailures 1\n", "m.cm:4: Failures: cannot be told in a scenario"),
        ("size 4096", "size 4096 size 1", "m.cm:6: size: is there twice"),
        ("0->7", "0->7 start 5", "m.cm:6: start: is there twice"),
        ("0->7", "0->7 id 1", "m.cm:6: id: 1 is that of line 5 already"),
        ("id 1", "id 0", "m.cm:5: id: 0 is too small: it must be at least 1"),
    ],
)
def test_what_is_wrong_with_a_matrix(old: str, new: str, message: str) -> None:
    with pytest.raises(FormatError) as caught:
        connection_matrix.parse(_MATRIX.replace(old, new, 1), "m.cm")
    ((problem),) = caught.value.problems
    assert problem.startswith(message)


def test_more_nodes_than_hosts() -> None:
    fabric = leaf_spine.parse(_TOPOLOGY, "small.topo").fabric("small")
    with pytest.raises(FormatError, match="9 nodes are more than the 8 hosts of small"):
        flows_of(connection_matrix.all_to_all(9, 1), fabric)


def test_a_topology_is_a_fabric() -> None:
    shape = leaf_spine.parse(_TOPOLOGY, "small.topo")
    fabric = shape.fabric("small")
    assert (fabric.planes, fabric.t0_per_plane, fabric.t1_per_plane) == (1, 2, 2)
    assert fabric.hosts_per_t0 == 4
    assert (fabric.host_link.rate_bps, fabric.host_link.delay_ns) == (100 * 10**9, 1000)
    assert (fabric.fabric_link.rate_bps, fabric.fabric_link.delay_ns) == (400 * 10**9, 500)
    packet = full_frame_bytes(fabric)
    assert fabric.fabric_queue.data_limit_bytes == 100 * packet
    assert fabric.fabric_queue.ecn is not None
    assert fabric.fabric_queue.ecn.min_bytes == 25 * packet
    assert leaf_spine.parse(shape.text(), "ours.topo") == shape


def test_a_topology_of_more_uplinks_than_hosts_is_read_again() -> None:
    shape = leaf_spine.LeafSpine(4, 2, 4, 10**11, 10**11, 500, 500)
    assert leaf_spine.parse(shape.text(), "ours.topo") == shape


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Tiers 2", "Tiers 3", "t.topo:3: Tiers: 3: only two make a leaf-spine fabric"),
        ("Nodes 8", "Nodes 9", "t.topo:2: Nodes: 9 are not 2 leaves"),
        ("Oversubscribed 2", "Oversubscribed 4", "t.topo:10: Tier 0: Oversubscribed 4"),
        ("Switch_Latency_ns 0", "Switch_Latency_ns 5", "t.topo:12: Tier 0: switch_latency_ns 5"),
        ("Radix_Up 2\n", "", "t.topo:6: Tier 0: radix_up is missing"),
        ("Radix_Up 2", "Radius_Up 2", "t.topo:9: Radius_Up: is none of"),
        ("Radix_Up 2", "Radix_Up two", "t.topo:9: Radix_Up: 'two' is not an integer"),
        ("Radix_Up 2", "Radix_Down 2", "t.topo:9: Radix_Down: is there twice, first in line 8"),
        ("Podsize 8", "NODES 8", "t.topo:4: NODES: is there twice, first in line 2"),
        ("Podsize 8", "Podsize 4", "t.topo:4: Podsize: 4: of two tiers all 8 nodes are one pod"),
        ("Tier 1", "Tier 0", "t.topo:14: Tier 0: is there twice, first in line 6"),
        ("Tier 1", "Tier 2", "t.topo:17: Tier 1 is missing"),
        ("Radix_Down 2\n", "Radix_Down 2\nTier 2\n", "t.topo:14: Tier 1: downlink_latency_ns is"),
        ("_ns 500\n", "_ns 500\nTier 2\n", "t.topo:18: Tier 2: of two there are tiers 0 and 1"),
        ("_ns 500\n", "_ns 500\nRadix_Up 4\n", "t.topo:18: Tier 1: radix_up: it has no uplinks"),
        ("_ns 500\n", "_ns 500\nOversubscribed 2\n", "t.topo:18: Tier 1: oversubscribed 2: only 1"),
        ("_ns 500\n", "_ns 500\nQueue_Down 9\n", "t.topo:18: Queue_Down: queues are not read"),
        ("_ns 500\n", "_ns 500\nBundle 2\n", "t.topo:18: Tier 1: bundle 2: only 1 can be"),
        ("Gbps 400", "Gbps 0", "t.topo:15: Downlink_speed_Gbps: 0 is too small"),
        ("_ns 500", "_ns -500", "t.topo:17: Downlink_Latency_ns: -500 is too small"),
        ("_ns 500", "_ns 500 600", "t.topo:17: Downlink_Latency_ns: 500 600: has one value only"),
    ],
)
def test_what_is_wrong_with_a_topology(old: str, new: str, message: str) -> None:
    with pytest.raises(FormatError) as caught:
        leaf_spine.parse(_TOPOLOGY.replace(old, new, 1), "t.topo")
    ((problem),) = caught.value.problems
    assert problem.startswith(message)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"none\.cm: "):
        connection_matrix.load(tmp_path / "none.cm")
