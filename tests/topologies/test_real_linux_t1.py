"""A Linux router (`seg6local … next-csid`) in the place of a T1: MRC runs over it unchanged."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tests.topologies.live_runner import LiveRunner, live_runner
from tests.topologies.runner_command import REPOSITORY
from topologies.addressing import ipv6_text, mac_text
from topologies.loader import load_topology
from topologies.model import Fabric, Switch

pytestmark = pytest.mark.netns

TOPOLOGY = REPOSITORY / "topologies" / "two-plane.yaml"
LINUX_T1 = "p0-t1-0"
SETTINGS = {
    "addr_gen_mode": 1,  # no address: with none, the kernel sends nothing of its own but reports
    "accept_dad": 0,
    "router_solicitations": 0,
    "seg6_enabled": 1,
    "forwarding": 1,
    "disable_ipv6": 0,
}
MESSAGE_BYTES = 1 << 19


def router_commands(fabric: Fabric, switch: Switch) -> Iterator[str]:
    """Shell commands that make a namespace the router that the controller's plan makes a T1.

    Interfaces have the plan's names and MAC addresses already. A neighbour's address is never on
    the wire: it stands between a route and a MAC address.
    """
    plan = fabric.addresses
    ports = list(fabric.ports(switch.id))
    for port in ports:
        for setting, value in SETTINGS.items():
            yield f"echo {value} > /proc/sys/net/ipv6/conf/port{port.number}/{setting}"
        yield f"ip link set port{port.number} up"
    for setting in ("seg6_enabled", "forwarding"):
        yield f"echo 1 > /proc/sys/net/ipv6/conf/all/{setting}"
    for port in ports:
        gateway, device = f"2001:db8::{port.number:x}", f"dev port{port.number}"
        yield f"ip -6 route add {gateway} {device}"
        yield f"ip -6 neigh replace {gateway} lladdr {mac_text(port.peer_mac)} {device}"
        sid = ipv6_text(plan.sid(port.next_usid) << 80)
        yield f"ip -6 route add {sid}/48 via {gateway} {device}"
        prefix, bits = plan.t0_prefix(port.number)
        yield f"ip -6 route add {ipv6_text(prefix)}/{bits} via {gateway} {device}"
    own = ipv6_text(plan.sid(switch.id.usid) << 80)
    action = "seg6local action End flavors next-csid lblen 32 nflen 16"
    yield f"ip -6 route add {own}/48 encap {action} dev port0"


@pytest.fixture
def runner() -> Iterator[LiveRunner]:
    if shutil.which("ip") is None:
        pytest.skip("ip is not installed (make setup installs iproute2)")
    with live_runner() as made:
        made.topology = TOPOLOGY
        yield made


def replace_by_linux(runner: LiveRunner, switch: str) -> None:
    """Kill a switch and have the kernel forward in its namespace."""
    fabric = load_topology(TOPOLOGY)
    script = "\n".join(["set -e", *router_commands(fabric, fabric.switch(switch))])
    runner.do("switch", switch, "kill")
    code, output = runner.run("exec", switch, "--", "sh", "-c", script)
    if "seg6local" in output or "next-csid" in output or "flavors" in output:
        pytest.skip(f"this kernel or iproute2 knows no SRv6 NEXT-C-SID: {output}")
    assert code == 0, output


def received_bytes(runner: LiveRunner, node: str) -> int:
    """Bytes that came in on all ports of a switch."""
    lines = runner.do("exec", node, "--", "cat", "/proc/net/dev").splitlines()
    return sum(int(line.split(":")[1].split()[0]) for line in lines if "port" in line)


def kernel_counters(runner: LiveRunner, node: str) -> dict[str, int]:
    lines = runner.do("exec", node, "--", "cat", "/proc/net/snmp6").splitlines()
    return {name: int(value) for name, value in map(str.split, lines)}


def test_mrc_runs_over_a_linux_router_unchanged(runner: LiveRunner) -> None:
    runner.bring_up()
    replace_by_linux(runner, LINUX_T1)
    runner.wait_for_all_paths("h0", "h2")
    probes = runner.probe("h0", "h2")
    assert len(probes) == 4
    assert None not in probes.values()

    others = ("p0-t1-1", "p1-t1-0", "p1-t1-1")
    before = {node: received_bytes(runner, node) for node in (LINUX_T1, *others)}
    kernel_before = kernel_counters(runner, LINUX_T1)
    with runner.transfer("h0", "h2", MESSAGE_BYTES) as transfer:
        transfer.post(2)
        assert transfer.wait(2) == ["SUCCESS"] * 2
        assert transfer.is_whole()
        assert set(transfer.ev_states().values()) == {"GOOD"}
    code, output = runner.run_host("write-bw", "--agent", "h0", "h2", "-s", "65536", "-n", "8")
    assert code == 0, output
    over = {node: received_bytes(runner, node) - count for node, count in before.items()}
    # Four paths of one rate: each carried about a quarter of two and a half messages
    assert all(count > MESSAGE_BYTES // 4 for count in over.values()), over

    # What came in went out, and the kernel had nothing to say of it
    kernel = {
        name: count - kernel_before[name]
        for name, count in kernel_counters(runner, LINUX_T1).items()
    }
    assert kernel["Ip6OutForwDatagrams"] == kernel["Ip6InReceives"] > MESSAGE_BYTES // 4 // 4096
    assert kernel["Ip6InHdrErrors"] == kernel["Ip6InNoRoutes"] == kernel["Ip6InDiscards"] == 0
    assert kernel["Icmp6OutMsgs"] == 0
