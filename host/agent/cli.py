"""The command `mrc-host`."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click
from click.core import ParameterSource

from commandline.program import FAILURE, USAGE, run_command
from host.agent import views
from host.agent.address import Address, control_path, default_directory, exchange_path
from host.agent.cli_collective import collective
from host.agent.cli_perftest import write_bw, write_lat
from host.agent.client import ControlClient
from host.agent.errors import AgentError, UsageError
from host.agent.options import agent_option, find_agent, open_agent

if TYPE_CHECKING:
    from host.agent.agent import Agent
    from host.endpoint_settings import EndpointSettings

PROGRAM: Final = "mrc-host"
_MIN_INTERVAL_S: Final = 0.1
#: Options of `run` that an endpoint file has in it
_IN_ENDPOINT_FILE: Final = ("timeout", "linear_retries", "exponential_retries", "cc")


def main() -> NoReturn:
    """Entry point. Exit codes: 0 done, 1 failed, 2 wrong usage, 128 + n ended by signal n."""
    sys.exit(run_command(cli, PROGRAM, {UsageError: USAGE, AgentError: FAILURE}))


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """An MRC NIC in real time: run it, measure it, look into it.

    `mrc-host run` is a host's agent: it has the interfaces of its network namespace. Everything
    else asks an agent that runs, found by its host's name (`--agent h0`) or its control socket.
    """


@cli.command()
@click.option(
    "--config",
    "config_path",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The host's configuration (mrc-controller plan --host h0).",
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the sockets HOST.control and HOST.exchange.  [$MRC_HOST_DIR]",
)
@click.option("--control", type=click.Path(path_type=Path), help="The control socket itself.")
@click.option(
    "--exchange",
    "exchanges",
    multiple=True,
    metavar="ADDRESS",
    help="Meet other agents there: unix:/path or tcp:host:port; may be repeated.",
)
@click.option("--seed", type=click.IntRange(0), help="Of keys, numbers and orders.")
@click.option("--timeout", type=click.IntRange(0, 24), help="Local ACK timeout: 1.024 us * 2^N.")
@click.option("--linear-retries", type=click.IntRange(0, 7), default=7, show_default=True)
@click.option(
    "--exponential-retries",
    type=click.IntRange(0, 25),
    default=4,
    show_default=True,
    help="25 = for ever.",
)
@click.option(
    "--cc",
    default=None,
    metavar="NAME",
    help="Congestion control: uet-1.0-nscc, another that is registered, or none.",
)
@click.option(
    "--assumed-rate",
    default=None,
    metavar="RATE",
    help="For congestion control, where links are unlimited: of all ports together, e.g. 500Mbps.",
)
@click.option(
    "--endpoint",
    "endpoint_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Settings of the endpoint, as JSON: forwarding, qp, congestion, evs; in place of "
    "--timeout, --linear-retries, --exponential-retries and --cc.",
)
@click.option(
    "--max-memory",
    default="4GiB",
    show_default=True,
    metavar="SIZE",
    help="Memory of all users together: regions, flows, buffers of collectives.",
)
@click.option("--verbose", is_flag=True, help="Log ports that go up and down.")
@click.pass_context
def run(
    context: click.Context,
    config_path: Path,
    directory: Path | None,
    control: Path | None,
    exchanges: Sequence[str],
    seed: int | None,
    timeout: int | None,
    linear_retries: int,
    exponential_retries: int,
    cc: str | None,
    assumed_rate: str | None,
    endpoint_path: Path | None,
    max_memory: str,
    verbose: bool,
) -> None:
    """Run a host's agent until SIGTERM, Ctrl-C or `mrc-host quit`."""
    from host.agent.agent import AgentOptions
    from host.agent.serve import serve
    from host.agent.timing import ASSUMED_RATE_BPS, TimingOptions
    from topologies.units import parse_rate_bps, parse_size_bytes

    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(message)s",
    )
    try:
        host_json = config_path.read_text()
    except OSError as error:
        raise UsageError(f"--config {config_path}: {error.strerror}") from None
    for name in _IN_ENDPOINT_FILE:
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if given and endpoint_path is not None:
            option = name.replace("_", "-")
            raise UsageError(f"--{option}: with --endpoint it belongs in {endpoint_path}")
    rate_bps = ASSUMED_RATE_BPS
    if assumed_rate is not None:
        try:
            rate_bps = parse_rate_bps(assumed_rate)
        except ValueError as error:
            raise UsageError(f"--assumed-rate: {error}") from None
    try:
        memory_bytes = parse_size_bytes(max_memory)
    except ValueError as error:
        raise UsageError(f"--max-memory: {error}") from None
    options = AgentOptions(
        timing=TimingOptions(
            timeout=timeout,
            linear_retries=linear_retries,
            exponential_retries=exponential_retries,
            assumed_rate_bps=rate_bps,
        ),
        endpoint=_endpoint_settings(endpoint_path, cc),
        seed=seed,
        memory_bytes=memory_bytes,
    )
    folder = default_directory() if directory is None else directory
    if control is None or not exchanges:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    listen_at = [Address.parse(each) for each in exchanges]

    def ready(agent: Agent, path: Path, addresses: Sequence[Address]) -> None:
        met = ", ".join(map(str, addresses))
        click.echo(f"{agent.name}: ready; control {path}; exchange {met}")

    try:
        asyncio.run(
            serve(
                host_json,
                options,
                lambda name: control_path(folder, name) if control is None else control,
                lambda name: listen_at or [Address(path=exchange_path(folder, name))],
                ready,
            )
        )
    except AgentError as error:
        kind = type(error)
        raise kind(
            f"--config {config_path}: {error}" if kind is UsageError else str(error)
        ) from None


def _endpoint_settings(path: Path | None, cc: str | None) -> EndpointSettings:
    from host.congestion import algorithms
    from host.endpoint_settings import NO_CONTROLLER, EndpointSettings, SettingsError
    from host.profiles import CcProfile

    if path is not None:
        try:
            return EndpointSettings.from_json(path.read_text())
        except OSError as error:
            raise UsageError(f"--endpoint {path}: {error.strerror}") from None
        except (SettingsError, UnicodeDecodeError) as error:
            raise UsageError(f"--endpoint {path}: {error}") from None
    if cc is None:
        return EndpointSettings()
    if cc != NO_CONTROLLER and cc not in algorithms():
        raise UsageError(f"--cc {cc!r}: there are {NO_CONTROLLER}, {', '.join(algorithms())}")
    return EndpointSettings(cc_profile=CcProfile(None if cc == NO_CONTROLLER else cc))


cli.add_command(write_bw)
cli.add_command(write_lat)
cli.add_command(collective)

_json_option = click.option("--json", "as_json", is_flag=True, help="As one JSON object.")
_watch_option = click.option("--watch", is_flag=True, help="Show it again and again, until Ctrl-C.")
_interval_option = click.option(
    "--interval", type=click.FloatRange(_MIN_INTERVAL_S), default=1.0, show_default=True,
    help="Seconds between two looks.",
)  # fmt: skip


@cli.command()
@agent_option
@_json_option
@_watch_option
@_interval_option
def stat(agent: str | None, as_json: bool, watch: bool, interval: float) -> None:
    """Counters of a host's ports, queue pairs and drops."""
    with open_agent(agent) as client:
        _show(lambda: client.request("stat"), views.stat_view, as_json, watch, interval)


@cli.command()
@agent_option
@click.option("--peer", help="Only towards this host.")
@_json_option
@_watch_option
@_interval_option
def evs(agent: str | None, peer: str | None, as_json: bool, watch: bool, interval: float) -> None:
    """State of every path of every queue pair, with the links that it crosses."""
    with open_agent(agent) as client:
        _show(lambda: client.request("evs", peer=peer), views.evs_view, as_json, watch, interval)


@cli.command()
@agent_option
@click.argument("peer")
@click.option("--ev", type=int, help="One EV; all by default.")
@click.option("-c", "--count", type=click.IntRange(1), default=1, show_default=True)
@click.option("--timeout-ms", type=click.IntRange(1, 60_000), default=1000, show_default=True)
@_json_option
def probe(
    agent: str | None, peer: str, ev: int | None, count: int, timeout_ms: int, as_json: bool
) -> None:
    """Probe every path to a host (EV probes): round trip times. Exits with 1 if one is silent."""
    with open_agent(agent) as client:
        rounds = [
            client.request("probe", peer=peer, ev=ev, timeout_ms=timeout_ms) for _ in range(count)
        ]
    answer = views.merge_probes(rounds)
    if as_json:
        click.echo(views.as_json(answer))
    else:
        views.console().print(views.probe_view(answer))
    if any(each["answered"] < count for each in answer["evs"]):
        sys.exit(1)


@cli.command()
@agent_option
@click.option("--history", is_flag=True, help="Begin with what happened before.")
def events(agent: str | None, history: bool) -> None:
    """Print what happens (EV states, ports, failed queue pairs), one JSON object a line."""
    with open_agent(agent) as client:
        client.request("watch", on_event=_print_event, history=history)
        while True:
            _print_event(client.next_line())


def _print_event(event: Any) -> None:
    click.echo(views.as_json(event, indent=None))
    sys.stdout.flush()


@cli.command("quit")
@agent_option
def quit_agent(agent: str | None) -> None:
    """End an agent."""
    with open_agent(agent) as client:
        client.request("quit")


@cli.command("list")
def list_agents() -> None:
    """List the agents that run."""
    directory = default_directory()
    found = False
    for path in sorted(directory.glob("*.control")):
        try:
            with ControlClient(path, timeout_s=5.0) as client:
                hello = client.request("hello")
        except AgentError:
            continue
        found = True
        click.echo(f"{hello['host']}  {hello['address']}  pid {hello['pid']}  {path}")
    if not found:
        click.echo(f"no agent runs in {directory} ($MRC_HOST_DIR)", err=True)


def _show(
    ask: Callable[[], Any],
    view: Callable[[Any, Any], Any],
    as_json: bool,
    watch: bool,
    interval: float,
) -> None:
    """Once, or live: `view` gets the answer and the one before."""
    if not watch:
        answer = ask()
        if as_json:
            click.echo(views.as_json(answer))
        else:
            views.console().print(view(answer, None))
        return
    if as_json:
        while True:
            click.echo(views.as_json(ask(), indent=None))
            sys.stdout.flush()
            time.sleep(interval)
    from rich.live import Live

    answer = ask()
    with Live(view(answer, None), console=views.console(), auto_refresh=False) as live:
        while True:
            time.sleep(interval)
            before, answer = answer, ask()
            live.update(view(answer, before), refresh=True)


__all__ = ["cli", "find_agent", "main"]
