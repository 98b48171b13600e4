"""The controller against real P4Runtime servers: softswitch, and BMv2 where it is installed."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller import fabric_program as p4
from controller.client import DELETE, INSERT, MODIFY, Pipeline, SwitchClient, WriteError
from controller.entries import ActionCall, Entity, Group, GroupRef, Member, TableEntry
from controller.install import install, verify
from controller.p4info import Schema
from controller.plan import SwitchPlan
from topologies.model import Fabric

START_S = 60.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def command(target: str, device_id: int, address: str) -> list[str]:
    if target == "softswitch":
        program = [sys.executable, "-m", "softswitch"]
    else:
        found = shutil.which(os.environ.get("BMV2") or "simple_switch_grpc")
        assert found is not None
        program = [found, "--thrift-port", str(free_port())]
    return [*program, "--device-id", str(device_id), "--no-p4", "-L", "warn",
            "--", "--grpc-server-addr", address]  # fmt: skip


@pytest.fixture(params=["softswitch", pytest.param("bmv2", marks=pytest.mark.bmv2)])
def switch_address(
    request: pytest.FixtureRequest, t0_plan: SwitchPlan, tmp_path: Path
) -> Iterator[str]:
    """A running switch without a program. A port that was just free may be taken: try again."""
    for _ in range(3):
        address = f"127.0.0.1:{free_port()}"
        log = tmp_path / "switch.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command(request.param, t0_plan.switch.device_id, address),
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            deadline = time.monotonic() + START_S
            while process.poll() is None and time.monotonic() < deadline:
                with SwitchClient(address, t0_plan.switch.device_id) as client:
                    client.wait_until_up(START_S)
                    yield address
                    return
        finally:
            process.terminate()
            process.wait(30)
    pytest.fail(f"{request.param} did not start: {log.read_text()}")


def test_install_verify_again_and_repair(
    switch_address: str, pipeline: Pipeline, t0_plan: SwitchPlan, schema: Schema
) -> None:
    device_id = t0_plan.switch.device_id
    wanted = len(list(t0_plan.entities()))
    with SwitchClient(switch_address, device_id) as client:
        first = install(client, pipeline, t0_plan)
    assert (first.pipeline_set, first.written, first.deleted) == (True, wanted, 0)
    with SwitchClient(switch_address, device_id) as client:
        again = install(client, pipeline, t0_plan)
        assert (again.pipeline_set, again.written, again.deleted) == (False, 0, 0)

        # Somebody else tampers: a stale member, group and route, a changed entry, a lost one
        stale: list[Entity] = [
            Member(p4.ECMP, 77, ActionCall(p4.ROUTE_TO_PORT.name, (9,))),
            Group(p4.ECMP, 7, ((77, 1),)),
            TableEntry(p4.IPV6_ROUTE.name, ((0x20 << 120, 8),), GroupRef(7)),
        ]
        for entity in stale:
            client.write(INSERT, [entity], schema)
        trim_size = TableEntry(p4.TRIM_SIZE.name, (41,), ActionCall(p4.KEEP.name, (99,)))
        client.write(MODIFY, [trim_size], schema)
        own = TableEntry(p4.MY_SID.name, (t0_plan.fabric.addresses.sid(0x0800),),
                         ActionCall(p4.UN.name, ()))  # fmt: skip
        client.write(DELETE, [own], schema)
    with SwitchClient(switch_address, device_id) as client:
        difference = verify(client, pipeline, t0_plan)
        assert sorted(line.split()[0] for line in difference.lines(schema)) == [
            "changed", "extra", "extra", "extra", "missing",
        ]  # fmt: skip
        repaired = install(client, pipeline, t0_plan)
        assert (repaired.pipeline_set, repaired.written, repaired.deleted) == (False, 2, 3)
        assert not verify(client, pipeline, t0_plan)


def test_refusals_come_with_reasons(
    switch_address: str, pipeline: Pipeline, t0_plan: SwitchPlan, schema: Schema
) -> None:
    """Many at once: the reasons of a whole batch must fit in one answer."""
    with SwitchClient(switch_address, t0_plan.switch.device_id) as client:
        install(client, pipeline, t0_plan)
        entries = [
            TableEntry(p4.NEXT_SID.name, (number,), ActionCall(p4.SID_TO_PORT.name, (1,)))
            for number in range(300)
        ]
        assert client.write(INSERT, entries, schema) == 300
        with pytest.raises(WriteError) as raised:
            client.write(INSERT, entries, schema)
    assert len(raised.value.refused) == 300
    assert re.match(
        r"insert FabricIngress\.srv6\.next_sid\[sid=::/48\]: ALREADY_EXISTS",
        raised.value.refused[0],
    )


def test_counters_are_all_there(
    switch_address: str, pipeline: Pipeline, t0_plan: SwitchPlan, schema: Schema
) -> None:
    with SwitchClient(switch_address, t0_plan.switch.device_id) as client:
        install(client, pipeline, t0_plan)
        cells = list(client.read_counters(schema))
    assert len(cells) == sum(counter.size for counter in schema.counters)
    assert {cell.counter for cell in cells} == {counter.name for counter in schema.counters}
    assert not any(cell.packets or cell.bytes for cell in cells)


def test_shell_reads_the_tables(
    switch_address: str,
    pipeline: Pipeline,
    t0_plan: SwitchPlan,
    fabric: Fabric,
    tmp_path: Path,
) -> None:
    with SwitchClient(switch_address, t0_plan.switch.device_id) as client:
        install(client, pipeline, t0_plan)
    addresses = tmp_path / "switches.yaml"
    addresses.write_text(f"p0-t0-0: {switch_address!r}\n")
    ran = subprocess.run(
        [sys.executable, "-m", "controller.cli", "shell", "p0-t0-0", "--topology", fabric.name,
         "--switches", str(addresses)],
        input="for entry in table_entry['my_sid'].read(): print(entry)\n\nexit\n",
        capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "IPYTHONDIR": str(tmp_path), "TERM": "dumb"},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "FabricIngress.srv6.un" in ran.stdout
