"""A fabric in this process, for the exchange: it does to packets what a test tells it to."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from topologies.addressing import Path
from topologies.model import Fabric
from topologies.runner.check import frames
from topologies.runner.check.exchange import Flow
from topologies.runner.check.frames import Write

#: Gets each frame as the destination would see it; returns what arrives there
Behaviour = Callable[[bytes], list[bytes]]


def deliver(arrival: bytes) -> list[bytes]:
    """Every packet arrives as it should."""
    return [arrival]


class FakePort:
    """A NIC port: what is sent goes through the fabric's behaviour at once."""

    def __init__(self, fabric: FakeFabric, host: str, plane: int) -> None:
        self.host = host
        self.plane = plane
        self._fabric = fabric
        self._frames: deque[bytes] = deque()
        self._ready = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_SEMAPHORE)

    def fileno(self) -> int:
        return self._ready

    def send(self, frame: bytes) -> None:
        self._fabric.carry(frame)

    def receive(self) -> bytes | None:
        if not self._frames:
            return None
        os.eventfd_read(self._ready)
        return self._frames.popleft()

    def put(self, frame: bytes) -> None:
        self._frames.append(frame)
        os.eventfd_write(self._ready, 1)

    def close(self) -> None:
        os.close(self._ready)


class FakeFabric:
    """Ports of every host, and one behaviour for all packets."""

    def __init__(self, fabric: Fabric, behaviour: Behaviour = deliver) -> None:
        self.fabric = fabric
        self.behaviour = behaviour
        self.carried = 0
        self.ports = {
            (host.name, plane): FakePort(self, host.name, plane)
            for host in fabric.hosts()
            for plane in range(fabric.planes)
        }
        self._flows: dict[int, Flow] = {}

    def flow(self, path: Path, qp: int, packets: int, payload_bytes: int = 64) -> Flow:
        source = self.ports[self.fabric.host_at(path.source).name, path.plane]
        destination = self.ports[self.fabric.host_at(path.destination).name, path.plane]
        write = Write(self.fabric, path, qp, packets, payload_bytes)
        self._flows[qp] = Flow(write, source, destination)
        return self._flows[qp]

    def flows(self, paths: Sequence[Path], packets: int) -> list[Flow]:
        return [self.flow(path, qp, packets) for qp, path in enumerate(paths, 1)]

    def carry(self, frame: bytes) -> None:
        self.carried += 1
        key = frames.key_of(frame)
        assert key is not None
        flow = self._flows[key.qp]
        destination = flow.destination
        assert isinstance(destination, FakePort)
        for arrival in self.behaviour(flow.write.arrival(frame)):
            destination.put(arrival)


@contextmanager
def fake_fabric(fabric: Fabric, behaviour: Behaviour = deliver) -> Iterator[FakeFabric]:
    """A fake fabric whose descriptors are closed afterwards."""
    fake = FakeFabric(fabric, behaviour)
    try:
        yield fake
    finally:
        for port in fake.ports.values():
            port.close()
