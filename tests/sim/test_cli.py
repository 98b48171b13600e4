"""The command: what it prints, its exit codes, and its complaints."""

from __future__ import annotations

import errno
import json
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from scapy.utils import RawPcapReader

from reports.page import page
from reports.record import from_json
from sim import cli
from sim.simulation import Simulation
from tests.sim.conftest import SMALL


@pytest.fixture(name="scenario")
def _scenario(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


@pytest.fixture(autouse=True)
def _no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, nothing but what a test asks for is on stderr."""
    monkeypatch.setattr("reports.progress.LINE_EVERY_S", math.inf)


def call(
    arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str, str]:
    monkeypatch.setattr("sys.argv", ["mrc-sim", *arguments])
    with pytest.raises(SystemExit) as left:
        cli.main()
    output = capsys.readouterr()
    assert isinstance(left.value.code, int)
    return left.value.code, output.out, output.err


def test_run_prints_a_summary_and_writes_json(
    scenario: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    target = tmp_path / "out.json"
    code, out, err = call(["run", str(scenario), "--json", str(target)], monkeypatch, capsys)
    assert code == 0 and err == ""
    assert "there (h0 → h2)" in out and "every byte is where it belongs" in out
    document = json.loads(target.read_text())
    assert document["flows"][0]["completed_bytes"] == 1 << 20
    assert document["unaccounted"] == 0


def test_json_on_stdout_stands_alone(
    scenario: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = call(["run", str(scenario), "--json", "-"], monkeypatch, capsys)
    assert code == 0
    assert json.loads(out)["scenario"] == "small"
    assert "every byte" in err


def test_quiet_says_nothing_when_all_is_well(
    scenario: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(["run", "-q", str(scenario)], monkeypatch, capsys) == (0, "", "")


def test_an_expectation_that_does_not_hold_is_exit_code_1(
    scenario: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    change = "expect.flows=[{completion_max: 1us}]"
    code, out, err = call(["run", "-q", str(scenario), "--set", change], monkeypatch, capsys)
    assert code == 1 and out == ""
    assert err.startswith("mrc-sim: small: there: complete in ")
    assert err.endswith("expected 1us\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["run", "quikstart"],
            "quikstart: no such file or ready scenario; did you mean quickstart? "
            "`mrc-topology list` names all",
        ),
        (
            ["run", "quickstart", "--set", "sed=1"],
            "--set sed: unknown field sed; did you mean seed?",
        ),
        (["run", "quickstart", "--set", "seed"], "--set seed: write key=value"),
    ],
)
def test_wrong_usage_is_one_clear_line(
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = call(arguments, monkeypatch, capsys)
    assert code == 2 and out == ""
    assert err == f"mrc-sim: {message}\n"


def test_links_without_rate_and_delay_are_named(
    scenario: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sim.loop.MAX_ROUNDS_AT_ONE_TIME", 200)
    changes = [
        "topology.links={}",
        "traffic[0].transfer={from: h0, to: h2, size: 4KiB, until: 1ms}",
    ]
    arguments = ["run", str(scenario)]
    for change in changes:
        arguments += ["--set", change]
    code, _, err = call(arguments, monkeypatch, capsys)
    assert code == 1
    assert "time stands still" in err and "give its links a rate or a delay" in err


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("evs: {mode: explicit, evs: 3}", "endpoint.evs: evs: 3 is not a list"),
        ("evs: {mode: explicit, evs: [a]}", "evs: 'a' does not fit: it must be an integer"),
        ("evs: {mode: explicit, evs: [99999]}", "evs: entropy value 0x0001869f names no path"),
        ("evs: {mode: explicit, evs: [-1]}", "evs: entropy value -1 does not fit"),
        ("evs: {denied: x}", "endpoint.evs: denied: 'x' is not a list"),
        ("evs: {denied: [[1]]}", "denied: '[1]' does not fit: it must be an integer"),
        ("evs: {mode: generated, fields: [3]}", "endpoint.evs: fields: 3 is not a section"),
        ("evs: {mode: generated, fields: [{}]}", "endpoint.evs: fields: width: is missing"),
        ("evs: {mode: generated, fields: [{wdth: 3}]}", "fields.wdth: unknown field; did you mean"),
        ("evs: {mode: generated, fields: [{width: x}]}", "width: 'x' does not fit"),
        ("evs: {active_evs: .inf}", "active_evs: inf does not fit: it must be an integer"),
        ("evs: {probe_interval_ns: .nan}", "probe_interval_ns: nan does not fit"),
        ("congestion: {max_cwnd: .inf}", "max_cwnd: inf does not fit: it must be a number"),
        ("congestion: {controller: fixed-window, size: 1}", "it has no knob 'size'"),
    ],
)
def test_endpoint_settings_that_cannot_be_are_one_line(
    setting: str,
    message: str,
    scenario: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ["run", str(scenario), "--set", f"endpoint={{{setting}}}"]
    code, out, err = call(arguments, monkeypatch, capsys)
    assert code == 2 and out == ""
    assert err.count("\n") == 1 and err.startswith("mrc-sim: --set endpoint: endpoint")
    assert message in err


@pytest.mark.parametrize("command", ["run", "check"])
def test_check_finds_what_run_would(
    command: str,
    scenario: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = ("endpoint.congestion.controller=foo", "endpoint.evs.active_evs=0")
    for setting in settings:
        code, out, err = call([command, str(scenario), "--set", setting], monkeypatch, capsys)
        assert code == 2 and out == "" and err.count("\n") == 1


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("  evs:\n    active_evs: x\n", ":{line}: endpoint.evs: active_evs: 'x' does not fit"),
        ("  timeout: 5\n  evs: {mod: x}\n", ":{line}: endpoint.evs.mod: unknown field"),
        ("  timeout: 5\n  mpr: 100\n", ":{line}: endpoint: mpr"),
    ],
)
def test_endpoint_settings_of_a_file_are_named_with_their_line(
    lines: str,
    message: str,
    scenario: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = scenario.read_text() + "endpoint:\n" + lines
    scenario.write_text(text)
    code, _, err = call(["run", str(scenario)], monkeypatch, capsys)
    assert code == 2
    last = len(text.splitlines())
    assert err.startswith(f"mrc-sim: {scenario}" + message.format(line=last))


def test_list_and_check(
    scenario: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = call(["list"], monkeypatch, capsys)
    assert code == 0 and "quickstart" in out and "eight-plane-incast-no-trim" in out
    code, out, _ = call(["check", str(scenario)], monkeypatch, capsys)
    assert code == 0 and "flow there: h0 -> h2, 1MiB 1 times on 1 QP" in out


def test_pcap_that_cannot_be_written(
    scenario: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    code, _, err = call(
        ["run", str(scenario), "--pcap", str(blocked / "below")], monkeypatch, capsys
    )
    assert code == 1
    assert err.count("\n") == 1 and "cannot be written" in err


def test_runs_are_the_same_in_every_process(scenario: Path) -> None:
    """Nothing hangs on the order of sets or on hashes, which differ from process to process."""
    arguments = [sys.executable, "-m", "sim", "run", str(scenario), "-q", "--json", "-"]
    loss = "{loss: {tier: fabric, probability: 0.02}}"
    change = f"faults=[{loss}, {{port_down: {{host: h0, plane: 0, at: 9us, for: 9us}}}}]"
    outputs = [
        subprocess.run(
            [*arguments, "--set", change],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1]
    assert json.loads(outputs[0])["total"]["retransmissions"] > 0


def test_json_that_cannot_be_written_is_said_before_the_run(
    scenario: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(cli, "Simulation", None)
    target = tmp_path / "missing" / "out.json"
    code, out, err = call(["run", str(scenario), "--json", str(target)], monkeypatch, capsys)
    assert code == 1 and out == ""
    assert err == f"mrc-sim: {target}: cannot be written: there is no folder {target.parent}\n"


def test_a_full_disk_leaves_the_old_json(
    scenario: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    target = tmp_path / "out.json"
    target.write_text("old")

    def write_text(path: Path, text: str, encoding: str) -> int:
        with path.open("w", encoding=encoding) as file:
            file.write(text[:10])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", write_text)
    code, _, err = call(["run", str(scenario), "-q", "--json", str(target)], monkeypatch, capsys)
    assert (code, err) == (1, f"mrc-sim: {target}: cannot be written: No space left on device\n")
    assert target.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.json", "small.yaml"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["schema"], ["list"], ["run"], ["run", "--json", "-"]])
def test_stdout_that_takes_nothing_is_one_line(arguments: list[str], scenario: Path) -> None:
    if arguments[0] == "run":
        arguments = [*arguments, str(scenario)]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "sim", *arguments],
            cwd=Path(__file__).parents[2],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.endswith("mrc-sim: cannot write: No space left on device\n")
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr


def test_an_interrupted_run_leaves_whole_captures_and_no_json(
    scenario: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupt(self: Simulation) -> None:
        self.loop.run(None, 200)
        raise KeyboardInterrupt

    monkeypatch.setattr(Simulation, "_run_to_end", interrupt)
    pcaps, target = tmp_path / "pcaps", tmp_path / "out.json"
    arguments = ["run", str(scenario), "--pcap", str(pcaps), "--json", str(target)]
    code, out, err = call(arguments, monkeypatch, capsys)
    assert (code, out, err.strip()) == (130, "", "mrc-sim: interrupted")
    assert not target.exists()
    with RawPcapReader(str(pcaps / "h0-plane0.pcap")) as reader:
        assert sum(1 for _ in reader) > 10


def test_page_and_record_are_written(
    scenario: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    html, record = tmp_path / "run.html", tmp_path / "run.json"
    arguments = ["run", str(scenario), "-q", "--html", str(html), "--record", str(record)]
    assert call(arguments, monkeypatch, capsys) == (0, "", "")
    made = from_json(json.loads(record.read_text()))
    assert made.flows[0].name == "there" and made.failures == []
    assert html.read_text(encoding="utf-8") == page(made)


@pytest.mark.parametrize("option", ["--html", "--record"])
def test_a_page_that_cannot_be_written_is_refused_before_the_run(
    option: str,
    scenario: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    target = tmp_path / "missing" / "run.html"
    monkeypatch.setattr(Simulation, "run", lambda *_: pytest.fail("it ran"))
    code, out, err = call(["run", str(scenario), option, str(target)], monkeypatch, capsys)
    assert (code, out) == (1, "")
    assert f"{target}: cannot be written: there is no folder {target.parent}" in err
