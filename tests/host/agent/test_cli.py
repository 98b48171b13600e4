"""The command `mrc-host`, against agents that run in a thread of the test."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from host.agent import cli
from tests.host.agent.world import Side, host_document, world


class AgentThread:
    """Two agents that work while the test calls commands."""

    def __init__(self) -> None:
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None
        self.sides: tuple[Side, Side] | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._work()), daemon=True)
        self._thread.start()
        assert self._ready.wait(60)

    async def _work(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        async with world() as sides:
            self.sides = sides
            self._ready.set()
            await self._end.wait()

    @property
    def folder(self) -> Path:
        assert self.sides is not None
        return self.sides[0].folder

    def close(self) -> None:
        assert self._loop is not None and self._end is not None
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(60)
        assert not self._thread.is_alive()


@pytest.fixture(scope="module")
def agents() -> Iterator[AgentThread]:
    thread = AgentThread()
    yield thread
    thread.close()


class Command:
    """Calls `mrc-host` in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: Any, folder: Path) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        monkeypatch.setenv("MRC_HOST_DIR", str(folder))
        monkeypatch.delenv("MRC_AGENT", raising=False)

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        self._monkeypatch.setattr(sys, "argv", ["mrc-host", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = self._capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, out, err


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], agents: AgentThread
) -> Command:
    return Command(monkeypatch, capsys, agents.folder)


def test_write_bw_prints_the_table_of_ib_write_bw(command: Command) -> None:
    code, out, err = command(
        "write-bw", "-A", "h0", "h2", "-s", "20000", "-n", "30", "-q", "2", "--report_gbits"
    )
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[1].strip() == "RDMA_Write BW Test"
    assert " Number of qps   : 2" in out
    assert sum(line.startswith(" local address:  QPN 0x") for line in lines) == 2
    assert (
        " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]" in lines
    )
    row = lines[-2].split()
    assert row[:2] == ["20000", "60"]
    assert float(row[2]) >= float(row[3]) > 0
    assert lines[-1] == lines[0]


def test_write_bw_goes_both_ways(command: Command) -> None:
    code, out, _ = command("write-bw", "-A", "h0", "h2", "-b", "-n", "10", "-s", "5000", "-N")
    assert code == 0
    assert "Bidirectional" in out
    assert out.splitlines()[-2].split()[:3] == ["5000", "20", "0.00"]


def test_write_lat_prints_the_table_of_ib_write_lat(command: Command) -> None:
    code, out, err = command("write-lat", "-A", "h0", "h2", "-n", "20")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[-3].startswith(" #bytes #iterations    t_min[usec]    t_max[usec]  t_typical")
    assert len(lines[-2].split()) == 9
    code, out, _ = command("write-lat", "-A", "h0", "h2", "-D", "0.02")
    assert code == 0
    assert "tps average" in out
    assert len(out.splitlines()[-2].split()) == 4


def test_results_as_json(command: Command) -> None:
    code, out, _ = command("write-bw", "-A", "h0", "h2", "-n", "4", "-s", "10", "--json")
    assert code == 0
    connected, result = map(json.loads, out.splitlines())
    assert connected["peer"] == "h2"
    assert result["iterations"] == 4


def test_collective_prints_the_table_of_nccl_tests(command: Command) -> None:
    code, out, err = command("collective", "all-reduce", "h0", "h2", "-b", "8KiB", "-n", "2")
    assert (code, err) == (0, "")
    row = out.splitlines()[-1].split()
    assert row[:5] == ["8192", "2048", "float32", "sum", "-1"]
    assert row[-1] == "0"
    code, out, _ = command("collective", "broadcast", "h0", "h2", "-r", "1", "--json")
    result = json.loads(out)
    assert (result["root"], result["wrong_elements"], len(result["times_ns"])) == (1, 0, 5)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["collective", "gossip", "h0", "h2"], "there are all-reduce"),
        (["collective", "all-reduce", "h0", "h0"], "a host is there twice"),
        (["collective", "all-reduce", "h0", "-b", "x"], "size"),
        (["write-bw", "h2", "-d", "mlx5_0"], "-d: an agent is one device"),
        (["write-lat", "h2", "--connection=RC"], "there is one connection type, MRC"),
        (["write-bw", "h2", "--frobnicate"], "No such option"),
        (["write-bw"], "Missing argument 'PEER'"),
        (["write-bw", "-A", "h0", "h2", "-n", "5", "-D", "5"], "-n and -D exclude each other"),
        (["write-bw", "-A", "h0", "h2", "-a", "-D", "5"], "-a and -D exclude each other"),
        (["write-bw", "-A", "h0", "h2", "--run_infinitely"], "give -D"),
        (["write-bw", "-A", "h0", "h2", "-s", "0"], "0 is not in the range"),
        (["write-bw", "-A", "h0", "tcp:x"], "write unix:/path or tcp:host:port"),
        (["probe", "-A", "h0", "h7"], "host 'h7' does not fit: it must be h0..h3"),
        (["stat"], "--agent: say which; there are h0, h2"),
        (["run", "--config", "/nonexistent"], "--config /nonexistent: No such file"),
        (["run"], "Missing option '--config'"),
        (["run", "--config", __file__, "--max-memory", "4"], "--max-memory: '4' is not a size"),
    ],
)
def test_wrong_usage_is_one_clear_line_and_exit_code_2(
    command: Command, arguments: list[str], reason: str
) -> None:
    code, out, err = command(*arguments)
    assert (code, out) == (2, "")
    assert reason in err.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["stat", "-A", "h1"], "h1.control; there are h0, h2"),
        (["write-bw", "-A", "h1", "h0"], "h1.control; there are h0, h2"),
        (["write-bw", "-A", "h1", "h3"], "h1.control; there are h0, h2"),
        (["write-bw", "-A", "h0", "h1"], "h1.exchange; there are h0, h2"),
        (["write-lat", "-A", "h0", "/x/h1.exchange"], "no agent at /x/h1.exchange"),
        (["collective", "all-reduce", "h0", "h1"], "h1.control; there are h0, h2"),
        (["write-bw", "-A", "h0", "tcp:127.0.0.1:1"], "no agent at tcp:127.0.0.1:1"),
    ],
)
def test_what_fails_is_one_clear_line_and_exit_code_1(
    command: Command, arguments: list[str], reason: str
) -> None:
    code, out, err = command(*arguments)
    assert (code, out) == (1, "")
    (line,) = err.splitlines()
    assert line.startswith("mrc-host: ")
    assert reason in line


def test_a_wrong_configuration_is_named(command: Command, tmp_path: Path) -> None:
    config = tmp_path / "h0.json"
    for text, reason in (
        ("nonsense", "not a host configuration"),
        (host_document("h0").replace('"udp_port"', '"ucp_port"'), "udp_port is missing"),
    ):
        config.write_text(text)
        code, _, err = command("run", "--config", str(config), "--dir", str(tmp_path))
        assert code == 2
        (line,) = err.splitlines()
        assert line.startswith(f"mrc-host: --config {config}: ")
        assert reason in line
    assert [*tmp_path.iterdir()] == [config]
    config.write_text(host_document("h0"))
    code, _, err = command("run", "--config", str(config), "--dir", str(tmp_path))
    assert code == 1
    assert "interface plane0: " in err
    code, _, err = command("run", "--config", str(config), "--cc", "tcp")
    assert code == 2
    assert "--cc 'tcp': there are none, " in err
    assert "uet-1.0-nscc" in err


def test_a_wrong_endpoint_file_is_named(command: Command, tmp_path: Path) -> None:
    config, endpoint = tmp_path / "h0.json", tmp_path / "endpoint.json"
    config.write_text(host_document("h0"))
    arguments = ("run", "--config", str(config), "--endpoint", str(endpoint))
    for text, reason in (
        (None, "No such file"),
        ('{"qp": {"timeout": 99}}', "timeout: 99 does not fit: it must be 0..24"),
        ('{"evs": {"actvie_evs": 3}}', "endpoint.evs.actvie_evs: unknown field"),
    ):
        if text is not None:
            endpoint.write_text(text)
        code, _, err = command(*arguments)
        assert code == 2
        (line,) = err.splitlines()
        assert line.startswith(f"mrc-host: --endpoint {endpoint}: ")
        assert reason in line
    endpoint.write_text('{"qp": {"timeout": 16}}')
    code, _, err = command(*arguments, "--linear-retries", "7")
    assert (code, err) == (
        2,
        f"mrc-host: --linear-retries: with --endpoint it belongs in {endpoint}\n",
    )
    # What it says is right: next is the interface that is not there
    code, _, err = command(*arguments)
    assert code == 1
    assert "interface plane0: " in err


def test_stat_evs_probe_and_list(command: Command, agents: AgentThread) -> None:
    code, out, _ = command("stat", "-A", "h0")
    assert code == 0
    assert "plane0" in out and "unlimited" in out
    code, out, _ = command("stat", "-A", str(agents.folder / "h0.control"), "--json")
    assert json.loads(out)["host"] == "h0"
    code, out, _ = command("evs", "-A", "h0")
    assert "no queue pair is connected" in out
    code, out, _ = command("probe", "-A", "h0", "h2", "-c", "2")
    assert code == 0
    assert "2 of 2" in out
    assert "h0--p1-t0-0 p1-t0-0--p1-t1-1 p1-t0-1--p1-t1-1 h2--p1-t0-1" in out
    code, out, _ = command("probe", "-A", "h0", "h2", "--ev", "9", "--json")
    (ev,) = json.loads(out)["evs"]
    assert (ev["ev"], ev["answered"]) == (9, 1)
    # h1 has no agent
    code, out, _ = command("probe", "-A", "h0", "h1", "--timeout-ms", "10")
    assert code == 1
    assert "0 of 1" in out
    code, out, _ = command("list")
    assert [line.split()[0] for line in out.splitlines()] == ["h0", "h2"]
    assert f"pid {os.getpid()}" in out
