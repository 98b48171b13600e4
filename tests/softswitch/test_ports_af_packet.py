"""AF_PACKET ports over veth pairs between namespaces made here."""

from __future__ import annotations

import contextlib
import hashlib
import os
import select
import socket
import struct
import threading
from collections.abc import Iterator

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether

from rawsocket.af_packet import AfPacketPort
from rawsocket.links import LinkMonitor
from softswitch.pipeline import Again, IngressResult
from softswitch.ports.base import PortError
from softswitch.runtime import Runtime
from softswitch.switch import Switch
from tests.softswitch.namespaces import Namespace, namespaces, veth
from tests.softswitch.scripted_pipeline import scripted, send_to

pytestmark = pytest.mark.netns

SOL_UDP = 17
UDP_SEGMENT = 103
BROADCAST = b"\xff" * 6
SOURCE = b"\x02\0\0\0\0\x01"


@pytest.fixture
def pair() -> Iterator[tuple[Namespace, Namespace]]:
    """A switch's and a host's namespace, joined by sw0 and h0."""
    with namespaces("s", "h") as (switch, host):
        veth(switch, "sw0", host, "h0")
        yield switch, host


def open_port(where: Namespace, interface: str = "sw0", **options: int) -> AfPacketPort:
    with where.inside():
        return AfPacketPort(interface, **options)


def receive(port: AfPacketPort, count: int) -> list[bytes]:
    """Wait for `count` frames."""
    frames: list[bytes] = []
    while len(frames) < count:
        ready, _, _ = select.select([port], [], [], 10)
        assert ready, f"{len(frames)} of {count} frames came"
        frames += port.receive(32)
    return frames


def ethernet(payload: bytes, ethertype: int = 0x88B5) -> bytes:
    return BROADCAST + SOURCE + ethertype.to_bytes(2, "big") + payload


@pytest.mark.parametrize("size", [0, 46, 1500, 4096, 9216])
def test_frames_pass_whole_in_both_directions(pair: tuple[Namespace, Namespace], size: int) -> None:
    switch, host = pair
    port = open_port(switch)
    raw = host.raw_socket("h0")
    frame = ethernet(os.urandom(size))
    raw.send(frame)
    assert receive(port, 1) == [frame]
    answer = ethernet(os.urandom(size))
    port.send(answer)
    assert raw.recv(65536) == answer
    assert port.take_losses(poll=True) == []
    port.close()
    raw.close()


def test_frames_longer_than_jumbo(pair: tuple[Namespace, Namespace]) -> None:
    switch, host = pair
    for namespace, interface in ((switch, "sw0"), (host, "h0")):
        namespace.ip("link", "set", interface, "mtu", "65535")
    port = open_port(switch)
    raw = host.raw_socket("h0")
    for size in (9714, 9715, 65_535):
        frame = ethernet(os.urandom(size))
        raw.send(frame)
        assert receive(port, 1) == [frame]
        port.send(frame)
        assert raw.recv(1 << 17) == frame
    port.close()
    raw.close()


def test_a_batch_keeps_its_order_and_its_limit(pair: tuple[Namespace, Namespace]) -> None:
    switch, host = pair
    port = open_port(switch)
    raw = host.raw_socket("h0")
    frames = [ethernet(index.to_bytes(2, "big") + bytes(index * 90)) for index in range(100)]
    for frame in frames:
        raw.send(frame)
    assert len(port.receive(7)) == 7
    assert receive(port, 93) == frames[7:]
    assert port.receive(32) == []
    port.close()
    raw.close()


def test_own_frames_are_not_heard(pair: tuple[Namespace, Namespace]) -> None:
    switch, host = pair
    port = open_port(switch)
    raw = host.raw_socket("h0")
    port.send(ethernet(b"out"))
    assert raw.recv(65536) == ethernet(b"out")
    raw.send(ethernet(b"in"))
    assert receive(port, 1) == [ethernet(b"in")]
    port.close()
    raw.close()


@pytest.mark.parametrize(
    "tags", [b"\x81\x00\x20\x05", b"\x88\xa8\x00\x07\x81\x00\xe0\x01", b"\x81\x00\x00\x00"]
)
def test_vlan_tags_arrive_as_they_were_sent(pair: tuple[Namespace, Namespace], tags: bytes) -> None:
    switch, host = pair
    port = open_port(switch)
    raw = host.raw_socket("h0")
    frame = BROADCAST + SOURCE + tags + b"\x88\xb5" + os.urandom(9000)
    raw.send(frame)
    assert receive(port, 1) == [frame]
    port.send(frame)
    # The host's raw socket does not ask for the tag that its kernel takes out.
    assert raw.recv(65536) == frame[:12] + frame[16:]
    port.close()
    raw.close()


def test_vlan_interface_of_a_host(pair: tuple[Namespace, Namespace]) -> None:
    """The host's kernel leaves the tag to the hardware."""
    switch, host = pair
    try:
        host.ip("link", "add", "link", "h0", "name", "v7", "type", "vlan", "id", "7")
    except RuntimeError as error:
        pytest.skip(f"this kernel has no VLAN interfaces ({error})")
    host.ip("link", "set", "v7", "up")
    port = open_port(switch)
    raw = host.raw_socket("v7")
    raw.send(ethernet(b"tagged"))
    assert receive(port, 1) == [BROADCAST + SOURCE + b"\x81\x00\x00\x07\x88\xb5tagged"]
    port.close()
    raw.close()


def addresses(host: Namespace) -> None:
    host.ip("addr", "add", "10.9.0.1/24", "dev", "h0")
    host.ip("neigh", "add", "10.9.0.2", "lladdr", "02:00:00:00:00:02", "dev", "h0")


def assert_checksums(frame: bytes) -> None:
    """Scapy computes what stands in the frame already."""
    parsed = Ether(frame)
    again = Ether(frame)
    del again[IP].chksum
    for layer in (TCP, UDP):
        if layer in again:
            del again[layer].chksum
    assert bytes(again) == bytes(parsed) == frame


def test_partial_checksums_are_completed(pair: tuple[Namespace, Namespace]) -> None:
    switch, host = pair
    addresses(host)
    port = open_port(switch)
    with host.inside():
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        caller = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sender.sendto(os.urandom(8001), ("10.9.0.2", 5000))
    caller.setblocking(False)
    caller.connect_ex(("10.9.0.2", 5001))
    frames = receive(port, 2)
    for frame in frames:
        assert_checksums(frame)
    assert UDP in Ether(frames[0])
    assert TCP in Ether(frames[1])
    for each in (sender, caller, port):
        each.close()


def test_super_frames_are_cut_as_the_sender_asked(pair: tuple[Namespace, Namespace]) -> None:
    switch, host = pair
    addresses(host)
    port = open_port(switch)
    with host.inside():
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.setsockopt(SOL_UDP, UDP_SEGMENT, 1400)
    payload = os.urandom(60_000)
    sender.sendto(payload, ("10.9.0.2", 5000))
    frames = receive(port, 43)
    assert b"".join(frame[42:] for frame in frames) == payload
    assert {len(frame) for frame in frames[:-1]} == {1442}
    for frame in frames:
        assert_checksums(frame)
    assert port.take_losses(poll=True) == []
    sender.close()
    port.close()


@pytest.mark.parametrize("mtu", [1500, 9000])
def test_kernel_tcp_and_udp_through_the_switch(mtu: int) -> None:
    """Two hosts with all offloads on, as they come, on either side of a switch."""
    longest = 0

    def forward(frame: bytes, port: int, now_ns: int, again: Again | None) -> IngressResult:
        nonlocal longest
        longest = max(longest, len(frame))
        return send_to(3 - port, frame)

    data = os.urandom(1 << 20) * 4
    received = hashlib.sha256()
    with namespaces("s", "a", "b") as (middle, left, right):
        for host, interface, address in ((left, "sw1", "10.9.1.1"), (right, "sw2", "10.9.1.2")):
            veth(middle, interface, host, "e0", mtu=mtu)
            host.ip("addr", "add", f"{address}/24", "dev", "e0")
        switch = Switch()
        switch.install(scripted(forward))
        runtime = Runtime(switch)
        with middle.inside():
            runtime.attach(1, AfPacketPort("sw1"))
            runtime.attach(2, AfPacketPort("sw2"))
        loop = threading.Thread(target=runtime.run)
        loop.start()
        with right.inside():
            listener = socket.create_server(("10.9.1.2", 5000))
            udp_receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            udp_receiver.bind(("10.9.1.2", 6000))
        with left.inside():
            caller = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            udp_sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for each in (listener, udp_receiver, caller, udp_sender):
            each.settimeout(30)

        def take() -> None:
            accepted, _ = listener.accept()
            with accepted:
                accepted.settimeout(30)
                while piece := accepted.recv(1 << 16):
                    received.update(piece)

        taker = threading.Thread(target=take)
        taker.start()
        try:
            caller.connect(("10.9.1.2", 5000))
            caller.sendall(data)
            caller.close()
            taker.join()
            udp_sender.sendto(data[:30_000], ("10.9.1.2", 6000))  # in IP fragments
            assert udp_receiver.recv(65536) == data[:30_000]
            udp_sender.setsockopt(SOL_UDP, UDP_SEGMENT, 1000)
            udp_sender.sendto(data[:3_500], ("10.9.1.2", 6000))
            pieces = [udp_receiver.recv(65536) for _ in range(4)]
            assert b"".join(pieces) == data[:3_500]
        finally:
            runtime.stop()
            loop.join()
            for each in (listener, udp_receiver, udp_sender):
                each.close()
        stats = runtime.stats()
        runtime.close()
    assert received.digest() == hashlib.sha256(data).digest()
    assert longest == mtu + 14  # so segments were full, and no super-frame came through
    assert stats.received == stats.sent
    assert stats.dropped == {}


def test_socket_overflow_is_counted_to_the_frame(pair: tuple[Namespace, Namespace]) -> None:
    switch, host = pair
    port = open_port(switch, receive_buffer_bytes=1 << 16)
    raw = host.raw_socket("h0")
    for _ in range(500):
        raw.send(ethernet(bytes(4096)))
    taken = 0
    while frames := port.receive(32):
        taken += len(frames)
    (loss,) = port.take_losses(poll=True)
    assert (loss.reason, loss.before) == ("socket_overflow", True)
    assert loss.packets > 0
    assert taken + loss.packets == 500
    port.close()
    raw.close()


def test_interface_drops_are_counted(pair: tuple[Namespace, Namespace]) -> None:
    """A frame longer than the receiving interface's MTU never reaches the socket."""
    switch, host = pair
    switch.ip("link", "set", "sw0", "mtu", "1500")
    port = open_port(switch)
    with switch.inside():
        monitor = LinkMonitor()
    raw = host.raw_socket("h0")

    def tell() -> None:
        state = monitor.query(port.ifindex)
        assert state is not None
        port.count_interface_dropped(state.rx_dropped)

    tell()
    for _ in range(3):
        with contextlib.suppress(OSError):  # newer kernels tell the sender, too
            raw.send(ethernet(bytes(4096)))
    raw.send(ethernet(b"short"))
    assert receive(port, 1) == [ethernet(b"short")]
    tell()
    (loss,) = port.take_losses(poll=True)
    assert (loss.reason, loss.packets, loss.before) == ("interface_dropped", 3, True)
    monitor.close()
    port.close()
    raw.close()


def test_batches_are_sent_whole_and_in_order(pair: tuple[Namespace, Namespace]) -> None:
    switch, host = pair
    port = open_port(switch)
    other = open_port(host, "h0")
    frames = [ethernet(os.urandom(size)) for size in (1, 9216, 60, 1500) * 20]
    port.send_batch(frames)
    port.send_batch([])
    assert receive(other, len(frames)) == frames
    assert port.take_losses(poll=True) == []
    port.close()
    other.close()


def test_a_frame_that_cannot_be_sent_does_not_hold_up_its_batch(
    pair: tuple[Namespace, Namespace],
) -> None:
    switch, host = pair
    port = open_port(switch)
    other = open_port(host, "h0")
    # Longer than the interface takes, and longer than there is room for
    for long in (ethernet(bytes(9600)), ethernet(bytes(12_000))):
        good = [ethernet(bytes([number]) * 60) for number in range(5)]
        port.send_batch([*good[:2], long, *good[2:]])
        assert receive(other, 5) == good
        (loss,) = port.take_losses(poll=True)
        assert (loss.reason, loss.packets, loss.size_bytes) == ("send_emsgsize", 1, len(long))
    port.close()
    other.close()


def test_errors_of_sending_are_counted_by_name(pair: tuple[Namespace, Namespace]) -> None:
    switch, host = pair
    port = open_port(switch)
    long = ethernet(bytes(9600))
    port.send(long)
    (loss,) = port.take_losses(poll=True)
    assert (loss.reason, loss.packets, loss.size_bytes) == ("send_emsgsize", 1, len(long))
    switch.ip("link", "set", "sw0", "down")
    port.send(ethernet(b"x"))
    (loss,) = port.take_losses(poll=True)
    assert (loss.reason, loss.packets, loss.before) == ("send_enetdown", 1, False)
    switch.ip("link", "del", "sw0")
    port.send(ethernet(b"x"))
    (loss,) = port.take_losses(poll=True)
    assert loss.reason == "send_enetdown"
    port.close()
    assert host.name  # its end of the pair went with the switch's


def test_a_full_interface_is_retried_and_then_given_up(
    pair: tuple[Namespace, Namespace],
) -> None:
    switch, host = pair
    port = open_port(switch)
    host.ip("link", "set", "h0", "down")  # no carrier: the kernel answers ENOBUFS
    first, second = ethernet(b"first"), ethernet(b"second")
    port.send(first)
    port.send(second)
    assert port.backlog == 2
    host.ip("link", "set", "h0", "up")
    switch.wait_until_up("sw0")
    raw = host.raw_socket("h0")
    port.retry()
    assert port.backlog == 0
    assert [raw.recv(65536), raw.recv(65536)] == [first, second]
    host.ip("link", "set", "h0", "down")
    port.send(first)
    for _ in range(100):
        port.retry()
    assert port.backlog == 0
    port.send(first)
    port.send(second)
    port.link_down()
    assert port.backlog == 0
    assert {loss.reason: loss.packets for loss in port.take_losses(poll=True)} == {
        "send_enobufs": 1,
        "send_enetdown": 2,
    }
    port.close()
    raw.close()


def test_going_down_and_up_and_coming_back(pair: tuple[Namespace, Namespace]) -> None:
    switch, host = pair
    port = open_port(switch)
    switch.ip("link", "set", "sw0", "down")
    assert port.receive(32) == []
    switch.ip("link", "set", "sw0", "up")
    host.wait_until_up("h0")
    raw = host.raw_socket("h0")
    raw.send(ethernet(b"up again"))
    assert receive(port, 1) == [ethernet(b"up again")]
    raw.close()
    switch.ip("link", "del", "sw0")
    with switch.inside():
        assert not port.reattach()
    veth(switch, "sw0", host, "h0")
    with switch.inside():
        assert port.reattach()
    raw = host.raw_socket("h0")
    raw.send(ethernet(b"new"))
    assert receive(port, 1) == [ethernet(b"new")]
    port.send(ethernet(b"answer"))
    assert raw.recv(65536) == ethernet(b"answer")
    port.close()
    raw.close()


def test_link_monitor_tells_changes(pair: tuple[Namespace, Namespace]) -> None:
    switch, host = pair
    with switch.inside():
        monitor = LinkMonitor()
        index = socket.if_nametoindex("sw0")
    state = monitor.query(index)
    assert state is not None
    assert (state.name, state.up, state.gone) == ("sw0", True, False)
    assert monitor.query(9999) is None

    def wait_for(up: bool, gone: bool = False) -> None:
        while True:
            ready, _, _ = select.select([monitor], [], [], 10)
            assert ready
            states = monitor.changes()
            assert states is not None
            if any(s.ifindex == index and (s.up, s.gone) == (up, gone) for s in states):
                return

    host.ip("link", "set", "h0", "down")  # the other end: no carrier here
    wait_for(up=False)
    host.ip("link", "set", "h0", "up")
    wait_for(up=True)
    switch.ip("link", "set", "sw0", "down")
    wait_for(up=False)
    switch.ip("link", "del", "sw0")
    wait_for(up=False, gone=True)
    monitor.close()


def test_no_such_interface() -> None:
    with pytest.raises(PortError, match="interface nope0: there is no such interface here"):
        AfPacketPort("nope0")


def test_without_privilege() -> None:
    """In a child, which gives up its rights."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgid(65534)
            os.setuid(65534)
            AfPacketPort("lo")
        except PortError as error:
            os.write(write_end, str(error).encode())
        finally:
            os._exit(0)
    os.close(write_end)
    os.waitpid(child, 0)
    assert b"interface lo: raw sockets need root or CAP_NET_RAW" in os.read(read_end, 1000)
    os.close(read_end)


def test_vnet_header_layout_is_the_kernels(pair: tuple[Namespace, Namespace]) -> None:
    """A frame with a partial checksum that ends in the middle of nowhere is no crash."""
    switch, host = pair
    port = open_port(switch)
    with host.inside():
        raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        raw.setsockopt(263, 15, 1)  # PACKET_VNET_HDR on the sending side
        raw.bind(("h0", 0))
    good = ethernet(bytes(range(40)))
    needs_checksum_at = struct.pack("=BBHHHH", 1, 0, 0, 0, 20, 2)
    raw.send(needs_checksum_at + good)
    (frame,) = receive(port, 1)
    assert frame[:22] == good[:22]
    assert frame[22:24] != good[22:24]
    assert frame[24:] == good[24:]
    raw.close()
    port.close()
