"""Folders of runs: which are alive, what a killed one leaves, which one a command means."""

import json
import os
from pathlib import Path

import pytest

from topologies.runner import run_store
from topologies.runner.errors import RunnerError, UsageError
from topologies.runner.run_store import (
    KEPT_RUNS,
    RunFolder,
    default_base,
    find_runs,
    select_run,
    sweep,
)


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "runtime"
    folder.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    # Test folders have long paths; no socket is made here
    monkeypatch.setattr(run_store, "_RUNTIME_PATH_BYTES", 4096)
    return folder


def kill(folder: RunFolder) -> None:
    """What the kernel does for a run that was killed: its lock is gone, its files are not."""
    os.close(folder._lock)


def test_a_run_is_alive_while_its_folder_is_held(tmp_path: Path, runtime: Path) -> None:
    folder = RunFolder.create(tmp_path / "base", "two-plane", "softswitch")
    (record,) = find_runs(tmp_path / "base")
    assert record.alive and not record.left_behind
    assert record.state == folder.state
    assert folder.sockets.parent == runtime
    assert folder.logs.is_dir()
    folder.close(0)
    (record,) = find_runs(tmp_path / "base")
    assert not record.alive and not record.left_behind
    assert record.state.exit_code == 0
    assert list(runtime.iterdir()) == []


def test_a_folder_closes_with_its_context(tmp_path: Path) -> None:
    with (
        pytest.raises(ZeroDivisionError),
        RunFolder.create(tmp_path / "base", "t", "softswitch"),
    ):
        raise ZeroDivisionError
    (record,) = find_runs(tmp_path / "base")
    assert (record.state.phase, record.state.exit_code) == ("ended", 1)


def test_what_a_killed_run_left_is_cleaned(tmp_path: Path, runtime: Path) -> None:
    folder = RunFolder.create(tmp_path / "base", "t", "softswitch")
    (folder.sockets / "p0-t0-0.grpc").touch()
    (folder.logs / "p0-t0-0.log").write_text("the end\n")
    kill(folder)
    (record,) = find_runs(tmp_path / "base")
    assert record.left_behind
    record.clean()
    assert list(runtime.iterdir()) == []
    (record,) = find_runs(tmp_path / "base")
    assert not record.left_behind
    # What it had to say stays
    assert (folder.logs / "p0-t0-0.log").read_text() == "the end\n"


def test_sockets_that_cannot_be_made_are_known_all_the_same(
    tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = Path.mkdir

    def refuse(
        self: Path, mode: int = 0o777, parents: bool = False, exist_ok: bool = False
    ) -> None:
        if self.parent == runtime:
            raise OSError(28, "No space left on device")
        make(self, mode, parents, exist_ok)

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(RunnerError, match="No space left on device"):
        RunFolder.create(tmp_path / "base", "t", "softswitch")
    (record,) = find_runs(tmp_path / "base")
    assert Path(record.state.sockets).parent == runtime


def test_starting_a_run_sweeps_and_keeps_the_last_runs(tmp_path: Path, runtime: Path) -> None:
    base = tmp_path / "base"
    for number in range(KEPT_RUNS + 3):
        folder = RunFolder.create(base, f"t{number:02}", "softswitch")
        if number == 5:
            kill(folder)
        else:
            folder.close(0)
    living = RunFolder.create(base, "a-living-one", "softswitch")
    sweep(base)
    runs = list(find_runs(base))
    assert len(runs) == KEPT_RUNS + 1
    assert not any(run.left_behind for run in runs)
    assert [run.state.topology for run in runs if run.alive] == ["a-living-one"]
    assert {run.state.topology for run in runs if not run.alive} == {
        f"t{number:02}" for number in range(3, KEPT_RUNS + 3)
    }
    living.close(0)


def test_the_only_run_needs_no_name(tmp_path: Path) -> None:
    base = tmp_path / "base"
    with pytest.raises(UsageError, match="nothing is running"):
        select_run(base, None)
    one = RunFolder.create(base, "one", "softswitch")
    assert select_run(base, None).state == one.state
    two = RunFolder.create(base, "two", "softswitch")
    with pytest.raises(UsageError, match="several runs fit; name one with --run"):
        select_run(base, None)
    assert select_run(base, two.state.run_id[-8:]).state == two.state
    with pytest.raises(UsageError, match=r"no run is named three; running: .*one.*, .*two"):
        select_run(base, "three")
    one.close(0)
    two.close(0)


def test_socket_paths_stay_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    long = tmp_path / ("x" * 70)
    long.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    with RunFolder.create(tmp_path / "base", "t", "softswitch") as folder:
        assert long not in folder.sockets.parents
        assert len(str(folder.sockets / "p7-t1-2047.control")) < 108


def test_files_that_are_no_runs_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "empty").mkdir()
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "run.json").write_text("{")
    other = tmp_path / "other"
    other.mkdir()
    (other / "run.json").write_text(json.dumps({"colour": "green"}))
    assert list(find_runs(tmp_path)) == []
    assert list(find_runs(tmp_path / "nowhere")) == []
    sweep(tmp_path)
    assert (tmp_path / "notes.txt").exists()


def test_a_base_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunnerError, match=r"cannot make the run's folders .*file/"):
        RunFolder.create(tmp_path / "file", "t", "softswitch")


def test_a_base_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_dir", forbidden)  # root may read everything
    with pytest.raises(RunnerError, match=r"runs .*: Permission denied; \$MRC_TOPOLOGY_RUNS can"):
        list(find_runs(tmp_path))


def test_where_runs_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MRC_TOPOLOGY_RUNS", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert default_base() == Path("/home/somebody/.local/state/mrc-topology")
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert default_base() == Path("/state/mrc-topology")
    monkeypatch.setenv("MRC_TOPOLOGY_RUNS", "/runs")
    assert default_base() == Path("/runs")
