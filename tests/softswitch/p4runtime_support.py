r"""A real P4Runtime server on a loopback port, and a client that shows every status as it is.

The programs are `programs/p4runtime_*.p4`, compiled from the root of the repository with

    p4c-bm2-ss --p4v 16 --p4runtime-files tests/softswitch/programs/NAME.p4info.txtpb \
        -o tests/softswitch/programs/NAME.json tests/softswitch/programs/NAME.p4
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import grpc
from google.protobuf import text_format
from google.rpc import status_pb2
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc

from softswitch.fair_lock import FairLock
from softswitch.p4runtime.access import DigestCallback, PacketInCallback
from softswitch.p4runtime.errors import Code
from softswitch.p4runtime.server import P4RuntimeServer
from softswitch.pipeline import Pipeline
from softswitch.program import Program
from softswitch.replication import ReplicationEngine
from softswitch.switch import Switch

PROGRAMS = Path(__file__).parent / "programs"
BASIC_JSON = PROGRAMS / "p4runtime_basic.json"
BASIC_P4INFO = PROGRAMS / "p4runtime_basic.p4info.txtpb"

DEVICE_ID = 3
CPU_PORT = 64
PORTS = (1, 2, 3, 4)
PATIENCE_S = 30
"""How long a test waits for what must happen; never a verdict about speed."""

INSERT, MODIFY, DELETE = (
    p4runtime_pb2.Update.INSERT,
    p4runtime_pb2.Update.MODIFY,
    p4runtime_pb2.Update.DELETE,
)
CONFIG_ACTIONS = p4runtime_pb2.SetForwardingPipelineConfigRequest


class SwitchControl:
    """`SwitchAccess` to a `Switch` without ports and without a `softswitch.runtime.Runtime`.

    Args:
        switch: the switch.
        lock: what serialises packets and control on it.
        now_ns: the clock that the packet loop uses.
        wake: called without the lock after the switch may have got something to send.
    """

    def __init__(
        self,
        switch: Switch,
        lock: AbstractContextManager[Any],
        now_ns: Callable[[], int],
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self._switch = switch
        self._lock = lock
        self._now_ns = now_ns
        self._wake = wake

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """The lock given at construction."""
        return self._lock

    @property
    def replication(self) -> ReplicationEngine:
        """The switch's replication engine."""
        return self._switch.replication

    def build(self, program: Program) -> Pipeline:
        """A pipeline with the switch's seed and drop port."""
        return Pipeline(program, seed=self._switch.seed, drop_port=self._switch.drop_port)

    def install(self, pipeline: Pipeline) -> None:
        """`Switch.install`."""
        self._switch.install(pipeline)

    def has_port(self, port: int) -> bool:
        """Whether it is one of `Switch.ports`."""
        return port in self._switch.ports

    def packet_out(self, frame: bytes) -> None:
        """`Switch.packet_out`, then `wake`."""
        with self._lock:
            self._switch.packet_out(frame, self._now_ns())
        self._wake()

    def now_ns(self) -> int:
        """The clock given at construction."""
        return self._now_ns()

    def set_callbacks(
        self, packet_in: PacketInCallback | None, digest: DigestCallback | None
    ) -> None:
        """Set the switch's callbacks."""
        self._switch.on_packet_in = packet_in
        self._switch.on_digest = digest


def load_p4info(path: Path = BASIC_P4INFO) -> Any:
    """A P4Info file in text format."""
    return text_format.Parse(path.read_text(), p4info_pb2.P4Info())


class Names:
    """Ids of a P4Info's objects by their full names."""

    def __init__(self, p4info: Any) -> None:
        self._ids: dict[str, int] = {}
        for kind in (
            "tables",
            "actions",
            "action_profiles",
            "counters",
            "direct_counters",
            "meters",
            "direct_meters",
            "registers",
            "digests",
            "value_sets",
        ):
            for obj in getattr(p4info, kind):
                self._ids[obj.preamble.name] = obj.preamble.id

    def __getitem__(self, name: str) -> int:
        return self._ids[name]


BASIC = Names(load_p4info())


class Clock:
    """A clock that tests move by hand; ns."""

    def __init__(self) -> None:
        self.now_ns = 1_000_000_000

    def __call__(self) -> int:
        return self.now_ns


@dataclass
class Served:
    """A switch and its server."""

    switch: Switch
    clock: Clock
    lock: FairLock
    server: P4RuntimeServer

    @property
    def address(self) -> str:
        """Where it listens."""
        return self.server.address

    def receive(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        """Put a frame into a port; returns what left, in order."""
        with self.lock:
            self.switch.receive(port, frame, self.clock())
            return self.switch.transmit(self.clock())

    def sent(self) -> list[tuple[int, bytes]]:
        """What left since the last call."""
        with self.lock:
            return self.switch.transmit(self.clock())


@contextmanager
def served(*, cpu_port: int | None = CPU_PORT, device_id: int = DEVICE_ID) -> Iterator[Served]:
    """A switch with four ports behind a server on a free loopback port."""
    switch = Switch(cpu_port=cpu_port)
    for port in PORTS:
        switch.add_port(port)
    clock = Clock()
    lock = FairLock()
    server = P4RuntimeServer(
        SwitchControl(switch, lock, clock), device_id=device_id, address="127.0.0.1:0"
    )
    with server:
        yield Served(switch, clock, lock, server)
    assert not lock.locked(), "the server left the switch's lock held"


class RpcFailed(Exception):
    """An RPC that ended with an error."""

    def __init__(self, error: Any) -> None:
        super().__init__(f"{error.code().name}: {error.details()}")
        self.code = Code(error.code().value[0])
        self.message: str = error.details()
        self.details: list[Any] = []
        for key, value in error.trailing_metadata() or ():
            if key == "grpc-status-details-bin":
                status = status_pb2.Status.FromString(value)
                assert (status.code, status.message) == (self.code, self.message)
                for packed in status.details:
                    detail = p4runtime_pb2.Error()
                    assert packed.Unpack(detail)
                    self.details.append(detail)

    @property
    def codes(self) -> list[Code]:
        """Code of each element of the batch."""
        return [Code(detail.canonical_code) for detail in self.details]


class Client:
    """One controller: a channel, and after `arbitrate` a stream."""

    def __init__(self, address: str, *, election_id: int | None = 1, role: str = "") -> None:
        self.election_id = election_id
        self.role = role
        self.channel = grpc.insecure_channel(
            address,
            # Spec appendix "gRPC Metadata Maximum Size": large batches of errors need room.
            options=(
                ("grpc.max_metadata_size", 1 << 20),
                ("grpc.absolute_max_metadata_size", 1 << 20),
                ("grpc.max_receive_message_length", -1),
            ),
        )
        self.stub = p4runtime_pb2_grpc.P4RuntimeStub(self.channel)
        self._to_send: queue.Queue[Any] = queue.Queue()
        self.received: queue.Queue[Any] = queue.Queue()
        self._stream: Any = None

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End stream and channel."""
        self._to_send.put(None)
        self.channel.close()

    # -- stream ----------------------------------------------------------------------------

    def send(self, message: Any) -> None:
        """Send a StreamMessageRequest; opens the stream when there is none."""
        if self._stream is None:
            self._stream = self.stub.StreamChannel(iter(self._to_send.get, None))
            threading.Thread(target=self._receive, daemon=True).start()
        self._to_send.put(message)

    def half_close(self) -> None:
        """Say that nothing more will be sent."""
        self._to_send.put(None)

    def cancel(self) -> None:
        """Tear the stream down without a word."""
        self._stream.cancel()

    def _receive(self) -> None:
        try:
            for message in self._stream:
                self.received.put(message)
            self.received.put(None)
        except grpc.RpcError as error:
            self.received.put(RpcFailed(error))

    def next(self, kind: str) -> Any:
        """The next message of the stream, which must be of this kind ("end" when it ends well)."""
        message = self.received.get(timeout=PATIENCE_S)
        if isinstance(message, RpcFailed):
            raise message
        if message is None:
            assert kind == "end", f"stream ended, want {kind}"
            return None
        found = message.WhichOneof("update")
        assert found == kind, f"want {kind}: {message}"
        return getattr(message, kind)

    def arbitrate(self, *, device_id: int = DEVICE_ID, election_id: int | None = -1) -> Any:
        """Send an update and return the answer."""
        message = p4runtime_pb2.StreamMessageRequest()
        message.arbitration.device_id = device_id
        if self.role:
            message.arbitration.role.name = self.role
        if election_id != -1:
            self.election_id = election_id
        if self.election_id is not None:
            set_uint128(message.arbitration.election_id, self.election_id)
        self.send(message)
        return self.next("arbitration")

    # -- RPCs ------------------------------------------------------------------------------

    def _identify(self, request: Any, device_id: int = DEVICE_ID) -> Any:
        request.device_id = device_id
        request.role = self.role
        if self.election_id is not None:
            set_uint128(request.election_id, self.election_id)
        return request

    def call(self, name: str, request: Any) -> Any:
        """A unary RPC; raises RpcFailed."""
        try:
            return getattr(self.stub, name)(request, timeout=PATIENCE_S)
        except grpc.RpcError as error:
            raise RpcFailed(error) from None

    def write(self, *updates: Any, atomicity: int = 0, device_id: int = DEVICE_ID) -> None:
        """A Write of (type, entity message) pairs."""
        request = p4runtime_pb2.WriteRequest(atomicity=atomicity)
        for update_type, message in updates:
            update = request.updates.add(type=update_type)
            field = _ENTITY_FIELDS[type(message)]
            getattr(update.entity, field).CopyFrom(message)
        self.call("Write", self._identify(request, device_id))

    def write_code(self, update_type: int, message: Any) -> Code:
        """The code of a single update."""
        try:
            self.write((update_type, message))
        except RpcFailed as failed:
            assert failed.code is Code.UNKNOWN, failed
            (code,) = failed.codes
            assert failed.details[0].message, "every error says what is wrong"
            return code
        return Code.OK

    def read(self, *messages: Any, device_id: int = DEVICE_ID) -> list[Any]:
        """A Read; the entities' own messages."""
        request = p4runtime_pb2.ReadRequest(device_id=device_id)
        for message in messages:
            getattr(request.entities.add(), _ENTITY_FIELDS[type(message)]).CopyFrom(message)
        return self.read_request(request)

    def read_request(self, request: Any) -> list[Any]:
        """A Read as it is."""
        found = []
        try:
            for response in self.stub.Read(request, timeout=PATIENCE_S):
                for entity in response.entities:
                    found.append(getattr(entity, entity.WhichOneof("entity")))
        except grpc.RpcError as error:
            raise RpcFailed(error) from None
        return found

    def read_code(self, message: Any) -> Code:
        """The code of a single read request."""
        try:
            self.read(message)
        except RpcFailed as failed:
            assert failed.code is Code.UNKNOWN, failed
            (code,) = failed.codes
            return code
        return Code.OK

    def set_pipeline(
        self,
        p4info: Any = None,
        device_config: bytes | None = None,
        *,
        action: int = CONFIG_ACTIONS.VERIFY_AND_COMMIT,
        cookie: int | None = None,
        device_id: int = DEVICE_ID,
    ) -> None:
        """SetForwardingPipelineConfig, of the basic program unless told otherwise."""
        request = p4runtime_pb2.SetForwardingPipelineConfigRequest(action=action)
        if action != CONFIG_ACTIONS.COMMIT:
            request.config.p4info.CopyFrom(load_p4info() if p4info is None else p4info)
            if device_config is None:
                device_config = BASIC_JSON.read_bytes()
            request.config.p4_device_config = device_config
            if cookie is not None:
                request.config.cookie.cookie = cookie
        self.call("SetForwardingPipelineConfig", self._identify(request, device_id))

    def get_pipeline(self, response_type: int = 0, device_id: int = DEVICE_ID) -> Any:
        """GetForwardingPipelineConfig."""
        request = p4runtime_pb2.GetForwardingPipelineConfigRequest(
            device_id=device_id, response_type=response_type
        )
        return self.call("GetForwardingPipelineConfig", request)


_ENTITY_FIELDS = {
    p4runtime_pb2.TableEntry: "table_entry",
    p4runtime_pb2.ActionProfileMember: "action_profile_member",
    p4runtime_pb2.ActionProfileGroup: "action_profile_group",
    p4runtime_pb2.MeterEntry: "meter_entry",
    p4runtime_pb2.DirectMeterEntry: "direct_meter_entry",
    p4runtime_pb2.CounterEntry: "counter_entry",
    p4runtime_pb2.DirectCounterEntry: "direct_counter_entry",
    p4runtime_pb2.PacketReplicationEngineEntry: "packet_replication_engine_entry",
    p4runtime_pb2.ValueSetEntry: "value_set_entry",
    p4runtime_pb2.RegisterEntry: "register_entry",
    p4runtime_pb2.DigestEntry: "digest_entry",
    p4runtime_pb2.ExternEntry: "extern_entry",
}


def set_uint128(message: Any, value: int) -> None:
    """Fill in a Uint128, which is set even when it is 0."""
    message.SetInParent()
    message.high = value >> 64
    message.low = value & (1 << 64) - 1


@contextmanager
def primary(address: str, *, with_pipeline: bool = True) -> Iterator[Client]:
    """A client that is primary, with the basic program loaded."""
    with Client(address) as client:
        assert client.arbitrate().status.code == Code.OK
        if with_pipeline:
            client.set_pipeline()
        yield client


# -- messages ------------------------------------------------------------------------------


def parse(cls: Any, text: str, **ids: str) -> Any:
    """A message from text format in which {name} stands for the id of a P4Info object."""
    for name, full_name in ids.items():
        text = text.replace("{" + name + "}", str(BASIC[full_name]))
    return text_format.Parse(text, cls())


def table_entry(table: str, text: str = "") -> Any:
    """A TableEntry of the basic program; <name> in the text is the id of the action Main.name."""
    for action in (
        "drop",
        "forward",
        "rewrite",
        "broadcast",
        "mirror",
        "to_cpu",
        "learn",
        "count_route",
        "police",
    ):
        text = text.replace(f"<{action}>", str(BASIC[f"Main.{action}"]))
    text = text.replace("<NoAction>", str(BASIC["NoAction"]))
    message = text_format.Parse(text, p4runtime_pb2.TableEntry())
    message.table_id = BASIC[f"Main.{table}"]
    return message
