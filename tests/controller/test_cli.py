"""`mrc-controller` as its user sees it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from google.rpc import code_pb2
from p4.v1 import p4runtime_pb2

from controller import cli
from controller import fabric_program as p4
from controller.codec import encode
from controller.entries import ActionCall, TableEntry
from controller.p4info import Schema
from tests.controller.conftest import FakeFabric
from topologies.host_config import host_config, parse_host_json
from topologies.loader import load_topology, ready_topologies


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*args: str | Path) -> Ran:
        with pytest.raises(SystemExit) as stopped:
            cli.main([str(arg) for arg in args])
        captured = capsys.readouterr()
        assert isinstance(stopped.value.code, int)
        for line in captured.err.splitlines():
            assert line.startswith("mrc-controller: ")
        return Ran(stopped.value.code, captured.out, captured.err)

    return run


# --- plan ---


def test_plan_counts_by_default(run: Run) -> None:
    ran = run("plan")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(
        "two-plane: 2 planes, 2 T0 and 2 T1 in each, 2 hosts per T0: 8 switches, 4 hosts, 16 links"
    )
    assert "216 entries in all" in ran.out
    rows = {line.split()[0]: line.split() for line in ran.out.splitlines() if line}
    assert rows["p1-t0-1"][-1] == "32"
    assert rows["p1-t1-1"][-1] == "22"
    assert rows["h3"] == ["h3", "fd4d:5243:0:1::2", "1", "1"]


def test_plan_of_a_large_fabric_is_summed_up(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    path.write_text("planes: 4\nt0_per_plane: 12\nt1_per_plane: 6\nhosts_per_t0: 1\n")
    ran = run("plan", path)
    assert "4 planes, 12 T0 and 6 T1 in each, 1 host per T0: 72 switches" in ran.out
    lines = [line for line in ran.out.splitlines() if line.startswith("plane ")]
    assert len(lines) == 8
    assert lines[0].split()[:4] == ["plane", "0,", "T0", "12"]


def test_plan_of_a_switch_for_people_and_machines(run: Run) -> None:
    text = run("plan", "one-plane", "--switch", "p0-t0-1").out
    assert "p0-t0-1: device 2049, SID 5f00:0:801::/48" in text
    assert "FabricIngress.srv6.next_sid → to_port, 4 entries" in text
    assert "02:00:08:01:00:03  02:00:10:01:00:01" in text
    document = json.loads(run("plan", "one-plane", "--switch", "p0-t0-1", "--format", "json").out)
    assert document["switch"] == "p0-t0-1"
    by_table = {(e.get("table"), e.get("action")): e for e in document["entries"]}
    block = by_table["FabricIngress.srv6.next_sid", "FabricIngress.srv6.to_port"]
    assert block["columns"] == ["sid", "egress_port"]
    assert block["rows"][2] == ["5f00:0:1000::/48", 2]


def test_plan_of_a_host_reads_back(run: Run) -> None:
    fabric = load_topology(ready_topologies()["one-plane"])
    text = run("plan", "one-plane", "--host", "h2").out
    assert "h2: fd4d:5243:0:1::1, downlink 0 of T0 1" in text
    assert "5f00:0:801:1000:800:1800::" in text
    document = run("plan", "one-plane", "--host", "h2", "--format", "json").out
    assert parse_host_json(document) == host_config(fabric, fabric.host("h2"))


def test_whole_plan_as_json_lines(run: Run) -> None:
    lines = [json.loads(line) for line in run("plan", "--format", "json").out.splitlines()]
    kinds = [next(iter(line)) for line in lines]
    assert kinds == ["switch"] * 8 + ["rack", "host", "host"] * 2
    # A rack's line and a host's line together are the host's file
    host = parse_host_json(json.dumps({**lines[8]["rack"], **lines[10]["host"]}))
    fabric = load_topology(ready_topologies()["two-plane"])
    assert host == host_config(fabric, fabric.host("h1"))


def test_plan_into_files(run: Run, tmp_path: Path) -> None:
    ran = run("plan", "one-plane", "--output", tmp_path / "out")
    assert ran.out == f"{tmp_path}/out: 4 switches and 4 hosts written\n"
    files = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.json"))
    assert files == [
        *(f"out/hosts/h{number}.json" for number in range(4)),
        *(f"out/switches/p0-{switch}.json" for switch in ("t0-0", "t0-1", "t1-0", "t1-1")),
    ]
    switch = json.loads((tmp_path / "out/switches/p0-t1-0.json").read_text())
    assert switch["device_id"] == 0x1000


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["plan", "nope"], "nope: no such file or ready topology; `mrc-topology list` names"),
        (["plan", "--switch", "p0-t0-2"], "p0-t0-2 is not in two-plane, which has planes 0..1"),
        (["plan", "--switch", "t0"], "'t0' is not the name of a switch; write for example p0-t0-1"),
        (["plan", "--host", "h4"], "h4 is not in two-plane, which has hosts h0..h3"),
        (["plan", "--host", "x"], "'x' is not the name of a host; write for example h3"),
        (["plan", "--host", "h0", "--switch", "p0-t0-0"], "exclude each other"),
        (["plan", "--bogus"], "No such option"),
        (["bogus"], "No such command 'bogus'"),
        (["install", "paper-scale"], "a T0 needs 512 ports, the target has 511"),
        (["install", "--switch", "p5-t0-0"], "p5-t0-0 is not in two-plane"),
        (["install", "--switches", "/nonexistent/x.yaml"],
         "/nonexistent/x.yaml: cannot be read: No such file or directory"),
        (["install", "--timeout", "0"], "Invalid value for '--timeout'"),
        (["install", "--timeout", "inf"], "'--timeout': inf is not a number of seconds"),
        (["install", "--wait", "nan"], "'--wait': nan is not a number of seconds"),
        (["install", "--p4info", "/nonexistent/x"], "/nonexistent/x: cannot be read"),
        (["show", "p0-t0-9"], "p0-t0-9 is not in two-plane"),
        (["diff", "two-plane", "nope"], "nope: no such file"),
        (["diff", "one-plane", "p1-t0-0"], "p1-t0-0 is not in one-plane"),
        (["shell", "h0"], "'h0' is not the name of a switch"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_and_exit_2(run: Run, args: list[str], message: str) -> None:
    ran = run(*args)
    assert ran.code == 2
    assert message in ran.err
    assert len(ran.err.splitlines()) == 1
    assert ran.out == ""


def test_every_problem_of_a_topology_is_a_line(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("planes: 99\nt0_per_plane: 1\nt1_per_plane: 1\nhosts_per_t0: one\n")
    ran = run("plan", path)
    assert ran.code == 2
    assert ran.err == (
        f"mrc-controller: {path}:1: planes: 99 is too large: it must be at most 8\n"
        f"mrc-controller: {path}:4: hosts_per_t0: 'one' is not an integer\n"
    )


# --- install and verify ---


def test_install_verify_and_again(run: Run, fake_fabric: FakeFabric) -> None:
    files = ("--switches", fake_fabric.file)
    before = run("verify", "one-plane", *files)
    assert before.code == 1
    assert before.err.count("has no program: install it") == 4

    first = run("install", "one-plane", *files)
    assert (first.code, first.err) == (0, "")
    assert first.out == (
        "4 of 4 switches installed: program loaded on 4, 108 written, 0 deleted, "
        "108 entries verified\n"
    )
    again = run("install", "one-plane", "-v", *files)
    assert again.out.splitlines() == [
        "p0-t0-0: 0 written, 0 deleted, 32 entries verified",
        "p0-t0-1: 0 written, 0 deleted, 32 entries verified",
        "p0-t1-0: 0 written, 0 deleted, 22 entries verified",
        "p0-t1-1: 0 written, 0 deleted, 22 entries verified",
        "4 of 4 switches installed: program loaded on 0, 0 written, 0 deleted, "
        "108 entries verified",
    ]
    after = run("verify", "one-plane", *files)
    assert (after.code, after.err) == (0, "")
    assert after.out == "4 switches as planned, 0 differ in 0 entries, 0 not compared\n"


def test_a_dead_switch_is_named_and_the_rest_installed(run: Run, fake_fabric: FakeFabric) -> None:
    fake_fabric.addresses["p0-t0-1"] = "unix:/nonexistent.sock"
    fake_fabric.write_addresses()
    ran = run("install", "one-plane", "--switches", fake_fabric.file)
    assert ran.code == 1
    assert ran.out.startswith("3 of 4 switches installed: program loaded on 3, ")
    assert ran.err == (
        "mrc-controller: p0-t0-1 (unix:/nonexistent.sock) does not answer: "
        "No such file or directory\n"
    )
    assert [switch.pipelines_set for switch in fake_fabric.switches.values()] == [1, 0, 1, 1]


def test_verify_prints_differences_with_names(
    run: Run, fake_fabric: FakeFabric, schema: Schema
) -> None:
    run("install", "one-plane", "--switches", fake_fabric.file)
    entry = TableEntry(p4.NEXT_SID.name, (0x5F00000017FF,), ActionCall(p4.SID_TO_PORT.name, (1,)))
    fake_fabric.switches["p0-t1-0"].put(encode(entry, schema))
    ran = run("verify", "one-plane", "--switches", fake_fabric.file)
    assert ran.code == 1
    assert ran.out.splitlines() == [
        "p0-t1-0: extra FabricIngress.srv6.next_sid[sid=5f00:0:17ff::/48] → to_port(egress_port=1)",
        "3 switches as planned, 1 differ in 1 entry, 0 not compared",
    ]


def test_one_switch_only(run: Run, fake_fabric: FakeFabric) -> None:
    files = ("--switches", fake_fabric.file, "--switch", "p0-t1-1")
    assert run("install", "one-plane", *files).out.startswith("1 of 1 switch installed")
    assert [switch.pipelines_set for switch in fake_fabric.switches.values()] == [0, 0, 0, 1]


def test_a_refused_entry_is_exit_1(run: Run, fake_fabric: FakeFabric) -> None:
    fake_fabric.switches["p0-t0-0"].refuse = lambda update: (
        (code_pb2.RESOURCE_EXHAUSTED, "full")
        if update.entity.HasField("action_profile_group")
        else None
    )
    ran = run("install", "one-plane", "--switches", fake_fabric.file)
    assert ran.code == 1
    assert (
        "refused 1 of 1 updates: insert FabricIngress.routing.ecmp[group 1]: "
        "RESOURCE_EXHAUSTED: full" in ran.err
    )


def test_lost_primary_is_one_line(run: Run, fake_fabric: FakeFabric) -> None:
    switch = fake_fabric.switches["p0-t0-0"]
    switch.rival_election_id = 9
    files = ("--switches", fake_fabric.file, "--switch", "p0-t0-0")
    ran = run("install", "one-plane", *files)
    assert ran.code == 1
    assert "another controller is primary with election id 9, ours is 1" in ran.err
    assert run("install", "one-plane", *files, "--election-id", "10").code == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("p0-t0-0: 127.0.0.1:1\n", "no address is given for p0-t0-1"),
        ("p9-t0-0: 127.0.0.1:1\n", "p9-t0-0: plane 9 does not fit"),
        ("p0-t0-0: 127\n", "p0-t0-0: 127 is not an address; write for example 127.0.0.1:50001"),
        ("p0-t0-0: localhost\n", "p0-t0-0: 'localhost' is not an address"),
        ("p0-t0-0: localhost:99999\n", "p0-t0-0: 'localhost:99999' is not an address"),
        ("p0-t0-0: 'unix:'\n", "p0-t0-0: 'unix:' is not an address"),
        ("p0-t0-0: 1:1\np0-t0-0: 2:2\n", "found duplicate key"),
        ("p0-t0-0: " + "[" * 5000, "is nested too deep"),
        ("p0-t0-0: {adress: '1:1'}\n", "unknown field adress; there are address and device_id"),
        ("p0-t0-0: {address: '1:1', device_id: x}\n", "device_id 'x' is not a number"),
        ("p0-t0-0: {device_id: 3}\n", "address None is not an address"),
        ("- p0-t0-0\n", "must map names of switches to addresses"),
        ("p0-t0-0: [\n", "switches.yaml:2: "),
    ],
)
def test_bad_files_of_addresses(run: Run, tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "switches.yaml"
    path.write_text(text)
    ran = run("install", "one-plane", "--switches", path)
    assert ran.code == 2
    assert ran.err.startswith(f"mrc-controller: {path}")
    assert message in ran.err


def test_device_ids_may_be_given(run: Run, fake_fabric: FakeFabric, tmp_path: Path) -> None:
    fake_fabric.switches["p0-t0-0"].device_id = 77
    path = tmp_path / "switches.json"
    address = fake_fabric.addresses["p0-t0-0"]
    path.write_text(json.dumps({"p0-t0-0": {"address": address, "device_id": 77}}))
    assert run("install", "one-plane", "--switches", path, "--switch", "p0-t0-0").code == 0


# --- show and diff ---


def test_show_tables_and_counters(run: Run, fake_fabric: FakeFabric, schema: Schema) -> None:
    files = ("--topology", "one-plane", "--switches", fake_fabric.file)
    assert "has no program" in run("show", "p0-t0-0", *files).err
    run("install", "one-plane", "--switches", fake_fabric.file)
    for port, packets in ((0, 0), (2, 7)):
        cell = p4runtime_pb2.Entity()
        cell.counter_entry.counter_id = schema.counters.name("FabricEgress.sent_data").id
        cell.counter_entry.index.index = port
        cell.counter_entry.data.packet_count = packets
        cell.counter_entry.data.byte_count = packets * 100
        fake_fabric.switches["p0-t0-0"].counters.append(cell)

    both = run("show", "p0-t0-0", *files).out
    assert "FabricIngress.routing.ipv6_route, 3 entries" in both
    assert "fd4d:5243:0:1::/64  group 1" in both
    assert "group 1   members 3, 4" in both
    assert both.splitlines()[-2:] == [
        "counter                 port  packets  bytes",
        "FabricEgress.sent_data     2        7    700",
    ]
    one = run("show", "p0-t0-0", *files, "--table", "next_sid").out
    assert "next_sid, 4 entries" in one
    assert "ipv6_route" not in one
    assert "counter" not in one
    counters = run("show", "p0-t0-0", *files, "--counters", "--all-ports").out
    assert "next_sid" not in counters
    assert counters.count("FabricEgress.sent_data") == 2
    document = json.loads(run("show", "p0-t0-0", *files, "--format", "json").out)
    assert document["counters"] == [
        {"counter": "FabricEgress.sent_data", "port": 2, "packets": 7, "bytes": 700}
    ]
    assert {
        "table": "FabricIngress.srv6.my_sid",
        "match": {"sid": "5f00:0:800::/48"},
        "action": "un()",
    } in document["entries"]
    unknown = run("show", "p0-t0-0", *files, "--table", "nope")
    assert unknown.code == 2
    assert "p0-t0-0 has no table nope; there are FabricIngress.routing.ecmp" in unknown.err


def test_diff_of_topologies(run: Run, tmp_path: Path) -> None:
    same = run("diff", "one-plane", "one-plane")
    assert (same.code, same.out) == (0, "")
    other = tmp_path / "other.yaml"
    text = ready_topologies()["one-plane"].read_text()
    other.write_text(text.replace("data_limit: 64KiB, control", "data_limit: 32KiB, control"))
    ran = run("diff", "one-plane", other)
    assert ran.code == 1
    assert ran.out.splitlines()[0] == (
        "p0-t0-0: changed FabricIngress.admission.port_queue[egress_port=0] → "
        "set_limits(data_limit_bytes=65536, control_limit_bytes=65536, trimmed_dscp=16) becomes "
        "set_limits(data_limit_bytes=32768, control_limit_bytes=65536, trimmed_dscp=16)"
    )
    assert len(ran.out.splitlines()) == 4
    assert run("diff", "one-plane", "two-plane").out.splitlines() == [
        f"p1-{switch}: added" for switch in ("t0-0", "t0-1", "t1-0", "t1-1")
    ]


def test_diff_with_switches(run: Run, fake_fabric: FakeFabric) -> None:
    run("install", "one-plane", "--switches", fake_fabric.file)
    files = ("--topology", "one-plane", "--switches", fake_fabric.file)
    assert run("diff", "one-plane", "p0-t1-0", *files) == Ran(0, "", "")
    fake_fabric.switches["p0-t1-0"].pop(lambda entity: entity.HasField("table_entry"))
    gone = run("diff", "one-plane", "p0-t1-0", *files)
    assert gone.code == 1
    assert gone.out.startswith("p0-t1-0: removed Fabric")
    back = run("diff", "p0-t1-0", "one-plane", *files)
    assert back.out.startswith("p0-t1-0: added Fabric")
    between = run("diff", "p0-t0-0", "p0-t0-1", *files)
    assert between.code == 1
    assert "p0-t0-1: removed FabricIngress.srv6.my_sid[sid=5f00:0:800::/48] → un()" in between.out
    dead = run("diff", "one-plane", "p0-t0-0", "--topology", "one-plane", "--switches",
               _dead(fake_fabric))  # fmt: skip
    assert dead.code == 1
    assert dead.err.startswith("mrc-controller: p0-t0-0 (unix:/nonexistent.sock) does not answer")


def _dead(fakes: FakeFabric) -> Path:
    fakes.addresses["p0-t0-0"] = "unix:/nonexistent.sock"
    fakes.write_addresses()
    return fakes.file


def test_environment_names_topology_and_addresses(
    run: Run, fake_fabric: FakeFabric, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MRC_TOPOLOGY", "one-plane")
    monkeypatch.setenv("MRC_SWITCHES", str(fake_fabric.file))
    assert run("install").out.startswith("4 of 4 switches installed")
    assert run("show", "p0-t0-0", "--tables").code == 0


def test_shell_of_a_dead_switch_does_not_hang(run: Run, fake_fabric: FakeFabric) -> None:
    ran = run("shell", "p0-t0-0", "--topology", "one-plane", "--switches", _dead(fake_fabric))
    assert ran.code == 1
    assert "p0-t0-0 (unix:/nonexistent.sock) does not answer" in ran.err


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    command = f"{sys.executable} -m controller.cli plan --format json | head -c 10"
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == ('{"switch":', "")


@pytest.mark.parametrize(
    ("redirection", "says"),
    [
        (">/dev/full", "mrc-controller: cannot write: No space left on device\n"),
        (">&-", "mrc-controller: stdout is closed\n"),
    ],
)
def test_output_that_cannot_be_written_is_one_line(redirection: str, says: str) -> None:
    command = f"{sys.executable} -m controller.cli plan {redirection}"
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (1, says)


def test_characters_that_the_output_does_not_know_are_replaced() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "controller.cli", "plan", "--switch", "p0-t0-0"],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert b"FabricIngress.srv6.my_sid ? un, 1 entry" in ran.stdout


def test_progress_on_a_terminal_leaves_stdout_alone(tmp_path: Path) -> None:
    """stderr is a terminal, stdout a file: the bar goes to the one, the plan to the other."""
    terminal, other_end = pty.openpty()
    output = tmp_path / "plan.json"
    with output.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "controller.cli", "plan", "--format", "json"],
            stdout=file,
            stderr=other_end,
        )
        os.close(other_end)
        seen = b""
        while True:
            try:
                chunk = os.read(terminal, 65536)
            except OSError:  # the other end is closed: Linux says EIO
                break
            if not chunk:
                break
            seen += chunk
    os.close(terminal)
    assert process.wait(60) == 0
    assert b"planning" in seen
    assert b'{"' not in seen
    assert [next(iter(json.loads(line))) for line in output.read_text().splitlines()] == (
        ["switch"] * 8 + ["rack", "host", "host"] * 2
    )


def test_help_names_every_command(run: Run) -> None:
    text = run("--help").out
    for command in ("plan", "install", "verify", "show", "diff", "shell"):
        assert command in text
        assert run(command, "--help").code == 0
