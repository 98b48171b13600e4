"""A small fabric, its program, and switches that only pretend."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from controller.client import Pipeline
from controller.p4info import Schema
from controller.plan import SwitchPlan
from controller.program import default_device_config, default_p4info, load_pipeline
from tests.controller.fake_switch import FakeSwitch, serve
from topologies.loader import load_topology, ready_topologies
from topologies.model import Fabric

# Machines that run tests are busy: how long an example takes says nothing
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


@pytest.fixture(scope="session")
def pipeline() -> Pipeline:
    return load_pipeline(default_p4info(), default_device_config())


@pytest.fixture(scope="session")
def schema(pipeline: Pipeline) -> Schema:
    return Schema(pipeline.p4info)


@pytest.fixture(scope="session")
def fabric() -> Fabric:
    return load_topology(ready_topologies()["one-plane"])


@pytest.fixture(scope="session")
def t0_plan(fabric: Fabric) -> SwitchPlan:
    return SwitchPlan(fabric, fabric.switch("p0-t0-0"))


@pytest.fixture
def fake(t0_plan: SwitchPlan) -> FakeSwitch:
    return FakeSwitch(t0_plan.switch.device_id)


@pytest.fixture
def fake_address(fake: FakeSwitch) -> Iterator[str]:
    with serve(fake) as address:
        yield address


@dataclass
class FakeFabric:
    """Pretended switches of one-plane, and a file of their addresses."""

    switches: dict[str, FakeSwitch]
    addresses: dict[str, str]
    file: Path

    def write_addresses(self) -> None:
        lines = [f"{name}: {address!r}\n" for name, address in self.addresses.items()]
        self.file.write_text("".join(lines))


@pytest.fixture
def fake_fabric(fabric: Fabric, tmp_path: Path) -> Iterator[FakeFabric]:
    with ExitStack() as stack:
        switches = {s.name: FakeSwitch(s.device_id) for s in fabric.switches()}
        addresses = {name: stack.enter_context(serve(switch)) for name, switch in switches.items()}
        fakes = FakeFabric(switches, addresses, tmp_path / "switches.yaml")
        fakes.write_addresses()
        yield fakes
