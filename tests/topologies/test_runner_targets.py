"""Command lines of the targets, and what is said where one is missing."""

from pathlib import Path
from typing import Any, cast

import pytest

from topologies.model import QueueSettings
from topologies.runner.errors import RunnerError, UsageError
from topologies.runner.targets import PortLimit, SwitchPlace, find_target
from topologies.runner.targets.bmv2 import Bmv2
from topologies.runner.targets.softswitch import Softswitch

QUEUE = QueueSettings(64 * 1024, 32 * 1024)


def place(
    tmp_path: Path, rate_bps: int | None = 10_000_000, queue: QueueSettings = QUEUE
) -> SwitchPlace:
    return SwitchPlace(
        name="p0-t0-0",
        device_id=2048,
        namespace=cast(Any, None),
        interfaces={0: "port0", 1: "port1"},
        limits={0: PortLimit(rate_bps, queue), 1: PortLimit(None, QUEUE)},
        frame_bytes=4238,
        sockets=tmp_path,
        log=tmp_path / "log",
    )


def test_softswitch_is_started_with_rates_and_its_control_socket(tmp_path: Path) -> None:
    command = list(Softswitch().command(place(tmp_path)))
    text = " ".join(command)
    assert "--device-id 2048 -i 0@port0 -i 1@port1 --no-p4" in text
    assert f"--grpc-server-addr unix:{tmp_path}/p0-t0-0.grpc --priority-queues 2" in text
    assert f"--control-socket {tmp_path}/p0-t0-0.control" in text
    assert text.count("--port-rate") == 1
    assert "--port-rate 0=10000000" in text


def test_the_softswitch_has_queues_deeper_than_the_limits_of_the_program(tmp_path: Path) -> None:
    assert "--queue-depth" not in " ".join(Softswitch().command(place(tmp_path)))
    large = QueueSettings(64 << 20, 32 * 1024)
    command = list(Softswitch().command(place(tmp_path, queue=large)))
    assert command[command.index("--queue-depth-packets") + 1] == f"0={(64 << 20) * 2 // 64}"


def test_softswitch_is_ready_when_its_ready_file_is_there(tmp_path: Path) -> None:
    target = Softswitch()
    assert not target.is_ready(place(tmp_path))
    (tmp_path / "p0-t0-0.ready").touch()
    assert target.is_ready(place(tmp_path))


def test_a_softswitch_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunnerError, match="p0-t0-0: cannot set the rate of port 1: "):
        Softswitch().set_rate(place(tmp_path), 1, None)
    assert Softswitch().own_losses(place(tmp_path)) is None


def test_bmv2_takes_interfaces_before_the_dashes(tmp_path: Path) -> None:
    command = list(Bmv2(Path("/x/simple_switch_grpc"), Path("/x/cli")).command(place(tmp_path)))
    dashes = command.index("--")
    assert command[:dashes] == [
        "/x/simple_switch_grpc", "--device-id", "2048", "--no-p4", "-i", "0@port0",
        "-i", "1@port1", "--log-console", "-L", "warn", "--thrift-port", "9090",
    ]  # fmt: skip
    assert command[dashes + 1 :] == [
        "--grpc-server-addr", f"unix:{tmp_path}/p0-t0-0.grpc", "--priority-queues", "2",
    ]  # fmt: skip


def test_bmv2_without_thrift_says_what_is_not_modelled(tmp_path: Path) -> None:
    target = Bmv2(Path("/x/simple_switch_grpc"), None)
    assert "--thrift-port" not in target.command(place(tmp_path))
    assert not target.can_set_rates()
    assert "not modelled" in (target.not_modelled() or "")
    target.prepare(place(tmp_path))  # asks nobody for anything


class RecordingBmv2(Bmv2):
    def __init__(self) -> None:
        super().__init__(Path("/x/simple_switch_grpc"), Path("/x/cli"))
        self.commands: list[str] = []

    def _thrift(self, place: SwitchPlace, commands: Any) -> None:
        self.commands += commands


def test_bmv2_gets_deep_queues_and_limits_the_data_class_only(tmp_path: Path) -> None:
    target = RecordingBmv2()
    target.prepare(place(tmp_path))
    # 10 Mb/s of frames of 4,238 bytes and 24 more on the wire
    assert [each for each in target.commands if "rate" in each] == ["set_queue_rate 293 0 0"]
    depths = [each.split() for each in target.commands if "depth" in each]
    assert [each[2:] for each in depths] == [["0", "0"], ["0", "1"], ["1", "0"], ["1", "1"]]
    assert all(int(each[1]) * 64 >= QUEUE.data_limit_bytes for each in depths)
    target.commands.clear()
    target.set_rate(place(tmp_path), 1, 1000)
    target.set_rate(place(tmp_path), 1, None)
    assert target.commands == ["set_queue_rate 1 1 0", "set_queue_rate 0 1 0"]


def test_an_unknown_target_is_a_usage_error() -> None:
    with pytest.raises(
        UsageError, match="unknown target 'tofino'; choose one of: softswitch, bmv2"
    ):
        find_target("tofino")


def fake_bmv2(folder: Path, help_text: str) -> Path:
    binary = folder / "simple_switch_grpc"
    binary.write_text(f"#!/bin/sh\necho '{help_text}'\n")
    binary.chmod(0o755)
    return binary


def test_bmv2_is_found_by_file_folder_or_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    binary = fake_bmv2(tmp_path, "no options")
    for chosen in (binary, tmp_path):
        monkeypatch.setenv("BMV2", str(chosen))
        assert find_target("bmv2").name == "bmv2"
        assert not find_target("bmv2").can_set_rates()
    monkeypatch.delenv("BMV2")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert find_target("bmv2").name == "bmv2"


def test_bmv2_with_thrift_needs_its_command_line_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_bmv2(tmp_path, "--thrift-port arg")
    monkeypatch.setenv("BMV2", str(tmp_path))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert not find_target("bmv2").can_set_rates()
    cli = tmp_path / "simple_switch_CLI"
    cli.write_text("#!/bin/sh\n")
    cli.chmod(0o755)
    assert find_target("bmv2").can_set_rates()


def test_a_missing_bmv2_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BMV2", str(tmp_path / "nothing"))
    with pytest.raises(RunnerError, match=r"\$BMV2 is .*nothing, but there is no program"):
        find_target("bmv2")
    monkeypatch.delenv("BMV2")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RunnerError, match="target bmv2 needs simple_switch_grpc: install BMv2"):
        find_target("bmv2")
