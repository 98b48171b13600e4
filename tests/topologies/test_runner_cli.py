"""The command line where nothing needs privileges: wrong usage, missing things, lists."""

import errno
import json
import subprocess
import sys
from pathlib import Path

import pytest

from reports.record import from_json
from topologies.runner import cli, cli_run, kernel, sandbox
from topologies.runner.errors import PrivilegeError


@pytest.fixture(autouse=True)
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MRC_TOPOLOGY_RUNS", str(tmp_path / "runs"))
    monkeypatch.delenv("BMV2", raising=False)
    return tmp_path / "runs"


def call(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[object, str]:
    monkeypatch.setattr("sys.argv", ["mrc-topology", *arguments])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    captured = capsys.readouterr()
    return caught.value.code, captured.out + captured.err


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["run", "three-plane"], 2, "three-plane: no such file or ready topology; did you mean "),
        (["run", "--target", "p4pi"], 2, "unknown target 'p4pi'; choose one of"),
        (["run", "--packets", "0"], 2, "0 is not in the range"),
        (["run", "paper-scale"], 1, "can be planned, not installed"),
        (["run", "-s", "quickstrat"], 2, "quickstrat: no such file or ready scenario; did you"),
        (["run", "one-plane", "-s", "t1-blackhole"], 2, "'p1-t1-1' matches no switch"),
        (["run", "--set", "seed=x"], 2, "--set seed: "),
        (["run", "--json", "/no/such/folder/x"], 1, "there is no folder /no/such/folder"),
        (["run", "--target", "sim", "--json", "/"], 2, "'--json': File '/' is a directory"),
        (["run", "-s", "eight-plane-bad-cables", "--anyway"], 2, "nothing here delivers a frame"),
        (["run", "-s", "eight-plane-reboot"], 2, "64 switches that are processes carry about"),
        (["check", "three-plane"], 2, "three-plane: no such file or ready topology; did you mean "),
        (["check", "--target", "sim"], 2, "unknown target 'sim'; choose one of"),
        (["check", "paper-scale"], 1, "can be planned, not installed"),
        (["fly"], 2, "No such command 'fly'"),
        (["exec", "h0"], 2, "Missing argument 'COMMAND...'"),
        (["exec", "h0", "--", "true"], 2, "nothing is running"),
        (["link", "a", "b", "lossy"], 2, "'lossy' must be up, down, rate, loss or corruption"),
        (["link", "a", "b", "rate"], 2, "rate needs a value, as in: rate 10Mbps"),
        (["link", "a", "b", "up", "now"], 2, "up takes no value"),
        (["link", "a", "b", "up"], 2, "nothing is running"),
        (["switch", "a", "explode"], 2, "'explode' must be kill, restart, blackhole or forward"),
        (["switch", "a", "kill"], 2, "nothing is running"),
        (["pcap", "h0"], 2, "Missing option '-o'"),
        (["pcap", "h0", "-o", "x"], 2, "nothing is running"),
        (["down"], 2, "nothing is running"),
        (["down", "--run", "x"], 2, "nothing is running"),
        (["down", "--all"], 0, ""),
        (["status"], 0, "nothing is running"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_one_clear_line_and_the_right_exit_code(
    arguments: list[str],
    code: int,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert call(monkeypatch, capsys, *arguments)[0] == code
    _, output = call(monkeypatch, capsys, *arguments)
    assert text in output
    assert "Traceback" not in output


def test_every_problem_of_a_topology_file_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("planes: many\nt0_per_plane: 1\nt1_per_plane: 1\nhosts_per_t0: 1\n")
    code, output = call(monkeypatch, capsys, "run", str(file))
    assert code == 2
    assert f"{file}:1: planes" in output


@pytest.mark.parametrize(
    ("redirection", "says"),
    [
        (">/dev/full", "mrc-topology: cannot write: No space left on device\n"),
        (">&-", "mrc-topology: stdout is closed\n"),
    ],
)
def test_output_that_cannot_be_written_is_one_line(redirection: str, says: str) -> None:
    command = f"{sys.executable} -m topologies.runner list {redirection}"
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (1, says)


def test_list_shows_topologies_and_targets(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    code, output = call(monkeypatch, capsys, "list")
    assert code == 0
    (row,) = [line for line in output.splitlines() if line.startswith("│ two-plane ")]
    assert row.replace("│", " ").split() == ["two-plane", "2", "2", "2", "4", "8"]
    (row,) = [line for line in output.splitlines() if line.startswith("│ quickstart ")]
    assert "two-plane" in row and "all-reduce" in row
    assert "target softswitch: ready" in output
    assert "target bmv2: needs simple_switch_grpc" in output


def test_a_kernel_that_forbids_namespaces_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(flags: int) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(kernel, "unshare", refuse)
    with pytest.raises(PrivilegeError) as caught:
        sandbox.run_isolated(lambda inside: 0)
    text = str(caught.value)
    assert "\n" not in text
    assert "need root" in text and "sudo" in text and "Operation not permitted" in text


def test_without_namespaces_the_scenario_runs_in_virtual_time(
    tmp_path: Path,
    base: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refuse(*arguments: object, **options: object) -> int:
        raise PrivilegeError("network namespaces need root")

    monkeypatch.setattr(cli_run, "run_in_sandbox", refuse)
    file = tmp_path / "short.yaml"
    file.write_text(
        "topology: one-plane\ntraffic:\n  - transfer: {name: short, from: h0, to: h2, size: 4KiB}\n"
    )
    copy = tmp_path / "copy.json"
    arguments = ("run", "-s", str(file), "--json", str(copy), "--html", str(tmp_path / "copy.html"))
    code, output = call(monkeypatch, capsys, *arguments)
    assert code == 0, output
    assert "network namespaces need root\nSo this is the same scenario in virtual time." in output
    (folder,) = base.iterdir()
    record = from_json(json.loads((folder / "report.json").read_text()))
    assert (record.clock, record.scenario, record.failures) == ("virtual", "short", [])
    assert copy.read_text() == (folder / "report.json").read_text()
    assert (tmp_path / "copy.html").read_text().startswith("<!DOCTYPE html>")


def test_what_came_of_a_run_is_told_though_its_report_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "short.yaml"
    file.write_text(
        "topology: one-plane\ntraffic:\n  - transfer: {name: short, from: h0, to: h2, size: 4KiB}\n"
    )
    arguments = ("run", "--target", "sim", "-s", str(file), "--json", "/dev/full")
    code, output = call(monkeypatch, capsys, *arguments)
    assert code == 1
    assert "/dev/full: No space left on device" in output
    assert "every byte is where it belongs" in output
