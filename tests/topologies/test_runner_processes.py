"""Processes of a run: their conditions, their ends, and what is said about them."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from topologies.runner.errors import RunnerError
from topologies.runner.processes import (
    LOG_TAIL_LINES,
    ManagedProcess,
    exit_text,
    log_tail,
    stop_all,
    wait_until_ready,
)

SLEEPER = "import signal; print('up', flush=True); signal.pause()"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEPER


class HereNamespace:
    """The namespace this process is in already."""

    name = "here"
    fd = -1

    @contextmanager
    def entered(self) -> Iterator[None]:
        yield


def start(tmp_path: Path, code: str, name: str = "p0-t0-0") -> ManagedProcess:
    command = [sys.executable, "-c", code]
    return ManagedProcess(name, command, HereNamespace(), tmp_path / f"{name}.log")  # type: ignore[arg-type]


def is_up(process: ManagedProcess) -> bool:
    return "up" in process.log.read_text()


def test_ready_processes_are_told_one_by_one(tmp_path: Path) -> None:
    processes = [start(tmp_path, SLEEPER, name) for name in ("a", "b")]
    ready: list[str] = []
    wait_until_ready(
        [(process, lambda process=process: is_up(process)) for process in processes],  # type: ignore[misc]
        30,
        lambda process: ready.append(process.name),
    )
    assert sorted(ready) == ["a", "b"]
    stop_all(processes, 10)
    assert [process.exit_code for process in processes] == [-signal.SIGTERM] * 2


def test_one_that_ends_early_is_named_with_its_exit_code_and_log(tmp_path: Path) -> None:
    good = start(tmp_path, SLEEPER, "good")
    bad = start(tmp_path, "print('first'); print('no license'); raise SystemExit(4)", "bad")
    with pytest.raises(RunnerError) as caught:
        wait_until_ready([(good, lambda: False), (bad, lambda: False)], 30, lambda process: None)
    text = str(caught.value)
    assert text.startswith("bad ended while it started (exit code 4); the end of ")
    assert str(bad.log) in text
    assert "  | no license" in text
    stop_all([good, bad], 10)


def test_one_that_is_never_ready_is_named(tmp_path: Path) -> None:
    process = start(tmp_path, SLEEPER)
    with pytest.raises(RunnerError, match=r"p0-t0-0 was not ready within 0 s \(still running\)"):
        wait_until_ready([(process, lambda: False)], 0.1, lambda process: None)
    stop_all([process], 10)


def test_one_that_will_not_stop_is_killed(tmp_path: Path) -> None:
    process = start(tmp_path, STUBBORN)
    wait_until_ready([(process, lambda: is_up(process))], 30, lambda process: None)
    stop_all([process], 0.1)
    assert process.exit_code == -signal.SIGKILL


def test_stopping_what_has_ended_is_no_error(tmp_path: Path) -> None:
    process = start(tmp_path, "pass")
    with pytest.raises(RunnerError):
        wait_until_ready([(process, lambda: False)], 30, lambda process: None)
    stop_all([process], 0)
    assert process.exit_code == 0


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunnerError, match="p0-t0-0: cannot start /no/such: No such file"):
        ManagedProcess("p0-t0-0", ["/no/such"], HereNamespace(), tmp_path / "log")  # type: ignore[arg-type]


def test_exit_codes_in_words() -> None:
    assert exit_text(3) == "exit code 3"
    assert exit_text(-9) == "killed by SIGKILL"


def test_log_tail_is_short(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert "no log" in log_tail(log)
    log.write_text("\n")
    assert "empty" in log_tail(log)
    log.write_bytes(b"\n".join(b"line %d \xff" % number for number in range(100)))
    lines = log_tail(log).splitlines()
    assert len(lines) == LOG_TAIL_LINES
    assert lines[-1].startswith("  | line 99")
