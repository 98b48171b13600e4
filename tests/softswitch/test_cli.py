"""The command line: what it takes, what it refuses, and a switch started by it."""

from __future__ import annotations

import logging
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc

from softswitch import cli
from softswitch.control_socket import ControlClient
from tests.softswitch.namespaces import namespaces, veth

WAIT_S = 30


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    """The command sets up logging for its process; here that is ours."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> list[cli.Options]:
    """What would have been served."""
    served: list[cli.Options] = []
    monkeypatch.setattr(cli, "serve", served.append)
    return served


def run(*arguments: str) -> None:
    cli.main(arguments)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 2) -> str:
    """Run what must fail; return the one line on stderr."""
    with pytest.raises(SystemExit) as exit_info:
        run(*arguments)
    captured = capsys.readouterr()
    assert exit_info.value.code == code
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("softswitch: ")
    return line


# -- parsing -------------------------------------------------------------------------------


def test_a_command_line_of_simple_switch_grpc(options: list[cli.Options], tmp_path: Path) -> None:
    run(
        *("--device-id", "1", "--no-p4", "-i", "1@veth1", "--interface", "2@veth2"),
        *("--thrift-port", "9090", "-L", "warn", "--log-console", f"--pcap={tmp_path}"),
        *("--max-port-count", "32", "--notifications-addr", "ipc:///tmp/x", "--", "--disable-swap"),
        *("--grpc-server-addr", "127.0.0.1:50051", "--cpu-port", "255", "--drop-port", "510"),
        *("--priority-queues", "2", "--max-mc-groups", "10", "--max-l1-entries", "5"),
    )
    (given,) = options
    assert given.device_id == 1
    assert given.program is None
    assert given.interfaces == (cli.PortOption(1, "veth1"), cli.PortOption(2, "veth2"))
    assert given.pcap == tmp_path
    assert given.grpc_address == "127.0.0.1:50051"
    assert (given.cpu_port, given.drop_port) == (255, 510)
    assert (given.priority_queues, given.max_mc_groups) == (2, 10)


def test_own_options(options: list[cli.Options]) -> None:
    run(
        *("p.json", "-i", "1@a", "-i", "2@b", "--priority-queues", "2", "--seed", "7"),
        *("--port-rate", "10Gbps", "--port-rate", "2=unlimited"),
        *("--queue-depth-packets", "100", "--queue-depth-packets", "1:1=5"),
        *("--queue-depth-bytes", "1=9000", "--ready-file", "r", "--control-socket", "c"),
    )
    (given,) = options
    assert given.program == Path("p.json")
    assert given.port_rates == {None: 10**10, 2: None}
    assert given.depths_packets == (cli.DepthOption(100), cli.DepthOption(5, 1, 1))
    assert given.depths_bytes == (cli.DepthOption(9000, 1),)
    assert (given.seed, given.ready_file, given.control_socket) == (7, Path("r"), Path("c"))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--pcap"], ["--pcap=."]),
        (["--pcap", "-i", "1@x"], ["--pcap=.", "-i", "1@x"]),
        (["--pcap", "p.json"], ["--pcap=.", "p.json"]),
        (["--pcap", "dir", "p.json"], ["--pcap=dir", "p.json"]),
        (["--pcap=dir"], ["--pcap=dir"]),
        (["a", "--", "--b", "--", "c"], ["a", "--b", "c"]),
    ],
)
def test_normalise(arguments: list[str], expected: list[str]) -> None:
    assert cli.normalise(arguments) == expected


def test_defaults(options: list[cli.Options]) -> None:
    run("p.json")
    (given,) = options
    assert given.grpc_address == "127.0.0.1:9559"  # loopback unless told otherwise
    assert (given.device_id, given.drop_port, given.cpu_port, given.priority_queues) == (
        0,
        511,
        None,
        1,
    )
    assert given.pcap is None


def test_unused_options_are_named_once(
    options: list[cli.Options], capsys: pytest.CaptureFixture[str]
) -> None:
    run("--no-p4", "--thrift-port", "9090", "--log-flush")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert "--thrift-port is accepted and not used: there is no Thrift server" in lines[0]
    assert "--log-flush is accepted and not used" in lines[1]
    assert len(options) == 1


def test_a_program_with_no_p4_is_ignored_aloud(
    options: list[cli.Options], capsys: pytest.CaptureFixture[str]
) -> None:
    run("--no-p4", "p.json")
    assert options[0].program is None
    assert "p.json is ignored because of --no-p4" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give a BMv2 JSON program, or --no-p4"),
        (["--no-p4", "-i", "veth1"], "'veth1': want PORT@INTERFACE, as in 1@veth1"),
        (["--no-p4", "-i", "65536@veth1"], "a port number is at most 65535"),
        (["--no-p4", "--device-id", str(2**64)], "is not in the range"),
        (["--no-p4", "-i", "x@veth1"], "'x@veth1': want PORT@INTERFACE"),
        (["--no-p4", "-i", "1@"], "'1@': want PORT@INTERFACE"),
        (["--no-p4", "-i", "1@a", "-i", "1@b"], "port 1 is given to both a and b"),
        (["--no-p4", "-i", "1@a", "-i", "2@a"], "a is given two ports"),
        (["--no-p4", "-i", "511@a"], "511 is the drop port"),
        (["--no-p4", "-i", "5@a", "--cpu-port", "5"], "5 is the CPU port"),
        (["--no-p4", "--cpu-port", "511"], "--cpu-port 511 is the drop port"),
        (["--no-p4", "--cpu-port", "0"], "0 is not in the range"),
        (["--no-p4", "--port-rate", "1=fast"], "rate 'fast': want a positive whole number"),
        (["--no-p4", "--port-rate", "x=1"], "'x=1': want PORT=RATE"),
        (["--no-p4", "-i", "1@a", "--port-rate", "2=1"], "port 2 has no --interface (ports: 1)"),
        (["--no-p4", "--queue-depth-packets", "many"], "'many': want DEPTH, PORT=DEPTH"),
        (["--no-p4", "--queue-depth-bytes", "1:=5"], "'1:=5': want DEPTH"),
        (
            ["--no-p4", "-i", "1@a", "--queue-depth-bytes", "1:1=5"],
            "queue 1 does not exist, --priority-queues is 1",
        ),
        (["--no-p4", "--grpc-server-addr", "9559"], "--grpc-server-addr 9559: want ADDRESS:PORT"),
        (["--no-p4", "--grpc-server-addr", "a:99999"], "a:99999: want ADDRESS:PORT"),
        (["--no-p4", "--pcap=/no/such"], "--pcap: /no/such is not a directory"),
        (["--no-p4", "-L", "loud"], "'loud' is not one of"),
        (["--no-p4", "--log-console", "--log-file", "x"], "exclude each other"),
        (["--no-p4", "--log-file", "/no/such/log"], "--log-file /no/such/log (.txt): No such file"),
        (["--no-p4", "--restore-state", "x"], "--restore-state is not supported"),
        (["--no-p4", "--use-files", "1"], "--use-files is not supported"),
        (["--no-p4", "--debugger"], "--debugger is not supported: there is no debugger"),
        (["--no-p4", "--grpc-server-ssl"], "--grpc-server-ssl is not supported"),
        (["--no-p4", "--nonsense"], "--nonsense"),
        (["a.json", "b.json"], "b.json"),
    ],
)
def test_usage_errors_are_one_line(
    options: list[cli.Options],
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    words: str,
) -> None:
    assert words in refused(capsys, *arguments)
    assert options == []


# As the P4 tutorials' Makefile, p4c's tests, Mininet scripts and Docker images start it.
COMMON_LINES = (
    "-i 1@s1-eth1 -i 2@s1-eth2 --pcap pcaps --nanolog ipc:///tmp/bm-0-log.ipc --device-id 0 "
    "basic.json --log-console --thrift-port 9090 -- --grpc-server-addr 0.0.0.0:50051",
    "-i 1@eth1 -i 2@eth2 --thrift-port 9090 --device-id 1 basic.json -- "
    "--grpc-server-addr 0.0.0.0:50051 --cpu-port 255",
    "--log-file ss-log --log-flush --dump-packet-data 10000 -i 0@veth0 -i 1@veth2 --no-p4",
    "--no-p4 -i 1@vtap1 -i 2@vtap2 --log-console -L trace -- "
    "--grpc-server-addr 0.0.0.0:50051 --cpu-port 192",
    "-i 0@veth0 -i 1@veth1 myprog.json --log-console -- --cpu-port 255 "
    "--grpc-server-addr 127.0.0.1:50051",
    "--no-p4 --device-id 0 --log-console -L info -i 0@lo -- --grpc-server-addr 0.0.0.0:50051",
    "--no-p4 -- --grpc-server-addr 0.0.0.0:50051 --cpu-port 1010",
    "--no-p4 --interface 0@veth2 --interface 1@veth4 -- --grpc-server-addr 127.0.0.1:50052",
)


@pytest.mark.parametrize("line", COMMON_LINES)
def test_command_lines_in_use_are_taken(
    options: list[cli.Options], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pcaps").mkdir()
    run(*line.split())
    (taken,) = options
    assert len(taken.interfaces) == line.count("@")
    assert (taken.program is None) == ("--no-p4" in line)


def test_the_log_file_is_where_simple_switch_grpc_puts_it(
    options: list[cli.Options], tmp_path: Path
) -> None:
    run("--no-p4", "--log-file", str(tmp_path / "ss-log"), "--thrift-port", "9090")
    assert "--thrift-port is accepted and not used" in (tmp_path / "ss-log.txt").read_text()


# What `simple_switch_grpc --help` lists (1.15), without --help.
THEIR_OPTIONS = """
interface pcap use-files thrift-port device-id nanolog log-console log-file log-level log-flush
log-file-max-size log-file-max-files restore-state dump-packet-data version json-version no-p4
max-port-count load-modules disable-swap grpc-server-addr grpc-server-ssl grpc-server-cacert
grpc-server-cert grpc-server-key grpc-server-with-client-auth cpu-port drop-port
dp-grpc-server-addr priority-queues max-mc-groups max-l1-entries max-l2-entries
notifications-addr packet-in debugger debugger-addr
""".split()  # noqa: SIM905


@pytest.mark.parametrize("name", THEIR_OPTIONS)
def test_no_option_of_simple_switch_grpc_is_unknown(
    options: list[cli.Options],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    name: str,
) -> None:
    """Done, or accepted, or refused with a reason; 1 is right or understandably wrong for all."""
    monkeypatch.chdir(tmp_path)  # "1" is a file to some
    option = f"--{name}"
    parameter = next(each for each in cli.command.params if option in each.opts)
    takes_value = not getattr(parameter, "is_flag", False)
    try:
        run("--no-p4", option, *(["1"] if takes_value else []))
    except SystemExit:
        line = capsys.readouterr().err
        assert "No such option" not in line
        assert option in line or "'-i'" in line


def test_help_and_versions(capsys: pytest.CaptureFixture[str]) -> None:
    run("--help")
    text = capsys.readouterr().out
    for option in ("--interface", "--port-rate", "--control-socket", "--ready-file"):
        assert option in text
    run("--json-version")
    assert capsys.readouterr().out == f"{cli.BMV2_JSON_VERSION}\n"
    run("--version")
    assert capsys.readouterr().out.startswith("softswitch ")


# -- failures at the start -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "No such file or directory"),
        (b"{", "not JSON"),
        (b"[]", "not a BMv2 program"),
        (b'{"header_types": "x", "pipelines": []}', "'header_types' is not a list"),
        (b'{"header_types": [], "pipelines": []}', "0 parsers: v1model has one"),
        (
            b'{"header_types": [],'
            b'"parsers": [{"name": "p", "init_state": null, "parse_states": []}],'
            b'"deparsers": [{"name": "d", "order": []}], "pipelines": ['
            b'{"name": "ingress", "init_table": null, "tables": [], "conditionals": []},'
            b'{"name": "egress", "init_table": null, "tables": [], "conditionals": []}],'
            b'"register_arrays": [{"name": "r", "size": 1000000000000000000, "bitwidth": 8}]}',
            "do not fit into memory",
        ),
        (b"\xff\xfe", "not a text file"),
    ],
)
def test_programs_that_cannot_be_loaded(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: bytes | None, words: str
) -> None:
    path = tmp_path / "program.json"
    if content is not None:
        path.write_bytes(content)
    line = refused(capsys, str(path), code=1)
    assert line.startswith(f"softswitch: {path}: ")
    assert words in line


def test_an_interface_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    line = refused(capsys, "--no-p4", "-i", "1@nope0", code=1)
    assert line == "softswitch: interface nope0: there is no such interface here"


def test_without_privilege(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def deny(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(socket, "socket", deny)
    line = refused(capsys, "--no-p4", "-i", "1@lo", code=1)
    assert line.startswith("softswitch: interface lo: raw sockets need root or CAP_NET_RAW")


def test_a_busy_grpc_address(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(SystemExit) as exit_info:
            run("--no-p4", "--grpc-server-addr", address)
    assert exit_info.value.code == 1
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("softswitch")]
    assert len(lines) == 1
    assert f"--grpc-server-addr: cannot listen on {address}" in lines[0]


def test_grpc_says_nothing_of_its_own() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "softswitch", "--no-p4", "--grpc-server-addr", "unix:/no/such"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    assert len(ran.stderr.splitlines()) == 1


def test_files_that_cannot_be_made(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    free = ("--no-p4", "--grpc-server-addr", "127.0.0.1:0")
    line = refused(capsys, *free, "--ready-file", str(tmp_path / "no" / "r"), code=1)
    assert "--ready-file" in line
    assert "No such file or directory" in line
    (tmp_path / "file").touch()
    line = refused(capsys, *free, "--ready-file", str(tmp_path / "file" / "r"), code=1)
    assert "Not a directory" in line
    line = refused(capsys, *free, "--control-socket", str(tmp_path / "no" / "c"), code=1)
    assert "control socket" in line


# -- a running switch ----------------------------------------------------------------------


class Running:
    """A softswitch process that said it is ready."""

    def __init__(self, *arguments: str, prefix: tuple[str, ...] = ()) -> None:
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "softswitch", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], WAIT_S)[0]
        self.ready = self.process.stdout.readline()
        assert self.ready.startswith("ready: "), self.process.communicate()
        self.fields = dict(
            part.split("=", 1) for part in self.ready.removeprefix("ready: ").split()
        )

    def stop(self, number: int = signal.SIGTERM) -> str:
        """Stop the process and return what it said at last."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=WAIT_S)
        assert self.process.returncode == 0
        assert err == ""
        return out

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


FREE = ("--", "--grpc-server-addr", "127.0.0.1:0")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ready_and_stopped_by_signal(tmp_path: Path, number: int) -> None:
    ready_file = tmp_path / "ready"
    ready_file.write_text("of an earlier run")
    arguments = ("--no-p4", "--device-id", "7", "--ready-file", str(ready_file))
    with Running(*arguments, *FREE) as switch:
        assert ready_file.read_text() == switch.ready
        assert switch.fields["device_id"] == "7"
        assert switch.fields["ports"] == ""
        assert int(switch.fields["pid"]) == switch.process.pid
        with grpc.insecure_channel(switch.fields["grpc"]) as channel:
            stub = p4runtime_pb2_grpc.P4RuntimeStub(channel)
            answer = stub.Capabilities(p4runtime_pb2.CapabilitiesRequest(), timeout=WAIT_S)
        assert answer.p4runtime_api_version.startswith("1.")
        said = switch.stop(number)
    assert said == "stopped: received=0 copies=0 sent=0 queued=0 dropped=0\n"
    assert list(tmp_path.iterdir()) == []


def test_quit_by_control_socket(tmp_path: Path) -> None:
    path = tmp_path / "control"
    with Running("--no-p4", "--control-socket", str(path), *FREE) as switch:
        with ControlClient(path) as client:
            assert client.request("stats")["stats"]["received"] == 0
            client.request("quit")
        out, err = switch.process.communicate(timeout=WAIT_S)
        assert (switch.process.returncode, err) == (0, "")
        assert out.startswith("stopped: ")


@pytest.mark.netns
def test_interfaces_rates_and_captures_from_the_command_line(tmp_path: Path) -> None:
    control = tmp_path / "control"
    with namespaces("s", "h") as (middle, host):
        veth(middle, "sw1", host, "h1")
        veth(middle, "sw2", host, "h2")
        arguments = (
            *("--no-p4", "-i", "1@sw1", "-i", "2@sw2", "--pcap", str(tmp_path)),
            *("--port-rate", "1Gbps", "--port-rate", "2=2.5Mbps", "--queue-depth-packets", "9"),
            *("--queue-depth-packets", "2:1=5", "--queue-depth-bytes", "2=7000"),
            *("--control-socket", str(control), "--priority-queues", "2"),
        )
        with Running(*arguments, *FREE, prefix=tuple(middle.command())) as switch:
            assert switch.fields["ports"] == "1@sw1,2@sw2"
            raw = host.raw_socket("h1")
            frame = b"\xff" * 12 + b"\x88\xb5" + bytes(100)
            raw.send(frame)
            raw.close()
            with ControlClient(control) as client:
                while True:
                    stats = client.request("stats")["stats"]
                    if stats["received"]:
                        break
            said = switch.stop()
    one, two = stats["ports"]["1"], stats["ports"]["2"]
    assert (one["interface"], one["up"], one["rate_bps"]) == ("sw1", True, 10**9)
    assert (two["interface"], two["up"], two["rate_bps"]) == ("sw2", True, 2_500_000)
    assert [queue["depth_packets"] for queue in one["queues"]] == [9, 9]
    assert [queue["depth_packets"] for queue in two["queues"]] == [9, 5]
    assert [queue["depth_bytes"] for queue in two["queues"]] == [7000, 7000]
    assert stats["dropped"] == {"no_pipeline": 1}
    assert said == "stopped: received=1 copies=0 sent=0 queued=0 dropped=1 (no_pipeline=1)\n"
    captured = (tmp_path / "sw1_in.pcap").read_bytes()
    assert captured.endswith(frame)
    assert {path.name for path in tmp_path.iterdir()} == {
        f"{name}_{way}.pcap" for name in ("sw1", "sw2") for way in ("in", "out")
    }
