"""A Linux network interface as a port: raw AF_PACKET sockets.

Receiving takes a batch of frames in one `recvmmsg` into buffers made once. The kernel's metadata
come along with each frame: PACKET_AUXDATA tells the VLAN tag the kernel took out, which is put back
before the switch sees the frame; PACKET_VNET_HDR tells which checksums and which segmentation the
sender left to hardware (see `rawsocket.offload`). A memory-mapped ring (TPACKET_V2) was
measured and does not pay: what it saves in this process it costs the sender, and each of its slots
must hold the largest super-frame, so that a port takes tens of megabytes whether it is used or not.

Sending is on a second socket, which never receives: one `send` a frame, or one `sendmmsg` a batch,
which saves 0.6 µs of 3 a frame.

What is lost, by reason:

==================== ======================================================================
socket_overflow      the kernel had no room left in the socket's buffer (PACKET_STATISTICS)
interface_dropped    the interface dropped it before the socket saw it (its rx_dropped counter)
offload_unsupported  a super-frame or metadata that could not be turned into frames
receive_truncated    a super-frame larger than the buffers
send_emsgsize        longer than the interface's MTU allows
send_enobufs         the interface's queue stayed full for all retries
send_enetdown        the interface went down or away
send_backlog_full    too many frames were waiting for a full interface
send_<errno>         any other error of `send`
==================== ======================================================================

One loss has no name: a frame that ends within its VLAN tag (shorter than 20 bytes, so never on a
real wire) is thrown away by the kernel before any socket sees it, and in no counter.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import logging
import mmap
import os
import socket
import struct
from collections import deque
from collections.abc import Sequence
from typing import Final

from rawsocket.losses import INTERFACE_DROPPED, Loss, PortError
from rawsocket.offload import (
    UNFINISHED_MASK,
    VNET_HEADER_BYTES,
    UnsupportedOffload,
    finish,
    insert_vlan,
)

log = logging.getLogger(__name__)

BATCH_FRAMES: Final = 32
RECEIVE_BUFFER_BYTES: Final = 64 << 20
"""About 10,000 jumbo frames. Memory is taken only by frames that wait."""

SEND_BUFFER_BYTES: Final = 16 << 20
"""Frames in an interface's own queue count until they have left it, so that with a small buffer an
interface that delays (tc netem) would limit the rate."""

BACKLOG_FRAMES: Final = 4096
ENOBUFS_RETRIES: Final = 20
"""The runtime retries every millisecond: a queue that stays full for 20 ms is not coming back."""

# <linux/if_packet.h>
_SOL_PACKET: Final = 263
_PACKET_ADD_MEMBERSHIP: Final = 1
_PACKET_MR_PROMISC: Final = 1
_PACKET_STATISTICS: Final = 6
_PACKET_AUXDATA: Final = 8
_PACKET_VNET_HDR: Final = 15
_PACKET_IGNORE_OUTGOING: Final = 23
_TP_STATUS_VLAN_VALID: Final = 1 << 4
_TP_STATUS_VLAN_TPID_VALID: Final = 1 << 6
_ETH_P_ALL: Final = 3
_TPID_DEFAULT: Final = 0x8100

_SO_SNDBUFFORCE: Final = 32
_SO_RCVBUFFORCE: Final = 33
_MSG_DONTWAIT: Final = 0x40
_MSG_TRUNC: Final = 0x20

# <linux/sockios.h>, <linux/ethtool.h>
_SIOCGIFMTU: Final = 0x8921
_SIOCETHTOOL: Final = 0x8946
_ETHTOOL_SGRO: Final = 0x2C
_ETHTOOL_GFLAGS: Final = 0x25
_ETHTOOL_SFLAGS: Final = 0x26
_ETH_FLAG_LRO: Final = 1 << 15

_HEAD_BYTES: Final = 9728
"""Room for one ordinary frame (9216 and what may stand around it), a multiple of cache lines."""
_TAIL_BYTES: Final = 65_536 - _HEAD_BYTES + 4096
"""Room for the rest of a super-frame; apart, so that ordinary traffic stays in the cache."""
_VNET_STRIDE: Final = 16
_CONTROL_BYTES: Final = 40  # CMSG_SPACE(sizeof(struct tpacket_auxdata))


class _IoVec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _MsgHdr(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint),
        ("iov", ctypes.c_void_p),
        ("iov_length", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )


class _MMsgHdr(ctypes.Structure):
    _fields_ = (("header", _MsgHdr), ("length", ctypes.c_uint))


# PyDLL keeps the interpreter lock: the call never blocks, and giving the lock away for it would let
# another thread keep it for a whole switch interval.
_libc = ctypes.PyDLL(None, use_errno=True)
_recvmmsg = _libc.recvmmsg
_recvmmsg.argtypes = (
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_uint,
    ctypes.c_int,
    ctypes.c_void_p,
)
_recvmmsg.restype = ctypes.c_int
_sendmmsg = _libc.sendmmsg
_sendmmsg.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int)
_sendmmsg.restype = ctypes.c_int

# struct tpacket_auxdata behind its cmsghdr (length: size_t, level: int, type: int)
_AUXDATA = struct.Struct("=IIIHHHH")
_CMSG_HEADER_BYTES: Final = ctypes.sizeof(ctypes.c_size_t) + 8


class _ReceiveBuffers:
    """The buffers of a batch, laid out once; all ports of a process share them."""

    def __init__(self, frames: int) -> None:
        self.frames = frames
        self.heads = mmap.mmap(-1, frames * _HEAD_BYTES)
        self.tails = mmap.mmap(-1, frames * _TAIL_BYTES)
        self.vnet = bytearray(frames * _VNET_STRIDE)
        self.control = bytearray(frames * _CONTROL_BYTES)
        self._iov = (_IoVec * (3 * frames))()
        self._messages = (_MMsgHdr * frames)()
        self.address = ctypes.addressof(self._messages)
        heads, tails = _address(self.heads), _address(self.tails)
        vnet, control = _address(self.vnet), _address(self.control)
        for index in range(frames):
            parts = self._iov
            parts[3 * index] = _IoVec(vnet + index * _VNET_STRIDE, VNET_HEADER_BYTES)
            parts[3 * index + 1] = _IoVec(heads + index * _HEAD_BYTES, _HEAD_BYTES)
            parts[3 * index + 2] = _IoVec(tails + index * _TAIL_BYTES, _TAIL_BYTES)
            header = self._messages[index].header
            header.iov = ctypes.addressof(parts) + 3 * index * ctypes.sizeof(_IoVec)
            header.iov_length = 3
            header.control = control + index * _CONTROL_BYTES
            header.control_length = _CONTROL_BYTES
        words = memoryview(self._messages).cast("B").cast("I")
        self.message_words = words
        self.vnet_words = memoryview(self.vnet).cast("I")
        self.control_words = memoryview(self.control).cast("I")
        stride = ctypes.sizeof(_MMsgHdr) // 4
        length_at = _MMsgHdr.length.offset // 4
        self.flags_at = _MsgHdr.flags.offset // 4
        self.control_length_at = _MsgHdr.control_length.offset // 4
        # Per frame: where its length stands, its vnet header, its auxdata status (in words), and
        # where its bytes begin.
        self.plan = [
            (
                index * stride + length_at,
                index * _VNET_STRIDE // 4,
                (index * _CONTROL_BYTES + _CMSG_HEADER_BYTES) // 4,
                index * _HEAD_BYTES,
            )
            for index in range(frames)
        ]
        self.stride = stride


class _SendBuffers:
    """Frames of a batch side by side, and the messages that point to them."""

    def __init__(self, frames: int) -> None:
        self.frames = mmap.mmap(-1, frames * _HEAD_BYTES)
        self._iov = (_IoVec * frames)()
        self._messages = (_MMsgHdr * frames)()
        self.address = ctypes.addressof(self._messages)
        begin, parts = _address(self.frames), ctypes.addressof(self._iov)
        for index in range(frames):
            self._iov[index] = _IoVec(begin + index * _HEAD_BYTES, 0)
            header = self._messages[index].header
            header.iov = parts + index * ctypes.sizeof(_IoVec)
            header.iov_length = 1
        #: Length of frame i stands at word 2 * i + 1
        self.words = memoryview(self._iov).cast("B").cast("L")


def _address(buffer: bytearray | mmap.mmap) -> int:
    return ctypes.addressof((ctypes.c_char * len(buffer)).from_buffer(buffer))


_shared_buffers: _ReceiveBuffers | None = None


def _buffers() -> _ReceiveBuffers:
    global _shared_buffers
    if _shared_buffers is None:
        _shared_buffers = _ReceiveBuffers(BATCH_FRAMES)
    return _shared_buffers


_shared_send_buffers: _SendBuffers | None = None


def _send_buffers() -> _SendBuffers:
    global _shared_send_buffers
    if _shared_send_buffers is None:
        _shared_send_buffers = _SendBuffers(BATCH_FRAMES)
    return _shared_send_buffers


class AfPacketPort:
    """One interface of the current network namespace.

    All ports of a process share their buffers, so they are used from one thread.

    Args:
        interface: its name, e.g. "veth1".
        receive_buffer_bytes: how much the kernel may keep for this port while the switch is busy.

    Raises:
        PortError: no such interface, not Ethernet, or not allowed.
    """

    def __init__(self, interface: str, *, receive_buffer_bytes: int = RECEIVE_BUFFER_BYTES) -> None:
        self._name = interface
        self._losses: dict[tuple[str, bool], tuple[int, int]] = {}
        self._backlog: deque[bytes] = deque()
        self._retries = 0
        self._buffers = _buffers()
        try:
            self.ifindex = socket.if_nametoindex(interface)
        except OSError:
            raise PortError(f"interface {interface}: there is no such interface here") from None
        self._receiver = _open(interface)
        try:
            self._sender = _open(interface)
        except PortError:
            self._receiver.close()
            raise
        try:
            self._set_up(receive_buffer_bytes)
        except OSError as error:
            self.close()
            raise PortError(f"interface {interface}: {error.strerror}") from None
        self._send = self._sender.send
        self._descriptor = self._receiver.fileno()
        self._rx_dropped: int | None = None  # as last told; None = not yet

    def _set_up(self, receive_buffer_bytes: int) -> None:
        receiver = self._receiver
        receiver.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
        receiver.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
        receiver.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
        for sock, option, forced, size_bytes in (
            (receiver, socket.SO_RCVBUF, _SO_RCVBUFFORCE, receive_buffer_bytes),
            (self._sender, socket.SO_SNDBUF, _SO_SNDBUFFORCE, SEND_BUFFER_BYTES),
        ):
            try:
                sock.setsockopt(socket.SOL_SOCKET, forced, size_bytes)
            except PermissionError:
                sock.setsockopt(socket.SOL_SOCKET, option, size_bytes)
        _switch_off_merging(self._sender, self._name)
        # With protocol 0 a socket hears nothing; binding makes the receiver hear this interface
        # only, from now on.
        self._sender.bind((self._name, 0))
        receiver.bind((self._name, _ETH_P_ALL))
        self._take_all()

    def _take_all(self) -> None:
        """Ask for frames to any address, for as long as the socket is open."""
        request = struct.pack("=iHH8s", self.ifindex, _PACKET_MR_PROMISC, 0, b"")
        self._receiver.setsockopt(_SOL_PACKET, _PACKET_ADD_MEMBERSHIP, request)

    @property
    def name(self) -> str:
        """As `softswitch.ports.base.PortDriver`."""
        return self._name

    @property
    def backlog(self) -> int:
        """As `softswitch.ports.base.PortDriver`."""
        return len(self._backlog)

    def fileno(self) -> int:
        """As `softswitch.ports.base.PortDriver`."""
        return self._descriptor

    # -- receiving -------------------------------------------------------------------------

    def receive(self, limit: int) -> list[bytes]:
        """As `softswitch.ports.base.PortDriver`."""
        buffers = self._buffers
        limit = min(limit, buffers.frames)
        frames: list[bytes] = []
        got = _recvmmsg(self._descriptor, buffers.address, limit, _MSG_DONTWAIT, None)
        if got <= 0:
            self._receive_error(ctypes.get_errno() if got < 0 else 0)
            return frames
        lengths, heads = buffers.message_words, buffers.heads
        vnet, control = buffers.vnet_words, buffers.control_words
        append = frames.append
        for length_at, vnet_at, status_at, begin in buffers.plan[:got]:
            size = lengths[length_at] - VNET_HEADER_BYTES
            if (
                vnet[vnet_at] & UNFINISHED_MASK
                or control[status_at] & _TP_STATUS_VLAN_VALID
                or size > _HEAD_BYTES
            ):
                self._receive_special(begin // _HEAD_BYTES, size, frames)
            else:
                append(heads[begin : begin + size])
        return frames

    def _receive_special(self, index: int, size: int, frames: list[bytes]) -> None:
        """Append what one frame with something unfinished or taken out, or a super-frame, is."""
        buffers = self._buffers
        head = index * _HEAD_BYTES
        frame = buffers.heads[head : head + min(size, _HEAD_BYTES)]
        if size > _HEAD_BYTES:
            if buffers.message_words[index * buffers.stride + buffers.flags_at] & _MSG_TRUNC:
                self._lose("receive_truncated", before=True)
                return
            tail = index * _TAIL_BYTES
            frame += buffers.tails[tail : tail + size - _HEAD_BYTES]
        vnet = index * _VNET_STRIDE
        header = bytes(buffers.vnet[vnet : vnet + VNET_HEADER_BYTES])
        try:
            finished = finish(header, frame)
        except (UnsupportedOffload, struct.error, IndexError) as error:
            self._lose("offload_unsupported", before=True)
            log.debug("interface %s: %s", self._name, error)
            return
        auxdata = index * _CONTROL_BYTES + _CMSG_HEADER_BYTES
        status, _, _, _, _, tci, tpid = _AUXDATA.unpack_from(buffers.control, auxdata)
        if status & _TP_STATUS_VLAN_VALID:
            if not status & _TP_STATUS_VLAN_TPID_VALID:
                tpid = _TPID_DEFAULT
            finished = [insert_vlan(each, tpid, tci) for each in finished]
        frames.extend(finished)

    def _receive_error(self, code: int) -> None:
        """An interface that is down, gone or back says so here; the link monitor acts on it."""
        if code == errno.EINVAL:
            # The kernel had a packet whose metadata do not fit a vnet header, and dropped it.
            self._lose("offload_unsupported", before=True)
        elif code not in (0, errno.EAGAIN, errno.EINTR, errno.ENETDOWN, errno.ENXIO):
            log.debug("interface %s: receive: %s", self._name, os.strerror(code))

    # -- sending ---------------------------------------------------------------------------

    def send(self, frame: bytes) -> None:
        """As `softswitch.ports.base.PortDriver`."""
        if self._backlog:
            self._queue(frame)
            return
        try:
            self._send(frame)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.ENOBUFS):
                self._retries = ENOBUFS_RETRIES
                self._queue(frame)
            else:
                self._send_error(error, frame)

    def send_batch(self, frames: Sequence[bytes]) -> None:
        """As `send` of each in turn, with fewer system calls."""
        for begin in range(0, len(frames), BATCH_FRAMES):
            batch = frames[begin : begin + BATCH_FRAMES]
            sent = 0
            if not self._backlog and max(map(len, batch)) <= _HEAD_BYTES:
                sent = self._send_messages(batch)
            # The rest: what the kernel refused, and what stood behind it
            for frame in batch[sent:]:
                self.send(frame)

    def _send_messages(self, frames: Sequence[bytes]) -> int:
        """Send what the kernel takes; returns how many frames that were."""
        buffers = _send_buffers()
        room, words = buffers.frames, buffers.words
        at = 0
        length_at = 1
        for frame in frames:
            size = len(frame)
            room[at : at + size] = frame
            words[length_at] = size
            at += _HEAD_BYTES
            length_at += 2
        sent = _sendmmsg(self._sender.fileno(), buffers.address, len(frames), _MSG_DONTWAIT)
        return max(int(sent), 0)

    def retry(self) -> None:
        """As `softswitch.ports.base.PortDriver`."""
        backlog = self._backlog
        while backlog:
            try:
                self._send(backlog[0])
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.ENOBUFS):
                    self._send_error(error, backlog.popleft())
                    continue
                self._retries -= 1
                if self._retries < 0:
                    self._lose("send_enobufs", size_bytes=len(backlog.popleft()))
                    self._retries = 0
                return
            backlog.popleft()
            self._retries = ENOBUFS_RETRIES

    def link_down(self) -> None:
        """As `softswitch.ports.base.PortDriver`."""
        for frame in self._backlog:
            self._lose("send_enetdown", size_bytes=len(frame))
        self._backlog.clear()

    def _queue(self, frame: bytes) -> None:
        if len(self._backlog) >= BACKLOG_FRAMES:
            self._lose("send_backlog_full", size_bytes=len(frame))
        else:
            self._backlog.append(frame)

    def _send_error(self, error: OSError, frame: bytes) -> None:
        code = error.errno
        if code in (errno.ENXIO, errno.ENODEV):
            code = errno.ENETDOWN
        name = errno.errorcode.get(code or 0, "error").lower()
        self._lose(f"send_{name}", size_bytes=len(frame))

    # -- losses ----------------------------------------------------------------------------

    def take_losses(self, *, poll: bool) -> list[Loss]:
        """As `softswitch.ports.base.PortDriver`."""
        if poll:
            self._poll_kernel()
        if not self._losses:
            return []
        losses = [
            Loss(reason, packets, size_bytes, before)
            for (reason, before), (packets, size_bytes) in self._losses.items()
        ]
        self._losses.clear()
        return losses

    def _poll_kernel(self) -> None:
        try:
            statistics = self._receiver.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8)
        except OSError:
            return
        _, overflowed = struct.unpack("=II", statistics)
        if overflowed:
            self._lose("socket_overflow", packets=overflowed, before=True)

    def count_interface_dropped(self, rx_dropped: int) -> None:
        """Tell the interface's rx_dropped counter, which only ever grows."""
        before = self._rx_dropped
        if before is not None and rx_dropped > before:
            self._lose(INTERFACE_DROPPED, packets=rx_dropped - before, before=True)
        self._rx_dropped = rx_dropped

    def reattach(self) -> bool:
        """Bind to the interface that has the name now; False if there is none.

        For an interface that was deleted and made again: sockets belong to an index, not a name.
        """
        try:
            ifindex = socket.if_nametoindex(self._name)
            self._sender.bind((self._name, 0))
            self._receiver.bind((self._name, _ETH_P_ALL))
            self.ifindex = ifindex
            self._take_all()
        except OSError:
            return False
        self._rx_dropped = None
        return True

    def _lose(
        self, reason: str, *, packets: int = 1, size_bytes: int = 0, before: bool = False
    ) -> None:
        key = (reason, before)
        lost, lost_bytes = self._losses.get(key, (0, 0))
        self._losses[key] = (lost + packets, lost_bytes + size_bytes)

    def close(self) -> None:
        """As `softswitch.ports.base.PortDriver`."""
        self._receiver.close()
        self._sender.close()


def _open(interface: str) -> socket.socket:
    try:
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
    except PermissionError:
        raise PortError(
            f"interface {interface}: raw sockets need root or CAP_NET_RAW (try: sudo)"
        ) from None
    return opened


def interface_mtu_bytes(interface: str) -> int:
    """The MTU of an interface of the current network namespace. Raises OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack("16si20x", interface.encode(), 0)
        answer = fcntl.ioctl(sock.fileno(), _SIOCGIFMTU, request)
    return int(struct.unpack_from("16si", answer)[1])


def _switch_off_merging(sock: socket.socket, interface: str) -> None:
    """Switch off GRO and LRO: frames are to arrive as they were sent. Best effort.

    What GRO merges could be taken apart again, what LRO merges could not.
    """
    _ethtool(sock, interface, struct.pack("=II", _ETHTOOL_SGRO, 0))
    answer = _ethtool(sock, interface, struct.pack("=II", _ETHTOOL_GFLAGS, 0))
    if answer is not None:
        (flags,) = struct.unpack_from("=I", answer, 4)
        if flags & _ETH_FLAG_LRO:
            _ethtool(sock, interface, struct.pack("=II", _ETHTOOL_SFLAGS, flags & ~_ETH_FLAG_LRO))


def _ethtool(sock: socket.socket, interface: str, command: bytes) -> bytes | None:
    """Run one ethtool ioctl; return its answer, None when the interface or the kernel refuses."""
    buffer = ctypes.create_string_buffer(command, len(command))
    request = struct.pack("16sP", interface.encode(), ctypes.addressof(buffer))
    try:
        fcntl.ioctl(sock.fileno(), _SIOCETHTOOL, request.ljust(40, b"\0"))
    except OSError as error:
        log.debug("interface %s: ethtool: %s", interface, error.strerror)
        return None
    return buffer.raw
