"""The control socket: writes from agent to agent, and what can be wrong with a request."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from host.agent.address import Address
from host.agent.agent import AgentOptions
from host.agent.commands import COMMANDS
from host.agent.control import ControlServer
from host.agent.errors import AgentError
from host.agent.workspace import pattern
from tests.host.agent.world import QUICK, Client, Side, run, until, world

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "mrc-host.md"


async def transfer(near: Side, far: Side, size: int) -> None:
    """Publish at the far end, write from the near one, compare at both."""
    sender, receiver = await Client.open(near), await Client.open(far)
    inbox = await receiver.ask("register", size=size, publish="inbox")
    source = await sender.ask("register", size=size)
    wanted = (await sender.ask("fill", region=source["region"], seed=7))["sha256"]
    assert (await receiver.ask("digest", region=inbox["region"]))["sha256"] != wanted
    made = await sender.ask("connect", to=far.exchange_address, region="inbox")
    assert made["peer"] == far.agent.name
    posted = await sender.ask("post_write", qp=made["qp"], region=source["region"], imm=99)
    done = await sender.ask("wait", qp=made["qp"])
    assert [(each["wr_id"], each["status"]) for each in done["completions"]] == [
        (posted["wr_id"], "SUCCESS")
    ]
    (arrived,) = (await receiver.ask("arrivals", region=inbox["region"]))["completions"]
    assert (arrived["imm"], arrived["byte_len"]) == (99, size)
    assert (await receiver.ask("digest", region=inbox["region"]))["sha256"] == wanted
    assert (await sender.ask("remote_digest", qp=made["qp"]))["sha256"] == wanted
    await sender.close()
    await receiver.close()


def test_megabytes_arrive_both_ways() -> None:
    async def test() -> None:
        async with world() as (near, far), asyncio.TaskGroup() as group:
            group.create_task(transfer(near, far, 3_000_001))
            group.create_task(transfer(far, near, 2_000_003))

    run(test())


def test_what_a_connection_made_ends_with_it() -> None:
    async def test() -> None:
        async with world() as (near, far):
            await transfer(near, far, 5000)
            for side in (near, far):
                await until(lambda side=side: not side.agent.workspaces)  # type: ignore[misc]
                assert not side.agent.nic.qps
                assert len(side.agent.nic.memory) == 0
                assert not side.agent.published

    run(test())


def test_queue_pairs_connect_through_whoever_carries_their_infos() -> None:
    async def test() -> None:
        async with world() as (near, far):
            sender, receiver = await Client.open(near), await Client.open(far)
            source = await sender.ask("register", size=10_000)
            await sender.ask("fill", region=source["region"], hex="c0ffee", offset=9_997)
            target = await receiver.ask("register", size=20_000)
            one = await sender.ask("create_qp")
            other = await receiver.ask("create_qp", regions=[target["region"]])
            await receiver.ask("connect_qp", qp=other["qp"], info=one["info"])
            await sender.ask("connect_qp", qp=one["qp"], info=other["info"])
            await receiver.ask("post_recv", qp=other["qp"])
            await sender.ask(
                "post_write",
                qp=one["qp"],
                region=source["region"],
                offset=9_000,
                length=1_000,
                remote_offset=500,
                imm=5,
            )
            (arrived,) = (await receiver.ask("wait", qp=other["qp"]))["completions"]
            assert (arrived["opcode"], arrived["imm"]) == ("RECV_RDMA_WITH_IMM", 5)
            read = await receiver.ask("read", region=target["region"], offset=1_497, length=4)
            assert read["hex"] == "c0ffee00"

    run(test())


def test_a_file_can_be_a_region(tmp_path: Path) -> None:
    file = tmp_path / "memory"
    file.write_bytes(bytes(10_000))

    async def test() -> None:
        async with world() as (near, far):
            sender, receiver = await Client.open(near), await Client.open(far)
            await receiver.ask("register", file=str(file), publish="file")
            source = await sender.ask("register", size=10_000)
            await sender.ask("fill", region=source["region"], hex="31323334", offset=4096)
            made = await sender.ask("connect", to=far.exchange_address, region="file")
            await sender.ask("post_write", qp=made["qp"], region=source["region"])
            await sender.ask("wait", qp=made["qp"])
            assert file.read_bytes()[4096:4100] == b"1234"

    run(test())


def test_a_peer_that_falls_silent_ends_the_queue_pair() -> None:
    async def test() -> None:
        async with world(AgentOptions(timing=QUICK, seed=1)) as (near, far):
            sender, receiver = await Client.open(near), await Client.open(far)
            await receiver.ask("register", size=4096, publish="inbox")
            source = await sender.ask("register", size=4096)
            made = await sender.ask("connect", to=far.exchange_address, region="inbox")
            await sender.ask("watch")
            for port in far.ports.values():
                port.dead = True
            await sender.ask("post_write", qp=made["qp"], region=source["region"])
            (done,) = (await sender.ask("wait", qp=made["qp"]))["completions"]
            assert done["status"] == "RETRY_EXCEEDED_ERROR"
            kinds = {event["event"] for event in sender.events}
            assert {"qp_error", "ev_state"} <= kinds
            assert (await sender.ask("stat"))["qps"][0]["state"] == "ERROR"

    run(test())


def test_a_port_that_is_disabled_moves_the_traffic() -> None:
    async def test() -> None:
        async with world() as (near, far):
            client, receiver = await Client.open(near), await Client.open(far)
            inbox = await receiver.ask("register", size=100_000, publish="inbox")
            source = await client.ask("register", size=100_000)
            made = await client.ask("connect", to=far.exchange_address, region="inbox")
            await client.ask("port", plane=0, enabled=False)
            await until(lambda: far.agent.nic.peer(near.agent.config.address).planes_up == 2)  # type: ignore[union-attr]
            before = [port["tx_frames"] for port in (await client.ask("stat"))["ports"]]
            await client.ask("post_write", qp=made["qp"], region=source["region"])
            await client.ask("wait", qp=made["qp"])
            after = [port["tx_frames"] for port in (await client.ask("stat"))["ports"]]
            assert after[0] == before[0]
            assert after[1] - before[1] >= inbox["length"] // 4096
            (paths,) = (await client.ask("evs"))["qps"]
            assert {ev["port_up"] for ev in paths["evs"] if ev["plane"] == 0} == {False}

    run(test())


def test_evs_name_every_link_of_every_path() -> None:
    async def test() -> None:
        async with world() as (near, far):
            client, receiver = await Client.open(near), await Client.open(far)
            await receiver.ask("register", size=1, publish="inbox")
            await client.ask("connect", to=far.exchange_address, region="inbox")
            (paths,) = (await client.ask("evs", peer="h2"))["qps"]
            assert paths["peer"] == "h2"
            assert [(ev["plane"], ev["state"], ev["active"]) for ev in paths["evs"]] == [
                (plane, "GOOD", True) for plane in (0, 0, 1, 1)
            ]
            assert paths["evs"][1]["path"] == [
                "h0--p0-t0-0",
                "p0-t0-0",
                "p0-t0-0--p0-t1-1",
                "p0-t1-1",
                "p0-t0-1--p0-t1-1",
                "p0-t0-1",
                "h2--p0-t0-1",
            ]
            assert (await client.ask("evs", peer="h1"))["qps"] == []
            probed = await client.ask("probe", peer="h2")
            assert all(ev["rtt_ns"] > 0 for ev in probed["evs"])
            for port in far.ports.values():
                port.dead = True
            silent = await client.ask("probe", peer="h2", timeout_ms=20)
            assert [ev["rtt_ns"] for ev in silent["evs"]] == [None] * 4

    run(test())


def test_wrong_requests_are_refused_in_one_line() -> None:
    async def test() -> None:
        async with world() as (near, far):
            client = await Client.open(near)
            for nonsense in (b"{\n", b"[" * 100_000 + b"\n"):
                assert "not JSON" in (await client.line(nonsense))["error"]
            assert "not a JSON object" in (await client.line(b"[1]\n"))["error"]
            assert "command: is missing" in (await client.line(b"{}\n"))["error"]
            assert "there are hello" in await client.refused("nonsense")
            assert "size: 0 does not fit" in await client.refused("register", size=0)
            assert "either size or file" in await client.refused("register")
            assert "no such field" in await client.refused("hello", extra=1)
            assert "region: 1 is none" in await client.refused("digest", region=1)
            assert "qp: 17 is none" in await client.refused("wait", qp=17)
            assert "h0..h3" in await client.refused("probe", peer="h9")
            assert "must be an integer" in await client.refused("probe", peer="h2", ev="1")
            assert "no path" in await client.refused("probe", peer="h2", ev=99)
            assert "plane: 2" in await client.refused("port", plane=2, enabled=True)
            assert "unix:/path" in await client.refused("connect", to="h2", region="x")
            nobody = f"unix:{near.folder}/nobody"
            assert "no agent at" in await client.refused("connect", to=nobody, region="x")
            error = await client.refused("connect", to=far.exchange_address, region="x")
            assert "h2: region 'x' is not published; there are: none" in error
            assert not near.agent.nic.qps
            region = (await client.ask("register", size=100))["region"]
            assert "offset" in await client.refused("read", region=region, offset=101, length=1)
            assert "hex" in await client.refused("fill", region=region, hex="0")
            # And the connection is as good as before
            assert (await client.ask("hello"))["host"] == "h0"

    run(test())


MANY_DIGITS = "9" * 5000
HUGE = 10**320
NO_HOST = {"h" + MANY_DIGITS: "host 'h999", "\ud800": "does not fit"}
NO_ADDRESS = {
    "unix:/\ud800": "cannot be printed",
    "tcp:\x00:1": "cannot be printed",
    "tcp:a..b:1": "no host's name",
    f"tcp:{'x' * 300}:1": "no host's name",
    f"tcp:x:{MANY_DIGITS}": "write unix:/path or tcp:host:port",
}
BAD_REQUESTS: list[tuple[str, dict[str, Any], str]] = [
    *(("evs", {"peer": name}, why) for name, why in NO_HOST.items()),
    *(("probe", {"peer": name}, why) for name, why in NO_HOST.items()),
    *(("deny", {"peer": name, "evs": [], "denied": True}, why) for name, why in NO_HOST.items()),
    *(("connect", {"to": address, "region": "x"}, why) for address, why in NO_ADDRESS.items()),
    *(
        ("flow_open", {"to": address, "name": "x", "size": 1}, why)
        for address, why in NO_ADDRESS.items()
    ),
    *(("write_lat", {"to": to, "loads": [{"size": 1}]}, why) for to, why in NO_ADDRESS.items()),
    ("create_qp", {"regions": [[1]]}, "regions: [1] does not fit: it must be an integer"),
    ("create_qp", {"regions": [{}]}, "regions: {} does not fit: it must be an integer"),
    ("register", {"size": MANY_DIGITS}, "…"),
    ("hello", {"a\nb": 1}, "there is no such field"),
]


def test_no_bad_request_leaves_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with world() as (near, far):
            client, other = await Client.open(near), await Client.open(far)
            for command, fields, reason in BAD_REQUESTS:
                error = await client.refused(command, **fields)
                assert reason in error and len(error) < 500
            await other.ask("register", size=1, publish="inbox")
            region = (await client.ask("register", size=1))["region"]
            qp = (await client.ask("connect", to=far.exchange_address, region="inbox"))["qp"]
            for command, made in (("wait", {"qp": qp}), ("arrivals", {"region": region})):
                error = await client.refused(command, **made, timeout_ms=HUGE)
                assert "timeout_ms: 1000000" in error
            await client.ask("flow_open", to=far.exchange_address, name="x", size=1, repeat=1)
            for name in ("start_ns", "until_ns", "deadline_ns"):
                error = await client.refused("flow_run", **{"start_ns": 0, name: HUGE})
                assert error.startswith(f"{name}: 1000000")
            info = (await client.ask("group_join", rank=0, size=1))["info"]
            await client.ask("group_connect", table=[info])
            for name in ("start_ns", "deadline_ns"):
                fields = {"collective": "all-reduce", "size": 4, name: HUGE}
                assert f"{name}: 1000000" in await client.refused("group_run", **fields)
            for depth in (800, 900, 950, 980):
                # What json reads, repr may find too deep
                nested = b"[" * depth + b"]" * depth
                line = b'{"command": "register", "size": ' + nested + b"}\n"
                assert not (await client.line(line))["ok"]
            assert "not JSON" in (await client.line(b"\xff\xfe\n"))["error"]

    run(test())
    assert [record for record in caplog.records if record.exc_info] == []


def test_requests_that_wait_are_limited() -> None:
    async def test() -> None:
        async with world() as (near, _):
            reader, writer = await asyncio.open_unix_connection(str(near.control_path))
            wait = {"command": "register", "size": 1}
            writer.write(json.dumps(wait).encode() + b"\n")
            region = json.loads(await reader.readline())["region"]
            # What this one waits for never comes
            writer.write(b'{"command": "arrivals", "region": %d}\n' % region)
            writer.write(b'{"command": "hello"}\n' * 100)
            answer = json.loads(await reader.readline())
            assert "more than 64 requests wait" in answer["error"]
            assert await reader.read() == b""
            writer.close()
            await until(lambda: not near.agent.workspaces)

    run(test())


def test_memory_is_limited_over_all_users() -> None:
    async def test() -> None:
        options = AgentOptions(seed=1, memory_bytes=1 << 20)
        async with world(options) as (near, far):
            client, other = await Client.open(near), await Client.open(near)
            first = await client.ask("register", size=700_000)
            for asked, command, fields in (
                ("500KiB", "register", {"size": 512_000}),
                ("700kB", "flow_open", {"to": far.exchange_address, "name": "x", "size": 700_000}),
                ("500kB", "write_lat", {"to": far.exchange_address, "loads": [{"size": 500_000}]}),
            ):
                error = await other.refused(command, **fields)
                assert error == (
                    f"memory: {asked} do not fit: the agent's users have 700kB of at most 1MiB "
                    "(--max-memory)"
                )
            # So is that of the far end of an exchange, and a rank's buffers
            fields = {"to": far.exchange_address, "name": "x", "size": 300_000}
            error = await other.refused("flow_open", **fields)
            assert error.startswith("h2: memory: ") and "have 0B of at most 1MiB" in error
            info = (await other.ask("group_join", rank=0, size=1))["info"]
            await other.ask("group_connect", table=[info])
            error = await other.refused("group_run", collective="all-reduce", size=180_000)
            assert error.startswith("memory: 360kB do not fit")
            await other.ask("group_run", collective="all-reduce", size=160_000)
            assert near.agent.memory.used_bytes == 700_000
            assert far.agent.memory.used_bytes == 0
            # What is let go of is free again
            await client.ask("deregister", region=first["region"])
            await other.ask("register", size=1 << 20)
            await other.close()
            await client.close()
            await until(lambda: not near.agent.workspaces)
            assert near.agent.memory.used_bytes == 0

    run(test())


def test_a_line_without_end_is_refused() -> None:
    async def test() -> None:
        async with world() as (near, _):
            reader, writer = await asyncio.open_unix_connection(str(near.control_path))
            writer.write(b"x" * (9 << 20) + b"\n")
            assert "longer than" in json.loads(await reader.readline())["error"]
            writer.close()

    run(test())


def test_the_socket_is_the_users_alone_and_goes_with_the_agent() -> None:
    async def test() -> None:
        async with world() as (near, far):
            mode = near.control_path.stat().st_mode
            assert stat.S_ISSOCK(mode)
            assert stat.S_IMODE(mode) == 0o600
            path = near.control_path
            await near.control.close()
            assert not path.exists()
            # A socket that somebody listens on is not taken over, one that was left behind is
            with pytest.raises(AgentError, match="cannot listen"):
                await ControlServer(near.agent).listen(Address(path=far.control_path))
            left = near.folder / "left.control"
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(left))
            again = ControlServer(near.agent)
            await again.listen(Address(path=left))
            await again.close()

    run(test())


def test_quit_ends_the_agent() -> None:
    async def test() -> None:
        async with world() as (near, _):
            client = await Client.open(near)
            assert (await client.ask("quit"))["pid"]
            assert near.agent.stopped.is_set()

    run(test())


def test_every_command_is_documented() -> None:
    text = DOCUMENT.read_text()
    missing = [name for name in COMMANDS if f"`{name}`" not in text]
    assert not missing


def test_patterns_are_one_stream_whatever_their_size() -> None:
    size_bytes = (2 << 20) + 5
    blocks = [*pattern(size_bytes, 7)]
    assert b"".join(blocks) == random.Random(7).randbytes(size_bytes)
    # A region may be as large as the memory that there is
    assert max(map(len, blocks)) == 1 << 20
