"""The control socket, both ends."""

from __future__ import annotations

import json
import socket
import stat
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from softswitch.control_socket import ControlClient, ControlError, ControlSocket
from softswitch.ports.in_process import InProcessPort
from softswitch.runtime import Runtime
from softswitch.switch import Switch


class Served:
    """A switch with ports 1 and 2, unless told otherwise, and a control socket, running."""

    def __init__(
        self, path: Path, *, ports: Iterable[int] = (1, 2), priority_queues: int = 2
    ) -> None:
        self.path = path
        self.runtime = Runtime(Switch(priority_queues=priority_queues))
        for number in ports:
            self.runtime.attach(number, InProcessPort(f"p{number}", lambda frame: None))
        self.control = ControlSocket(path, self.runtime)
        self.loop = threading.Thread(target=self.runtime.run)
        self.loop.start()

    def close(self) -> None:
        self.runtime.stop()
        self.loop.join(20)
        self.control.close()
        self.runtime.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    one = Served(tmp_path / "control")
    yield one
    one.close()


@pytest.fixture
def client(served: Served) -> Iterator[ControlClient]:
    with ControlClient(served.path) as connected:
        yield connected


def port_stats(client: ControlClient, port: int) -> dict[str, Any]:
    stats: dict[str, Any] = client.request("stats")["stats"]["ports"][str(port)]
    return stats


def test_only_the_owner_may(served: Served) -> None:
    assert stat.S_IMODE(served.path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("rate", "rate_bps"), [("10Gbps", 10**10), (125_000, 125_000), ("unlimited", None)]
)
def test_rates(client: ControlClient, rate: object, rate_bps: int | None) -> None:
    client.request("set_port_rate", port=1, rate=5)
    assert client.request("set_port_rate", port=1, rate=rate) == {}
    assert port_stats(client, 1)["rate_bps"] == rate_bps
    assert port_stats(client, 2)["rate_bps"] is None


def test_depths(client: ControlClient) -> None:
    def depths(port: int) -> list[tuple[int, int]]:
        queues = port_stats(client, port)["queues"]
        return [(each["depth_packets"], each["depth_bytes"]) for each in queues]

    client.request("set_queue_depth", packets=7, bytes=700)
    assert depths(1) == depths(2) == [(7, 700), (7, 700)]
    client.request("set_queue_depth", port=1, packets=8)
    client.request("set_queue_depth", port=1, queue=1, bytes=900)
    assert depths(1) == [(8, 700), (8, 900)]
    assert depths(2) == [(7, 700), (7, 700)]


def test_ports(client: ControlClient) -> None:
    client.request("port_down", port=2)
    assert port_stats(client, 2)["up"] is False
    client.request("port_up", port=2)
    assert port_stats(client, 2)["up"] is True


def test_stats(client: ControlClient) -> None:
    stats = client.request("stats")["stats"]
    assert {key: stats[key] for key in ("received", "copies", "sent", "queued", "dropped")} == {
        "received": 0,
        "copies": 0,
        "sent": 0,
        "queued": 0,
        "dropped": {},
    }
    assert {key: port["interface"] for key, port in stats["ports"].items()} == {
        "1": "p1",
        "2": "p2",
    }


def test_quit(served: Served, client: ControlClient) -> None:
    client.request("quit")
    served.loop.join(20)
    assert not served.loop.is_alive()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"nonsense", "not JSON"),
        (b"[1]", "not a JSON object"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 60_000, "not JSON"),
        (b"{}", "command None: want one of set_port_rate, set_queue_depth"),
        (b'{"command": ["quit"]}', "want one of"),
        (b'{"command": "reboot"}', "command 'reboot': want one of"),
        (b'{"command": "set_port_rate", "rate": 1}', "set_port_rate: port is missing"),
        (b'{"command": "set_port_rate", "port": "x", "rate": 1}', "port: 'x' is not a whole"),
        (b'{"command": "set_port_rate", "port": true, "rate": 1}', "port: True is not a whole"),
        (b'{"command": "set_port_rate", "port": 1}', "rate: want bits per second"),
        (b'{"command": "set_port_rate", "port": 1, "rate": "fast"}', "rate 'fast': want"),
        (b'{"command": "set_port_rate", "port": 1, "rate": 0}', "link rate: 0 bit/s"),
        (
            b'{"command": "set_port_rate", "port": 1, "rate": 1%s}' % (b"0" * 4000),
            "more than 1000T",
        ),
        (
            b'{"command": "set_port_rate", "port": 1, "rate": "1%s"}' % (b"0" * 5000),
            "at most 1000T",
        ),
        (b'{"command": "set_port_rate", "port": 9, "rate": 1}', "port 9 does not exist"),
        (b'{"command": "set_port_rate", "port": 1, "rate": 1, "x": 1}', "unknown field 'x'"),
        (b'{"command": "set_queue_depth"}', "want packets, bytes or both"),
        (b'{"command": "set_queue_depth", "packets": -1}', "-1 packets is negative"),
        (b'{"command": "set_queue_depth", "bytes": 1%s}' % (b"0" * 4000), "queue depth: more than"),
        (b'{"command": "set_queue_depth", "queue": 2, "packets": 1}', "queue 2"),
        (b'{"command": "port_down", "port": 3}', "port 3 does not exist"),
        (b'{"command": "stats", "port": 3}', "unknown field 'port'"),
    ],
)
def test_what_is_wrong_is_said_and_the_connection_stays(
    served: Served, line: bytes, words: str
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as raw:
        raw.settimeout(20)
        raw.connect(str(served.path))
        stream = raw.makefile("rb")
        raw.sendall(line + b"\n")
        answer = json.loads(stream.readline())
        assert answer["ok"] is False
        assert words in answer["error"]
        raw.sendall(b'\n{"command": "stats"}\n')
        assert json.loads(stream.readline())["ok"] is True
        stream.close()


def test_the_client_raises_what_the_switch_refuses(client: ControlClient) -> None:
    with pytest.raises(ControlError, match="set_port_rate: port 9 does not exist"):
        client.request("set_port_rate", port=9, rate=1)
    client.request("stats")


def test_a_request_in_pieces_and_several_at_once(served: Served) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as raw:
        raw.settimeout(20)
        raw.connect(str(served.path))
        stream = raw.makefile("rb")
        for piece in (b'{"comm', b'and": "stats"', b'}\n{"command":"port_up","port":1}\n'):
            raw.sendall(piece)
        assert "stats" in json.loads(stream.readline())
        assert json.loads(stream.readline()) == {"ok": True}
        stream.close()


def test_an_endless_line_is_cut_off(served: Served) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as raw:
        raw.settimeout(20)
        raw.connect(str(served.path))
        raw.sendall(b"x" * 70_000)
        stream = raw.makefile("rb")
        assert "longer than 65536 bytes" in json.loads(stream.readline())["error"]
        assert stream.readline() == b""
        stream.close()
    with ControlClient(served.path) as client:
        client.request("stats")


def test_clients_that_hang_up_leave_nothing_behind(served: Served) -> None:
    for _ in range(20):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as raw:
            raw.connect(str(served.path))
            raw.sendall(b'{"command": "stats"}\n' * 3)
    with ControlClient(served.path) as client:
        while len(served.control._connections) > 1:
            client.request("stats")


def test_an_answer_longer_than_a_socket_buffer_arrives_whole(tmp_path: Path) -> None:
    served = Served(tmp_path / "control", ports=range(1, 511), priority_queues=8)
    try:
        with ControlClient(served.path) as client:
            for _ in range(2):
                assert len(client.request("stats")["stats"]["ports"]) == 510
    finally:
        served.close()


def test_who_asks_without_reading_is_cut_off_and_the_switch_goes_on(served: Served) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as raw:
        raw.settimeout(20)
        raw.connect(str(served.path))
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            while True:
                raw.sendall(b'{"command": "stats"}\n' * 1000)
        with ControlClient(served.path) as client:
            client.request("stats")


def test_a_crowd_of_clients_is_refused(served: Served) -> None:
    crowd = [ControlClient(served.path) for _ in range(64)]
    try:
        crowd[63].request("stats")
        with (
            ControlClient(served.path) as late,
            pytest.raises(ControlError, match=r"64 clients are connected already|reset by peer"),
        ):
            late.request("stats")
        crowd.pop().close()
        while len(served.control._connections) > 63:
            crowd[0].request("stats")
        with ControlClient(served.path) as next_one:
            next_one.request("stats")
    finally:
        for client in crowd:
            client.close()


def test_paths_that_are_taken(served: Served, tmp_path: Path) -> None:
    with pytest.raises(ControlError, match="another switch listens there"):
        ControlSocket(served.path, served.runtime)
    plain = tmp_path / "file"
    plain.touch()
    with pytest.raises(ControlError, match="the path exists and is no socket"):
        ControlSocket(plain, served.runtime)
    with pytest.raises(ControlError, match="No such file or directory"):
        ControlSocket(tmp_path / "no" / "socket", served.runtime)
    with pytest.raises(ControlError, match=r"control socket .*nobody: No such file"):
        ControlClient(tmp_path / "nobody")


def test_a_socket_left_behind_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "control"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(path))
    served = Served(path)
    with ControlClient(path) as client:
        client.request("stats")
    served.close()
    assert not path.exists()
    assert list(tmp_path.iterdir()) == []
