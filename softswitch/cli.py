"""Command line: `softswitch` in the place of `simple_switch_grpc`.

It takes simple_switch_grpc's options, those that stand there after `--` included (before it they
are taken too), and a few of its own. What has no meaning here is accepted and said to be unused,
once; what would promise something that does not happen is refused.

Exit codes: 0 stopped by SIGINT, SIGTERM or the control socket; 1 failure; 2 usage. Every error is
one line on stderr.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.metadata
import logging
import logging.handlers
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click

from commandline.program import FAILURE, run_command
from rawsocket.af_packet import AfPacketPort
from softswitch.control_socket import ControlError, ControlSocket
from softswitch.ports.base import PortError
from softswitch.ports.pcap import PortCapture
from softswitch.program import Program, UnsupportedProgram, load_program
from softswitch.runtime import Runtime, format_summary
from softswitch.switch import Switch, SwitchError
from softswitch.traffic_manager import TrafficManagerError
from softswitch.units import format_rate, parse_rate

log = logging.getLogger("softswitch")

DEFAULT_GRPC_ADDRESS: Final = "127.0.0.1:9559"
"""Loopback, where simple_switch_grpc listens on all addresses; P4Runtime here has no login."""

BMV2_JSON_VERSION: Final = "2.23"
"""Newest version of the BMv2 JSON format that is understood."""

_LEVELS: Final = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
    "off": logging.CRITICAL + 1,
}
_LOG_FORMAT: Final = "%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s"
_LOG_TIME_FORMAT: Final = "%H:%M:%S"

# simple_switch_grpc's options without a meaning here: accepted, said to be unused.
_UNUSED: Final = {
    "thrift_port": "there is no Thrift server; see --control-socket",
    "notifications_addr": "there are no nanomsg notifications; P4Runtime streams them",
    "disable_swap": "programs are always exchanged through P4Runtime",
    "max_port_count": "the number of ports is not limited",
    "max_l1_entries": "multicast groups are limited by --max-mc-groups only",
    "max_l2_entries": "multicast groups are limited by --max-mc-groups only",
    "log_flush": "log files are always flushed",
    "nanolog": "there is no nanomsg event log; see --log-console and --pcap",
}
# And those that ask for something that would not happen.
_REFUSED: Final = {
    "use_files": "packets come from interfaces; write a capture to one with tcpreplay",
    "packet_in": "there is no nanomsg packet interface",
    "dp_grpc_server_addr": "there is no packet interface over gRPC",
    "debugger": "there is no debugger",
    "debugger_addr": "there is no debugger",
    "restore_state": "state is not saved; a controller installs it",
    "load_modules": "there are no loadable modules",
    "grpc_server_ssl": "gRPC is served without TLS, on loopback unless told otherwise",
    "grpc_server_cacert": "gRPC is served without TLS",
    "grpc_server_cert": "gRPC is served without TLS",
    "grpc_server_key": "gRPC is served without TLS",
    "grpc_server_with_client_auth": "gRPC is served without TLS",
}


class CliError(Exception):
    """What ends the program with one line and exit code 1."""


@dataclass(frozen=True, slots=True)
class PortOption:
    """One `--interface PORT@NAME`."""

    port: int
    interface: str


@dataclass(frozen=True, slots=True)
class DepthOption:
    """One `--queue-depth-… [PORT[:QUEUE]=]N`; None = all."""

    depth: int
    port: int | None = None
    queue: int | None = None


@dataclass(slots=True)
class Options:
    """The command line, checked."""

    program: Path | None
    interfaces: tuple[PortOption, ...]
    device_id: int
    grpc_address: str
    cpu_port: int | None
    drop_port: int
    priority_queues: int
    max_mc_groups: int
    seed: int
    pcap: Path | None
    dump_bytes: int
    ready_file: Path | None
    control_socket: Path | None
    port_rates: dict[int | None, int | None] = field(default_factory=dict)
    depths_packets: tuple[DepthOption, ...] = ()
    depths_bytes: tuple[DepthOption, ...] = ()


# -- parameter types -----------------------------------------------------------------------


def _each(parse: Callable[[str], object]) -> Callable[..., tuple[object, ...]]:
    """Make a callback for a repeatable option out of a function that raises ValueError."""

    def convert(
        ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
    ) -> tuple[object, ...]:
        try:
            return tuple(parse(value) for value in values)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx=ctx, param=param) from None

    return convert


def parse_interface(text: str) -> PortOption:
    """Parse PORT@INTERFACE."""
    port, at, interface = text.partition("@")
    if not at or not interface or not port.isdecimal():
        raise ValueError(f"'{text}': want PORT@INTERFACE, as in 1@veth1")
    if int(port) > 0xFFFF:
        raise ValueError(f"'{text}': a port number is at most {0xFFFF}")
    return PortOption(int(port), interface)


def parse_port_rate(text: str) -> tuple[int | None, int | None]:
    """Parse [PORT=]RATE into (port or None for all, bits per second or None for unlimited)."""
    port, equals, rate = text.rpartition("=")
    if equals and not port.isdecimal():
        raise ValueError(f"'{text}': want PORT=RATE, as in 1=10Gbps, or RATE for all ports")
    return (int(port) if equals else None), parse_rate(rate)


def parse_depth(text: str) -> DepthOption:
    """Parse [PORT[:QUEUE]=]DEPTH."""
    where, equals, depth = text.rpartition("=")
    port, colon, queue = where.partition(":")
    if (
        not depth.isdecimal()
        or (equals and not port.isdecimal())
        or (colon and not queue.isdecimal())
    ):
        raise ValueError(f"'{text}': want DEPTH, PORT=DEPTH or PORT:QUEUE=DEPTH with whole numbers")
    return DepthOption(int(depth), int(port) if equals else None, int(queue) if colon else None)


_FILE = click.Path(path_type=Path, dir_okay=False)


# -- the command ---------------------------------------------------------------------------


def _unused(*names: str, flag: bool = False) -> Callable[[Any], Any]:
    """Declare an option of simple_switch_grpc that is only recognised."""
    if flag:
        return click.option(*names, is_flag=True, hidden=True)
    return click.option(*names, hidden=True)


def _print_json_version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        click.echo(BMV2_JSON_VERSION)
        ctx.exit()


@click.command(
    "softswitch",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Other options of simple_switch_grpc are accepted where they have no meaning here "
    "(--thrift-port, say) and refused where they would promise something.",
)
@click.argument("program", required=False, type=_FILE)
@click.option(
    "-i",
    "--interface",
    "interfaces",
    multiple=True,
    metavar="PORT@INTERFACE",
    callback=_each(parse_interface),
    help="Attach a network interface as a port. Repeatable.",
)
@click.option(
    "--device-id",
    type=click.IntRange(0, 2**64 - 1),
    default=0,
    show_default=True,
    help="P4Runtime device id.",
)
@click.option("--no-p4", is_flag=True, help="Start without a program; a controller brings it.")
@click.option(
    "--pcap",
    type=click.Path(path_type=Path),
    metavar="[DIR]",
    help="Capture what each port receives and sends to INTERFACE_in.pcap and "
    "INTERFACE_out.pcap in a directory (default: the current one).",
)
@click.option("--log-console", is_flag=True, help="Log to stdout.")
@click.option(
    "--log-file",
    type=_FILE,
    metavar="NAME",
    help="Log to the file NAME.txt (simple_switch_grpc adds the ending, too).",
)
@click.option(
    "-L",
    "--log-level",
    type=click.Choice(list(_LEVELS)),
    default=None,
    help="Default: info with --log-console or --log-file; warn to stderr otherwise.",
)
@click.option(
    "--log-file-max-size",
    type=click.IntRange(1),
    default=5 * 1024 * 1024,
    show_default=True,
    help="Bytes of a log file before it is rotated.",
)
@click.option(
    "--log-file-max-files",
    type=click.IntRange(0),
    default=3,
    show_default=True,
    help="Rotated log files to keep.",
)
@click.option(
    "--dump-packet-data",
    "dump_bytes",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Log the first N bytes of every frame received and sent (level info).",
)
@click.option(
    "--grpc-server-addr",
    default=DEFAULT_GRPC_ADDRESS,
    show_default=True,
    metavar="ADDRESS:PORT",
    help="Where P4Runtime is served; port 0 = any free one.",
)
@click.option(
    "--cpu-port", type=click.IntRange(1, 0xFFFF), help="Port number for packet-in and packet-out."
)
@click.option(
    "--drop-port",
    type=click.IntRange(0, 0xFFFF),
    default=511,
    show_default=True,
    help="Port number that means drop.",
)
@click.option(
    "--priority-queues",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    help="Strict-priority queues per port; the highest number goes first.",
)
@click.option(
    "--max-mc-groups",
    type=click.IntRange(1),
    default=4096,
    show_default=True,
    help="Multicast groups there may be.",
)
@click.option(
    "--port-rate",
    "port_rates",
    multiple=True,
    metavar="[PORT=]RATE",
    callback=_each(parse_port_rate),
    help="Link rate of a port or of all ports: 10Gbps, 2.5Mbps, bits/s, unlimited. "
    "Counted on wire bytes (frame + 24). Repeatable.",
)
@click.option(
    "--queue-depth-packets",
    "depths_packets",
    multiple=True,
    metavar="[PORT[:QUEUE]=]N",
    callback=_each(parse_depth),
    help="Packets a queue holds at most. Repeatable.",
)
@click.option(
    "--queue-depth-bytes",
    "depths_bytes",
    multiple=True,
    metavar="[PORT[:QUEUE]=]N",
    callback=_each(parse_depth),
    help="Bytes a queue holds at most. Repeatable.",
)
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Seed of the program's random()."
)
@click.option(
    "--control-socket",
    type=_FILE,
    help="Unix socket for rates, depths, ports and counters while running "
    "(one JSON object a line).",
)
@click.option(
    "--ready-file",
    type=_FILE,
    help="File to write once the switch is ready; removed when it stops.",
)
@click.option(
    "--json-version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_json_version,
    help="Show the supported BMv2 JSON version.",
)
@click.version_option(
    importlib.metadata.version("mrc-reference"), "-v", "--version", message="softswitch %(version)s"
)
@_unused("--thrift-port")
@_unused("--notifications-addr")
@_unused("--max-port-count")
@_unused("--max-l1-entries")
@_unused("--max-l2-entries")
@_unused("--disable-swap", flag=True)
@_unused("--log-flush", flag=True)
@_unused("--use-files")
@_unused("--packet-in")
@_unused("--dp-grpc-server-addr")
@_unused("--nanolog")
@_unused("--debugger", flag=True)
@_unused("--debugger-addr")
@_unused("--restore-state")
@_unused("--load-modules")
@_unused("--grpc-server-ssl", flag=True)
@_unused("--grpc-server-cacert")
@_unused("--grpc-server-cert")
@_unused("--grpc-server-key")
@_unused("--grpc-server-with-client-auth", flag=True)
def command(**given: Any) -> None:
    """Run a BMv2 JSON PROGRAM on network interfaces, controlled by P4Runtime.

    A stand-in for simple_switch_grpc: the same command line, "--" included, starts it.

    \b
      softswitch -i 1@veth1 -i 2@veth2 --device-id 1 program.json
      softswitch -i 1@veth1 -i 2@veth2 --no-p4 -- --grpc-server-addr 127.0.0.1:9559 --cpu-port 510
    """
    _set_up_logging(given)
    options = _check(given)
    for name, why in _UNUSED.items():
        if given[name]:
            log.warning("--%s is accepted and not used: %s", name.replace("_", "-"), why)
    serve(options)


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the `softswitch` script."""
    # gRPC's core writes errors of its own to stderr; ours says the same in one line. It looks
    # at this when it is imported, so nothing above may import it.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    if sys.stdout is None:  # closed by whoever started this; nobody listens then
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115
    given = normalise(sys.argv[1:] if arguments is None else arguments)
    code = run_command(command, "softswitch", {CliError: FAILURE}, given)
    if code:
        sys.exit(code)


def normalise(arguments: Sequence[str]) -> list[str]:
    """Turn a simple_switch_grpc command line into one that click reads the same way.

    `--`, which separates that program's two option parsers, goes. `--pcap` may stand alone; then
    it means the current directory.
    """
    result: list[str] = []
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument == "--":
            continue
        if argument == "--pcap":
            bare = not rest or rest[0].startswith("-") or rest[0].endswith(".json")
            argument = "--pcap=." if bare else f"--pcap={rest.pop(0)}"
        result.append(argument)
    return result


def _check(given: dict[str, Any]) -> Options:
    """Check what click cannot: how options go together. Raises click.UsageError."""
    for name, why in _REFUSED.items():
        if given[name]:
            raise click.UsageError(f"--{name.replace('_', '-')} is not supported: {why}")
    program: Path | None = given["program"]
    if given["no_p4"] and program is not None:
        log.warning("%s is ignored because of --no-p4", program)
        program = None
    elif program is None and not given["no_p4"]:
        raise click.UsageError("give a BMv2 JSON program, or --no-p4 to start without one")
    drop_port, cpu_port = given["drop_port"], given["cpu_port"]
    if cpu_port == drop_port:
        raise click.UsageError(
            f"--cpu-port {cpu_port} is the drop port; choose another --cpu-port or --drop-port"
        )
    ports: dict[int, str] = {}
    for option in given["interfaces"]:
        if option.port in ports:
            raise click.UsageError(
                f"--interface: port {option.port} is given to both {ports[option.port]} "
                f"and {option.interface}"
            )
        if option.interface in ports.values():
            raise click.UsageError(f"--interface: {option.interface} is given two ports")
        for number, what in ((drop_port, "drop port"), (cpu_port, "CPU port")):
            if option.port == number:
                raise click.UsageError(
                    f"--interface {option.port}@{option.interface}: {option.port} is the {what}"
                )
        ports[option.port] = option.interface
    rates: dict[int | None, int | None] = {}
    for port, rate_bps in given["port_rates"]:
        _check_port("--port-rate", port, ports)
        rates[port] = rate_bps
    for name in ("depths_packets", "depths_bytes"):
        option_name = f"--queue-depth-{name.removeprefix('depths_')}"
        for depth in given[name]:
            _check_port(option_name, depth.port, ports)
            if depth.queue is not None and depth.queue >= given["priority_queues"]:
                raise click.UsageError(
                    f"{option_name}: queue {depth.queue} does not exist, "
                    f"--priority-queues is {given['priority_queues']}"
                )
    grpc_address: str = given["grpc_server_addr"]
    host, _, grpc_port = grpc_address.rpartition(":")
    is_unix = grpc_address.startswith("unix:") and grpc_address != "unix:"
    if not is_unix and (not host or not grpc_port.isdecimal() or int(grpc_port) > 0xFFFF):
        raise click.UsageError(
            f"--grpc-server-addr {grpc_address}: want ADDRESS:PORT, "
            f"as in {DEFAULT_GRPC_ADDRESS}, or unix:PATH"
        )
    pcap: Path | None = given["pcap"]
    if pcap is not None and not pcap.is_dir():
        raise click.UsageError(f"--pcap: {pcap} is not a directory")
    return Options(
        program=program,
        interfaces=given["interfaces"],
        device_id=given["device_id"],
        grpc_address=given["grpc_server_addr"],
        cpu_port=cpu_port,
        drop_port=drop_port,
        priority_queues=given["priority_queues"],
        max_mc_groups=given["max_mc_groups"],
        seed=given["seed"],
        pcap=pcap,
        dump_bytes=given["dump_bytes"],
        ready_file=given["ready_file"],
        control_socket=given["control_socket"],
        port_rates=rates,
        depths_packets=given["depths_packets"],
        depths_bytes=given["depths_bytes"],
    )


def _check_port(option: str, port: int | None, ports: dict[int, str]) -> None:
    if port is not None and port not in ports:
        known = ", ".join(map(str, ports)) or "none"
        raise click.UsageError(f"{option}: port {port} has no --interface (ports: {known})")


def _set_up_logging(given: dict[str, Any]) -> None:
    """Log where and as much as asked for."""
    handler: logging.Handler
    if given["log_console"] and given["log_file"]:
        raise click.UsageError("--log-console and --log-file exclude each other")
    if given["log_file"]:
        try:
            handler = logging.handlers.RotatingFileHandler(
                f"{given['log_file']}.txt",
                maxBytes=given["log_file_max_size"],
                backupCount=given["log_file_max_files"],
            )
        except OSError as error:
            raise click.UsageError(
                f"--log-file {given['log_file']} (.txt): {error.strerror}"
            ) from None
    elif given["log_console"]:
        handler = logging.StreamHandler(sys.stdout)
    else:
        handler = logging.StreamHandler(sys.stderr)
    asked_for = given["log_console"] or given["log_file"]
    level = _LEVELS[given["log_level"] or ("info" if asked_for else "warn")]
    logging.basicConfig(
        level=level, handlers=[handler], format=_LOG_FORMAT, datefmt=_LOG_TIME_FORMAT, force=True
    )


# -- running -------------------------------------------------------------------------------


def serve(options: Options) -> None:
    """Build the switch, run it until it is told to stop, account for it.

    Raises:
        CliError: something needed cannot be had.
    """
    # What an earlier run left behind must not look like this one being ready.
    if options.ready_file is not None:
        try:
            options.ready_file.unlink(missing_ok=True)
        except OSError as error:
            raise CliError(f"--ready-file {options.ready_file}: {error.strerror}") from None
    program = None if options.program is None else read_program(options.program)
    switch = Switch(
        seed=options.seed,
        drop_port=options.drop_port,
        cpu_port=options.cpu_port,
        priority_queues=options.priority_queues,
        max_multicast_groups=options.max_mc_groups,
    )
    if program is not None:
        try:
            switch.load(program)
        except UnsupportedProgram as error:
            raise CliError(f"{options.program}: {error}") from None
        except (MemoryError, OverflowError):
            raise CliError(
                f"{options.program}: its registers, counters and meters do not fit into memory"
            ) from None
    runtime = Runtime(switch, dump_bytes=options.dump_bytes)
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(runtime.close)
        cleanup.enter_context(_signals(runtime.stop))
        try:
            _attach_interfaces(runtime, options)
            if options.control_socket is not None:
                control = ControlSocket(options.control_socket, runtime)
                cleanup.callback(control.close)
        except (PortError, ControlError, SwitchError, TrafficManagerError) as error:
            raise CliError(str(error)) from None
        grpc_address = _start_grpc(runtime, options, cleanup)
        _say_ready(options, grpc_address, cleanup)
        # What is there now stays: a garbage collection, during which no packet is forwarded, need
        # not look at it every time.
        gc.freeze()
        runtime.run()
        stats = runtime.stats()
        _say(f"stopped: {format_summary(stats)}")


def read_program(path: Path) -> Program:
    """Read a BMv2 JSON file.

    Raises:
        CliError: it cannot be read, is no JSON or uses what is not supported.
    """
    try:
        text = path.read_text()
    except UnicodeDecodeError:
        raise CliError(f"{path}: not a text file") from None
    except OSError as error:
        raise CliError(f"{path}: {error.strerror}") from None
    try:
        return load_program(text)
    except UnsupportedProgram as error:
        raise CliError(f"{path}: {error}") from None


def _attach_interfaces(runtime: Runtime, options: Options) -> None:
    switch = runtime.switch
    default_rate = options.port_rates.get(None)
    # Defaults first, then what is said about single ports, whatever the order on the line.
    for depth in _depths(options, of_all_ports=True):
        switch.set_queue_depth(None, None, **depth)
    for option in options.interfaces:
        driver = AfPacketPort(option.interface)
        capture = None
        if options.pcap is not None:
            try:
                capture = PortCapture(options.pcap, option.interface)
            except PortError:
                driver.close()
                raise
        rate_bps = options.port_rates.get(option.port, default_rate)
        runtime.attach(option.port, driver, capture=capture, rate_bps=rate_bps)
        log.info("port %d is %s, %s", option.port, option.interface, format_rate(rate_bps))
    for depth in _depths(options, of_all_ports=False):
        port, queue = depth.pop("port"), depth.pop("queue")
        switch.set_queue_depth(port, queue, **depth)


def _depths(options: Options, *, of_all_ports: bool) -> Iterator[dict[str, Any]]:
    """Keyword arguments of `set_queue_depth`, whole ports before single queues."""
    for unit, depths in (
        ("depth_packets", options.depths_packets),
        ("depth_bytes", options.depths_bytes),
    ):
        if of_all_ports:
            yield from ({unit: each.depth} for each in depths if each.port is None)
            continue
        for each in sorted(depths, key=lambda each: each.queue is not None):
            if each.port is not None:
                yield {unit: each.depth, "port": each.port, "queue": each.queue}


def _start_grpc(runtime: Runtime, options: Options, cleanup: contextlib.ExitStack) -> str:
    """Start the P4Runtime server; return the address it listens on."""
    from softswitch.p4runtime.server import P4RuntimeServer, ServerError

    server = P4RuntimeServer(runtime, options.device_id, options.grpc_address)
    try:
        server.start()
    except ServerError as error:
        raise CliError(f"--grpc-server-addr: {error}") from None
    cleanup.callback(server.stop)
    return server.address


def _say_ready(options: Options, grpc_address: str, cleanup: contextlib.ExitStack) -> None:
    """Tell that packets flow and requests are answered from now on."""
    ports = ",".join(f"{option.port}@{option.interface}" for option in options.interfaces)
    line = (
        f"ready: device_id={options.device_id} grpc={grpc_address} ports={ports} pid={os.getpid()}"
    )
    if options.ready_file is not None:
        path = options.ready_file
        # Renamed into place, so that whoever sees it sees all of it.
        unfinished = path.with_name(f"{path.name}.{os.getpid()}")
        try:
            unfinished.write_text(line + "\n")
            unfinished.replace(path)
        except OSError as error:
            raise CliError(f"--ready-file {path}: {error.strerror}") from None
        cleanup.callback(path.unlink, missing_ok=True)
    _say(line)


def _say(line: str) -> None:
    """Print a line; whoever started the switch need not listen any more."""
    with contextlib.suppress(OSError):
        click.echo(line)
        sys.stdout.flush()


@contextlib.contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    """Let SIGINT and SIGTERM stop the loop."""
    before = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        before[number] = signal.signal(number, lambda *_: stop())
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
