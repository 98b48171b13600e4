"""What must hold of an MRC endpoint on this fabric, each claim with what was measured.

    python -m experiments.claims [NAME ...] [--seed N] [--json FILE]

Eight planes of 100 Gb/s, transfers between racks (over T1s), 4 KiB MTU, links of 500 ns, in virtual
time: real frames through the compiled fabric.p4 and the whole endpoint, every byte of memory
compared. Exit code 1 where a claim does not hold.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

from reports.result import FaultEffect, RunResult, jain_index
from reports.text import rate_text, time_text
from reports.verdict import failures, goodput_share, total_share
from sim.simulation import Simulation
from topologies.documents import did_you_mean
from topologies.scenario_loader import find_scenario, load_scenario

PLANES = 8


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim: what should be, what was measured, and whether it holds."""

    name: str
    claim: str
    measured: str
    holds: bool


class Runs:
    """Runs of ready scenarios, each made once."""

    def __init__(self, seed: int | None) -> None:
        self.seed = seed
        self._done: dict[tuple[str, tuple[str, ...]], RunResult] = {}

    def run(self, scenario: str, *changes: str) -> RunResult:
        """The result of a ready scenario with changes."""
        key = scenario, changes
        if key not in self._done:
            loaded = load_scenario(find_scenario(scenario), changes=changes, seed=self.seed)
            result = Simulation(loaded).run()
            result.failures = failures(loaded, result)
            self._done[key] = result
        return self._done[key]

    def alone(self, size: str) -> RunResult:
        """One transfer with nothing in its way."""
        return self.run("eight-plane-quickstart", f"traffic[0].transfer.size={size}")


def _rate_bps(result: RunResult, start_ns: int, end_ns: int) -> float:
    """Payload delivered by all flows per time between two times, to the sample."""
    return _rate_of(result.delivered_bytes, result.interval_ns, start_ns, end_ns)


def _rate_of(delivered: Sequence[int], interval_ns: int, start_ns: int, end_ns: int) -> float:
    first, last = -(-start_ns // interval_ns), min(end_ns // interval_ns, len(delivered) - 1)
    if last <= first:
        return 0.0
    return (delivered[last] - delivered[first]) * 8e9 / ((last - first) * interval_ns)


def _books(name: str, result: RunResult) -> Claim:
    """Memory and frames of a run."""
    wrong = sum(flow.wrong_bytes for flow in result.flows)
    problems = [problem for flow in result.flows for problem in (*flow.problems, *flow.errors)]
    done = all(flow.done for flow in result.flows)
    return Claim(
        name,
        "every byte right, every message complete, every frame accounted for",
        f"{wrong} wrong bytes, {result.unaccounted} frames unaccounted for"
        + (f", {problems}" if problems else "")
        + ("" if done else ", not complete"),
        not wrong and not problems and not result.unaccounted and done,
    )


def one_qp(runs: Runs) -> Iterator[Claim]:
    """One QP, nothing else."""
    result = runs.alone("64MiB")
    (flow,) = result.flows
    share = goodput_share(flow, result.payload_share) or 0.0
    yield Claim(
        "one QP alone",
        "goodput >= 97 % of the payload share of line rate",
        f"{100 * share:.2f} % ({rate_text(flow.goodput_bps)}, 64 MiB)",
        share >= 0.97,
    )
    even = sum(result.plane_bytes) / len(result.plane_bytes)
    worst = max(abs(size - even) for size in result.plane_bytes) / even
    yield Claim(
        "planes",
        "every plane carries the same share within 1 %",
        f"furthest off by {100 * worst:.3f} %",
        worst <= 0.01,
    )
    yield _books("one QP alone", result)


def _mapped_out(runs: Runs, name: str, scenario: str, fault: str) -> Iterator[Claim]:
    alone = runs.alone("64MiB").flows[0].completion_ns
    result = runs.run(scenario)
    effect = result.fault(fault)
    took = result.flows[0].completion_ns
    assert alone is not None and took is not None
    last_ns = effect.last_packet_ns or 0
    yield Claim(
        name,
        "last packet on a path through it <= 10 base RTTs after it",
        f"{time_text(last_ns)}, {last_ns / result.base_rtt_ns:.1f} base RTTs; "
        f"{effect.packets_sent} packets sent into it",
        0 < last_ns <= 10 * result.base_rtt_ns,
    )
    longer = took / alone - 1
    yield Claim(
        name,
        "a 64 MiB transfer takes < 2 % longer",
        f"{100 * longer:.2f} % ({time_text(took)} instead of {time_text(alone)})",
        longer < 0.02,
    )
    yield Claim(
        name,
        "back in use after repair",
        f"{effect.packets_after} packets on its paths after the repair",
        effect.packets_after > 0,
    )
    yield _books(name, result)


def link_cut(runs: Runs) -> Iterator[Claim]:
    """A T0-T1 link is cut and repaired."""
    return _mapped_out(runs, "T0-T1 link cut", "eight-plane-link-cut", "cut")


def t1_blackhole(runs: Runs) -> Iterator[Claim]:
    """A T1 swallows packets with its links up."""
    return _mapped_out(runs, "T1 blackhole", "eight-plane-t1-blackhole", "blackhole")


def nic_port(runs: Runs) -> Iterator[Claim]:
    """A port of the receiving NIC goes down and comes back."""
    return _ports_down(runs, "NIC port down", "eight-plane-nic-port-down", "port", 7)


def nic_ports(runs: Runs) -> Iterator[Claim]:
    """Four ports of the receiving NIC go down at once and come back."""
    return _ports_down(
        runs, "four NIC ports down at once", "eight-plane-four-ports-down", "ports", 4
    )


def _ports_down(
    runs: Runs, name: str, scenario: str, fault: str, planes_left: int
) -> Iterator[Claim]:
    result = runs.run(scenario)
    effect = result.fault(fault)
    last_ns = effect.last_packet_ns or 0
    yield Claim(
        name,
        "peer off these planes within 2 RTTs of the port status update",
        f"last packet {time_text(last_ns)}, {last_ns / result.base_rtt_ns:.2f} base RTTs after",
        last_ns <= 2 * result.base_rtt_ns,
    )
    at_ns, end_ns = effect.at_ns, effect.end_ns
    assert end_ns is not None
    before = _rate_bps(result, at_ns // 2, at_ns)
    during = _rate_bps(result, at_ns + 50_000, end_ns)
    after = _rate_bps(result, end_ns + 50_000, end_ns + 250_000)
    yield Claim(
        name,
        f"goodput {planes_left}/{PLANES} meanwhile",
        f"{during / before:.4f} of {rate_text(before)} "
        f"({planes_left}/{PLANES} = {planes_left / PLANES:.4f})",
        abs(during / before - planes_left / PLANES) <= 0.01,
    )
    yield Claim(
        name, f"goodput {PLANES}/{PLANES} after", f"{after / before:.4f}", after / before >= 0.99
    )
    yield _books(name, result)


def lossy_ev(runs: Runs) -> Iterator[Claim]:
    """One EV of two a plane loses 20 %."""
    name = "one EV losing 20 %"
    alone = runs.run("eight-plane-lossy-path", "faults=[]", "expect={}").flows[0]
    result, effect = _lossy_on_ev_in_use(runs)
    flow = result.flows[0]
    first_timeout_ns = 33_000
    out_ns = effect.first_out_ns
    yield Claim(
        name,
        "out at its first timeout (32.8 us after a lost packet was sent)",
        f"{effect.lost} packets lost by it; out {time_text(out_ns)} after it began to lose",
        out_ns is not None and out_ns <= first_timeout_ns + 2 * result.base_rtt_ns,
    )
    outs = [each for each in result.transitions if each.new == "ASSUMED_BAD"]
    twins = [
        each.replaced_by
        for each in outs
        if each.replaced_by is not None and each.replaced_by & 7 == each.ev & 7
    ]
    yield Claim(
        name,
        "twin of its plane in",
        f"EV {outs[0].ev:#x} replaced by {twins[0]:#x}" if twins else "no twin",
        len(outs) > 0 and len(twins) == len(outs),
    )
    share = flow.goodput_bps / alone.goodput_bps
    yield Claim(
        name, "goodput unchanged", f"{100 * share:.2f} % of that without the fault", share >= 0.99
    )
    yield _books(name, result)


def _lossy_on_ev_in_use(runs: Runs) -> tuple[RunResult, FaultEffect]:
    """Run with the loss on the path of the plane that is in use, whichever that is."""
    for uplink in (0, 1):
        changes = (f"faults[0].loss.path.uplink={uplink}", "expect={}")
        result = runs.run("eight-plane-lossy-path", *changes)
        effect = result.fault("lossy")
        if effect.packets_sent:
            return result, effect
    return result, effect


def two_flows(runs: Runs) -> Iterator[Claim]:
    """Two flows forced on one EV, then free."""
    name = "two flows forced on one EV"
    result = runs.run("eight-plane-two-flows-one-ev")
    line = 100e9 * result.payload_share
    forced = _rate_bps(result, 100_000, 400_000)
    free = _rate_bps(result, 600_000, 1_200_000)
    yield Claim(
        name,
        "forced, they share one path; free, ECN parts them and both run near line rate",
        f"together {forced / line:.3f} of a line forced, {free / line:.3f} free; "
        f"{result.marked} marks",
        forced / line <= 1.0 and free / line >= 1.9,
    )
    yield _books(name, result)


def incast(runs: Runs) -> Iterator[Claim]:
    """Seven to one, with a victim, with and without trimming."""
    name = "7:1 incast"
    result = runs.run("eight-plane-incast")
    flows = [flow for flow in result.flows if flow.group == "incast"]
    jain = jain_index([flow.goodput_bps for flow in flows])
    yield Claim(name, "Jain's index >= 0.99", f"{jain:.4f}", jain >= 0.99)
    timeouts = result.total["timeouts"]
    yield Claim(name, "no timeout", f"{timeouts}, {result.trimmed} trimmed", timeouts == 0)
    share = total_share(flows, result.payload_share) or 0.0
    yield Claim(name, "utilisation of the last hop >= 95 %", f"{100 * share:.2f} %", share >= 0.95)
    yield from _victim(runs, result)
    yield _books(name, result)
    without = runs.run("eight-plane-incast-no-trim")
    flows = [flow for flow in without.flows if flow.group == "incast"]
    share_without = total_share(flows, without.payload_share) or 0.0
    yield Claim(
        "7:1 incast, trimming off",
        "shows what trimming buys",
        f"last hop {100 * share_without:.2f} % instead of {100 * share:.2f} %, "
        f"{without.total['timeouts']} timeouts instead of {timeouts}, "
        f"{sum(without.lost.values())} frames lost",
        share_without < share and without.total["timeouts"] > timeouts,
    )
    yield _books("7:1 incast, trimming off", without)


def _victim(runs: Runs, result: RunResult) -> Iterator[Claim]:
    """The victim's rate while the incast lasts, and in the worst 20 µs of it."""
    transfer = "{transfer: {name: victim, from: h19, to: h1, size: 128MiB}}"
    alone = runs.run("eight-plane-incast", f"traffic=[{transfer}]", "expect={}").flow("victim")
    members = [flow for flow in result.flows if flow.group == "incast"]
    start_ns = members[0].start_ns
    end_ns = start_ns + max(flow.completion_ns or 0 for flow in members)
    interval = result.interval_ns
    victim = result.flow("victim").delivered_samples
    usual = _rate_of(alone.delivered_samples, interval, start_ns, end_ns)
    rate = _rate_of(victim, interval, start_ns, end_ns)
    worst = min(
        _rate_of(victim, interval, at_ns, at_ns + 4 * interval)
        for at_ns in range(start_ns, end_ns - 4 * interval, interval)
    )
    yield Claim(
        "7:1 incast",
        "a victim to another host of the rack >= 99 % of its rate alone",
        f"{100 * rate / usual:.2f} % while the incast lasts ({time_text(end_ns - start_ns)}); "
        f"{100 * worst / usual:.1f} % in the worst {time_text(4 * interval)}",
        rate / usual >= 0.99,
    )


def half_down(runs: Runs) -> Iterator[Claim]:
    """Half the paths down from the start, no denylist."""
    name = "half the paths down"
    result = runs.run("eight-plane-half-paths-down")
    effect = result.fault("dead")
    (flow,) = result.flows
    paths = 16
    firsts = [each for each in result.transitions if each.new == "ASSUMED_BAD"]
    yield Claim(
        name,
        "each dead path is out at its first timeout",
        f"{effect.evs_out} of {paths} out, the last {time_text(effect.last_out_ns)} after the "
        f"start; {len(firsts)} transitions",
        effect.evs_out == paths and (effect.last_out_ns or 0) <= 33_000 + 2 * result.base_rtt_ns,
    )
    # Until the first timeout, windows are sent at the rate of the line at most, evenly spread
    wire_bytes = 4096 / result.payload_share
    until_ns = effect.last_out_ns or 0
    allowed = (flow.line_rate_bps or 0) * until_ns / 8e9 / wire_bytes / (2 * paths)
    yield Claim(
        name,
        "packets lost on it <= its share of the windows sent until then",
        f"{effect.packets_sent / paths:.1f} a path of at most {allowed:.1f}",
        effect.packets_sent <= allowed * paths,
    )
    size = flow.completed_bytes // flow.completed_messages
    ends = [flow.start_ns, *flow.message_ns]
    took = [after - before for before, after in pairwise(ends)]
    yield Claim(
        name,
        "the transfer completes",
        f"{flow.completed_messages} transfers of {size >> 20} MiB, the first in "
        f"{time_text(took[0])}",
        flow.done,
    )
    alone = runs.alone(f"{size >> 20}MiB").flows[0].completion_ns
    assert alone is not None
    share = alone / took[1]
    yield Claim(
        name,
        "the next one runs at full rate",
        f"{time_text(took[1])}: {100 * share:.2f} % of its rate with all paths",
        share >= 0.99,
    )
    yield _books(name, result)


CLAIMS: dict[str, Callable[[Runs], Iterator[Claim]]] = {
    "one-qp": one_qp,
    "link-cut": link_cut,
    "t1-blackhole": t1_blackhole,
    "nic-port": nic_port,
    "nic-ports": nic_ports,
    "lossy-ev": lossy_ev,
    "two-flows": two_flows,
    "incast": incast,
    "half-down": half_down,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print and judge."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CLAIMS)}")
    parser.add_argument("--seed", type=int, help="in place of the scenarios' own")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there")
    given = parser.parse_args(arguments)
    for name in given.names:
        if name not in CLAIMS:
            near = did_you_mean(name, list(CLAIMS))
            hint = f"did you mean {near}?" if near else f"there are {', '.join(CLAIMS)}"
            parser.error(f"{name}: no such claim; {hint}")
    runs = Runs(given.seed)
    all_claims: list[Claim] = []
    for name in given.names or CLAIMS:
        for claim in CLAIMS[name](runs):
            all_claims.append(claim)
            mark = "ok  " if claim.holds else "FAIL"
            print(f"{mark} {claim.name}: {claim.claim}\n       {claim.measured}", flush=True)
    failed = sum(not claim.holds for claim in all_claims)
    print(f"\n{len(all_claims) - failed} of {len(all_claims)} hold")
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(claim) for claim in all_claims], indent=2) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
