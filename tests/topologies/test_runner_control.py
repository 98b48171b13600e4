"""The control socket: what is asked, refused and answered."""

from __future__ import annotations

import json
import socket
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from topologies.runner import control
from topologies.runner.control import ControlServer, ask
from topologies.runner.errors import RunnerError, UsageError
from topologies.runner.run_store import RunRecord, RunState


def handle(request: Mapping[str, Any]) -> Sequence[str]:
    match request.get("command"):
        case "link":
            return ["one", "two"]
        case "fail":
            raise RunnerError("it broke")
        case "no descriptors":
            raise OSError(24, "Too many open files")
    raise UsageError("want link")


@pytest.fixture
def sockets() -> Iterator[Path]:
    # Not tmp_path: a Unix socket's path has 108 bytes at most
    with tempfile.TemporaryDirectory(prefix="mrc-test-") as folder:
        yield Path(folder)


@pytest.fixture
def server(sockets: Path) -> Iterator[ControlServer]:
    made = ControlServer(sockets, handle)
    yield made
    made.close()


def run_of(sockets: Path) -> RunRecord:
    return RunRecord(sockets, RunState("r1", "t", "softswitch", sockets=str(sockets)), True)


def served(server: ControlServer, sockets: Path, request: Mapping[str, Any]) -> list[str]:
    thread = threading.Thread(target=server.serve_one)
    thread.start()
    try:
        return ask(run_of(sockets), request)
    finally:
        thread.join()


def test_a_request_gets_its_lines_or_its_reason(server: ControlServer, sockets: Path) -> None:
    assert served(server, sockets, {"command": "link"}) == ["one", "two"]
    with pytest.raises(RunnerError, match=r"^it broke$") as failed:
        served(server, sockets, {"command": "fail"})
    assert not isinstance(failed.value, UsageError)
    with pytest.raises(UsageError, match=r"^want link$"):
        served(server, sockets, {})


def test_what_the_system_refuses_is_answered_in_one_line(
    server: ControlServer, sockets: Path
) -> None:
    with pytest.raises(RunnerError, match=r"^could not be done: .*Too many open files$") as failed:
        served(server, sockets, {"command": "no descriptors"})
    assert not isinstance(failed.value, UsageError)
    assert served(server, sockets, {"command": "link"}) == ["one", "two"]


def test_a_client_that_drips_is_not_waited_for_longer_than_one_that_says_nothing(
    server: ControlServer, sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "_REQUEST_TIMEOUT_S", 0.1)
    (path,) = sockets.iterdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(str(path))
        thread = threading.Thread(target=server.serve_one)
        thread.start()
        # Every byte comes long before a timeout of its own would pass; it ends by hanging up
        with pytest.raises(BrokenPipeError):
            for _ in range(60_000):
                client.send(b"x")
                thread.join(0.001)
        thread.join()


def test_only_the_user_may_ask(server: ControlServer, sockets: Path) -> None:
    (path,) = sockets.iterdir()
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("line", [b"{]\n", b"[1]\n", b"\xff\n", b"", b"[" * 100_000])
def test_garbage_is_refused_and_the_next_is_served(
    server: ControlServer, sockets: Path, line: bytes
) -> None:
    (path,) = sockets.iterdir()
    thread = threading.Thread(target=server.serve_one)
    thread.start()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(str(path))
        client.sendall(line)
        client.shutdown(socket.SHUT_WR)
        answer = json.loads(client.makefile("rb").readline())
    thread.join()
    assert (answer["ok"], answer["usage"]) == (False, True)
    assert served(server, sockets, {"command": "link"}) == ["one", "two"]


def test_a_run_that_does_not_listen_or_ends_is_told(sockets: Path) -> None:
    with pytest.raises(RunnerError, match="r1 takes no requests: a fabric of"):
        ask(run_of(sockets), {"command": "link"})
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(sockets / "runner.control"))
        listener.listen()
        thread = threading.Thread(target=lambda: listener.accept()[0].close())
        thread.start()
        with pytest.raises(RunnerError, match="r1 ended before it was done"):
            ask(run_of(sockets), {"command": "link"})
        thread.join()
