"""`mrc-host collective`: a collective over several agents, and the table of nccl-tests."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, Final

import click

from host.agent.client import ControlClient
from host.agent.errors import AgentError, UsageError
from host.agent.options import open_agent
from topologies.units import parse_size_bytes

_NS: Final = 1e9


@click.command()
@click.argument("name", metavar="NAME")
@click.argument("hosts", nargs=-1, required=True, metavar="HOST...")
@click.option("-b", "--size", "size", default="1MiB", show_default=True, help="Of the vector.")
@click.option(
    "-n", "--iters", type=click.IntRange(1, 1 << 16), default=5, show_default=True, help="Rounds."
)
@click.option(
    "-w", "--warmup_iters", "warmup", type=click.IntRange(0, 1 << 16), default=1, show_default=True,
    help="Rounds before, that are not timed.",
)  # fmt: skip
@click.option("-d", "--datatype", default="float32", show_default=True, metavar="TYPE")
@click.option("-o", "--op", default="sum", show_default=True, metavar="sum|min|max")
@click.option("-r", "--root", type=click.IntRange(0), default=0, show_default=True)
@click.option(
    "--lanes", type=click.IntRange(1, 256), default=1, show_default=True,
    help="Queue pairs to each peer.",
)  # fmt: skip
@click.option("--check/--no-check", default=True, show_default=True, help="Check results.")
@click.option("--json", "as_json", is_flag=True, help="As one JSON object.")
def collective(
    name: str,
    hosts: Sequence[str],
    size: str,
    iters: int,
    warmup: int,
    datatype: str,
    op: str,
    root: int,
    lanes: int,
    check: bool,
    as_json: bool,
) -> None:
    """Run a collective over hosts, one rank on each, and check every result.

    NAME is all-reduce, all-gather, reduce-scatter, all-to-all, send-recv or broadcast; HOST a
    host's name or its agent's control socket. The options and the table are those of nccl-tests.
    Exits with 1 when an element is wrong.
    """
    from host.collectives import collective_kind
    from host.collectives.datatypes import DataType

    try:
        kind = collective_kind(name)
        data_type = DataType(datatype)
        size_bytes = parse_size_bytes(size)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if len(set(hosts)) != len(hosts):
        raise UsageError("a host is there twice; a group has one rank on each")
    ranks = len(hosts)
    spec = {
        "collective": name,
        "size": size_bytes,
        "data_type": datatype,
        "reduce_op": op,
        "root": root,
        "check": check,
    }
    with ExitStack() as stack:
        clients = [stack.enter_context(open_agent(host)) for host in hosts]
        pool = stack.enter_context(ThreadPoolExecutor(ranks))
        rows = _on_all(
            pool,
            clients,
            lambda client, rank: client.request(
                "group_join", rank=rank, size=ranks, lanes=lanes, collective=name
            )["info"],
        )
        _on_all(pool, clients, lambda client, _: client.request("group_connect", table=rows))
        wrong = 0
        if warmup:
            wrong += _wrong(_run(pool, clients, hosts, {**spec, "rounds": warmup}))
        answers = _run(pool, clients, hosts, {**spec, "rounds": iters, "seed": warmup})
        wrong += _wrong(answers)
    times_ns = [
        max(each["rounds"][number]["end_ns"] for each in answers)
        - max(each["rounds"][number]["begin_ns"] for each in answers)
        for number in range(iters)
    ]
    time_ns = statistics.fmean(times_ns)
    count = kind.count(size_bytes, ranks, data_type)
    moved_bytes = count * data_type.size_bytes
    algorithm_bps, bus_bps = kind.bandwidths_bps(moved_bytes, ranks, time_ns)
    result = {
        "collective": name,
        "hosts": [*hosts],
        "size_bytes": moved_bytes,
        "count": count,
        "data_type": datatype,
        "reduce_op": op if kind.reduces else None,
        "root": root if kind.rooted else None,
        "times_ns": times_ns,
        "time_ns": time_ns,
        "algorithm_bps": algorithm_bps,
        "bus_bps": bus_bps,
        "wrong_elements": wrong if check else None,
    }
    if as_json:
        click.echo(json.dumps(result))
    else:
        _print(result)
    if wrong:
        raise AgentError(f"{wrong} elements are wrong")


def _on_all(
    pool: ThreadPoolExecutor,
    clients: Sequence[ControlClient],
    work: Callable[[ControlClient, int], Any],
) -> list[Any]:
    """On all ranks at once; raises what the first of them raises that fails by itself."""
    futures = [pool.submit(work, client, rank) for rank, client in enumerate(clients)]
    errors = [error for future in futures if (error := future.exception()) is not None]
    for error in errors:
        raise error
    return [future.result() for future in futures]


def _run(
    pool: ThreadPoolExecutor,
    clients: Sequence[ControlClient],
    hosts: Sequence[str],
    spec: Mapping[str, Any],
) -> list[Any]:
    """Answers of all ranks. Raises AgentError where the group failed."""
    answers = _on_all(pool, clients, lambda client, _: client.request("group_run", **spec))
    for host, answer in zip(hosts, answers, strict=True):
        if answer["failure"] is not None:
            raise AgentError(f"{host}: {answer['failure']}")
    return answers


def _wrong(answers: Sequence[Mapping[str, Any]]) -> int:
    return sum(answer["wrong_elements"] for answer in answers)


def _print(result: Mapping[str, Any]) -> None:
    op, root, wrong = (result[name] for name in ("reduce_op", "root", "wrong_elements"))
    click.echo(f"# {result['collective']} over {len(result['hosts'])} ranks: "
               f"{' '.join(result['hosts'])}")  # fmt: skip
    click.echo(
        "#       size         count      type   redop    root        time     algbw     busbw "
        "#wrong"
    )
    click.echo(
        "#        (B)    (elements)                                  (us)    (MB/s)    (MB/s)"
    )
    click.echo(
        f"{result['size_bytes']:>12}  {result['count']:>12}  {result['data_type']:>8}  "
        f"{'none' if op is None else op:>6}  {-1 if root is None else root:>6}  "
        f"{result['time_ns'] / 1e3:>10.1f}  {result['algorithm_bps'] / 8e6:>8.2f}  "
        f"{result['bus_bps'] / 8e6:>8.2f}  {'N/A' if wrong is None else wrong:>5}"
    )
