"""`mrc-host write-bw` and `write-lat`: options and output of ib_write_bw and ib_write_lat."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import click

from host.agent.errors import UsageError
from host.agent.options import agent_option, open_agent, peer_address
from host.agent.perftest import MAX_TX_DEPTH

_LINE: Final = "-" * 87
_LATENCY_LINE: Final = "-" * 137
_ALL_SIZES: Final = [1 << exponent for exponent in range(1, 24)]
#: With -a and without -n, a size is not measured with more bytes than this
_ALL_BYTES: Final = 16 << 20
_MIB: Final = 1 << 20

BANDWIDTH_ITERATIONS: Final = 1000
LATENCY_ITERATIONS: Final = 1000

#: Options of perftest that have no meaning here, and why
_WITHOUT_MEANING: Final[Mapping[str, str]] = {
    "-d": "an agent is one device; choose it with --agent",
    "--ib-dev": "an agent is one device; choose it with --agent",
    "-i": "the NIC's ports are the planes, and all are used",
    "--ib-port": "the NIC's ports are the planes, and all are used",
    "-x": "a NIC has one GID",
    "--gid-index": "a NIC has one GID",
    "-c": "there is one connection type, MRC",
    "--connection": "there is one connection type, MRC",
    "-p": "PEER says where to meet the other agent",
    "--port": "PEER says where to meet the other agent",
    "-R": "there is no rdma_cm",
    "--rdma_cm": "there is no rdma_cm",
    "-S": "MRC has traffic classes in place of service levels",
    "--sl": "MRC has traffic classes in place of service levels",
    "-T": "MRC sets the DSCP itself",
    "--tos": "MRC sets the DSCP itself",
    "-m": "the path MTU is that of the host's configuration",
    "--mtu": "the path MTU is that of the host's configuration",
    "-u": "give --timeout to mrc-host run",
    "--qp-timeout": "give --timeout to mrc-host run",
    "-I": "nothing is sent inline",
    "--inline_size": "nothing is sent inline",
    "-F": "no clock of the CPU is used",
    "--CPU-freq": "no clock of the CPU is used",
    "-e": "completions always come by events",
    "--events": "completions always come by events",
    "-o": "MRC has no RDMA READ",
    "--outs": "MRC has no RDMA READ",
    "-z": "there is no rdma_cm",
    "-l": "writes are posted one by one",
    "--post_list": "writes are posted one by one",
    "-f": "-D measures all of its time",
    "--margin": "-D measures all of its time",
    "-C": "no clock of the CPU is used",
    "--report-cycles": "no clock of the CPU is used",
    "-H": "--json has the results with all digits",
    "--report-histogram": "--json has the results with all digits",
    "-U": "--json has the results with all digits",
    "--report-unsorted": "--json has the results with all digits",
}


class PerftestCommand(click.Command):
    """Says of perftest's other options why they are not here."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click."""
        known = {name for param in self.params for name in (*param.opts, *param.secondary_opts)}
        for word in args:
            name = word.split("=", 1)[0]
            if name in _WITHOUT_MEANING and name not in known:
                raise click.UsageError(f"{name}: {_WITHOUT_MEANING[name]}", ctx)
        return super().parse_args(ctx, args)


def _common(command: Callable[..., None]) -> Callable[..., None]:
    for decorate in (
        click.option("--json", "as_json", is_flag=True, help="Results as JSON lines."),
        click.option(
            "-t",
            "--tx-depth",
            type=click.IntRange(1, MAX_TX_DEPTH),
            default=128,
            show_default=True,
            help="Writes that are posted at a time.",
        ),
        click.option("-a", "--all", "every", is_flag=True, help="Sizes from 2 to 2^23 bytes."),
        click.option(
            "-D", "--duration", type=click.FloatRange(0, min_open=True), help="Run for so many s."
        ),
        click.option("-n", "--iters", type=click.IntRange(1), help="Number of writes.  [1000]"),
        agent_option,
        click.argument("peer"),
    ):
        command = decorate(command)
    return command


@click.command("write-bw", cls=PerftestCommand)
@_common
@click.option(
    "-s", "--size", type=click.IntRange(1, 1 << 32), default=65536, show_default=True,
    help="Bytes of a write.",
)  # fmt: skip
@click.option(
    "-q", "--qp", "qps", type=click.IntRange(1, 256), default=1, show_default=True,
    help="Queue pairs.",
)  # fmt: skip
@click.option("-b", "--bidirectional", is_flag=True, help="Both ways at once; the sum is shown.")
@click.option(
    "-Q", "--cq-mod", type=click.IntRange(1, MAX_TX_DEPTH), default=16, show_default=True,
    help="One completion for so many writes.",
)  # fmt: skip
@click.option("-N", "--noPeak", "no_peak", is_flag=True, help="Do not show the peak.")
@click.option("--report_gbits", is_flag=True, help="In Gb/s in place of MiB/s.")
@click.option("--run_infinitely", is_flag=True, help="A line every -D seconds, until Ctrl-C.")
def write_bw(
    peer: str,
    agent: str | None,
    size: int,
    iters: int | None,
    duration: float | None,
    every: bool,
    qps: int,
    bidirectional: bool,
    tx_depth: int,
    cq_mod: int,
    no_peak: bool,
    report_gbits: bool,
    run_infinitely: bool,
    as_json: bool,
) -> None:
    """Bandwidth of RDMA writes to PEER, as ib_write_bw.

    PEER is the other host's name, or the address where its agent meets others. The bytes that
    arrive are compared with those sent. Every agent is a server; there is none to start.
    """
    sizes = _sizes(size, iters, duration, every)
    loads = [
        _load(each, iters, duration, tx_depth, BANDWIDTH_ITERATIONS, every) | {"cq_mod": cq_mod}
        for each in sizes
    ]
    if run_infinitely and (duration is None or every):
        raise UsageError("--run_infinitely: give -D, and not -a")
    address = peer_address(peer, agent)

    def on_event(event: Mapping[str, Any]) -> None:
        if as_json:
            _echo_json(event)
        elif event["event"] == "connected":
            _bandwidth_header(event, bidirectional, qps, tx_depth, cq_mod, report_gbits)
        elif event["event"] == "result":
            click.echo(bandwidth_row(event, report_gbits, no_peak or duration is not None))

    with open_agent(agent) as client:
        client.request(
            "write_bw",
            on_event=on_event,
            to=str(address),
            qps=qps,
            bidirectional=bidirectional,
            forever=run_infinitely,
            loads=loads,
        )
    if not as_json:
        click.echo(_LINE)


@click.command("write-lat", cls=PerftestCommand)
@_common
@click.option(
    "-s", "--size", type=click.IntRange(1, 1 << 32), default=2, show_default=True,
    help="Bytes of a write.",
)  # fmt: skip
def write_lat(
    peer: str,
    agent: str | None,
    size: int,
    iters: int | None,
    duration: float | None,
    every: bool,
    tx_depth: int,
    as_json: bool,
) -> None:
    """Latency of RDMA writes to PEER, as ib_write_lat: half of a write there and a write back.

    PEER as of write-bw. The writes carry an immediate, so that neither end has to poll memory.
    """
    loads = [
        _load(each, iters, duration, tx_depth, LATENCY_ITERATIONS, every)
        for each in _sizes(size, iters, duration, every)
    ]
    address = peer_address(peer, agent)

    def on_event(event: Mapping[str, Any]) -> None:
        if as_json:
            _echo_json(event)
        elif event["event"] == "connected":
            _latency_header(event, duration is not None)
        elif event["event"] == "result":
            click.echo(latency_row(event, duration is not None))

    with open_agent(agent) as client:
        client.request("write_lat", on_event=on_event, to=str(address), loads=loads)
    if not as_json:
        click.echo(_LATENCY_LINE)


def _sizes(size: int, iters: int | None, duration: float | None, every: bool) -> list[int]:
    if iters is not None and duration is not None:
        raise UsageError("-n and -D exclude each other")
    if every and duration is not None:
        raise UsageError("-a and -D exclude each other")
    return _ALL_SIZES if every else [size]


def _load(
    size: int,
    iters: int | None,
    duration: float | None,
    tx_depth: int,
    default_iterations: int,
    every: bool,
) -> dict[str, Any]:
    iterations = default_iterations if iters is None else iters
    if every and iters is None:
        iterations = max(min(iterations, _ALL_BYTES // size), 2)
    return {
        "size": size,
        "iterations": iterations,
        "duration_s": duration,
        "tx_depth": tx_depth,
    }


def _echo_json(event: Mapping[str, Any]) -> None:
    import json

    click.echo(json.dumps(event))


# --- perftest's tables ---------------------------------------------------------------------------


def _header(
    title: str, event: Mapping[str, Any], line: str, options: list[tuple[str, str]]
) -> None:
    click.echo(line)
    click.echo(f"                    {title}")
    for left, right in zip(options[::2], [*options[1::2], ("", "")], strict=False):
        text = f" {left[0]:<16}: {left[1]:<15}"
        if right[0]:
            text += f"{right[0]:<15}: {right[1]}"
        click.echo(text.rstrip())
    click.echo(line)
    for end in event["ends"]:
        local, remote = end["local"], end["remote"]
        click.echo(f" local address:  QPN {local['qp']:#06x} PSN {local['psn']:#x}")
        click.echo(f" GID: {local['gid']}")
        click.echo(
            f" remote address: QPN {remote['qp']:#06x} PSN {remote['psn']:#x} "
            f"RKey {remote['rkey']:#010x} VAddr {remote['addr']:#018x}"
        )
        click.echo(f" GID: {remote['gid']}")
    click.echo(line)


def _bandwidth_header(
    event: Mapping[str, Any],
    bidirectional: bool,
    qps: int,
    tx_depth: int,
    cq_mod: int,
    report_gbits: bool,
) -> None:
    title = "RDMA_Write Bidirectional BW Test" if bidirectional else "RDMA_Write BW Test"
    _header(
        title,
        event,
        _LINE,
        [
            ("Peer", str(event["peer"])),
            ("Transport type", "MRC"),
            ("Number of qps", str(qps)),
            ("Connection type", "MRC"),
            ("TX depth", str(tx_depth)),
            ("CQ Moderation", str(cq_mod)),
            ("Mtu", f"{event['ends'][0]['path_mtu']}[B]"),
            ("Link type", "Ethernet"),
        ],
    )
    unit = "Gb/sec" if report_gbits else "MB/sec"
    click.echo(f" #bytes     #iterations    BW peak[{unit}]    BW average[{unit}]   MsgRate[Mpps]")


def bandwidth_row(result: Mapping[str, Any], report_gbits: bool, no_peak: bool) -> str:
    """A line of ib_write_bw's table: REPORT_FMT."""
    factor = 8 / 1e9 if report_gbits else 1 / _MIB
    peak = 0.0 if no_peak else result["peak"] * factor
    rate_mpps = result["iterations"] * 1e3 / result["elapsed_ns"]
    return (
        f" {result['size_bytes']:<7}    {result['iterations']:<10}     {peak:<7.2f}            "
        f"{result['average'] * factor:<7.2f}\t\t   {rate_mpps:<7.6f}"
    ).rstrip()


def _latency_header(event: Mapping[str, Any], duration: bool) -> None:
    _header(
        "RDMA_Write Latency Test",
        event,
        _LATENCY_LINE,
        [
            ("Peer", str(event["peer"])),
            ("Transport type", "MRC"),
            ("Number of qps", "1"),
            ("Connection type", "MRC"),
            ("Mtu", f"{event['ends'][0]['path_mtu']}[B]"),
            ("Link type", "Ethernet"),
        ],
    )
    if duration:
        click.echo(" #bytes        #iterations       t_avg[usec]    tps average")
        return
    click.echo(
        " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]"
        "    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]"
    )


def latency_row(result: Mapping[str, Any], duration: bool) -> str:
    """A line of ib_write_lat's table: REPORT_FMT_LAT, with -D REPORT_FMT_LAT_DUR."""

    def us(name: str) -> str:
        return f"{result[name] / 1e3:<7.2f}"

    if duration:
        per_s = 1e9 / result["average"] / 2
        return (
            f" {result['size_bytes']:<7}       {result['iterations']:<10}        "
            f"{us('average')}        {per_s:<7.2f}"
        ).rstrip()
    return (
        f" {result['size_bytes']:<7} {result['iterations']}          {us('minimum')}        "
        f"{us('maximum')}      {us('typical')}  \t       {us('average')}     \t"
        f"{us('deviation')}\t\t{us('percentile_99')} \t\t{us('percentile_999')}"
    ).rstrip()
