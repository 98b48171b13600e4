"""State of Linux interfaces over rtnetlink: a query now, and news as they come.

Netlink and not sysfs, because a mounted sysfs shows one network namespace, which need not be the
one this process is in. Message formats: <linux/netlink.h>, <linux/rtnetlink.h>, <linux/if_link.h>.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from dataclasses import dataclass
from typing import Final

_RTM_NEWLINK: Final = 16
_RTM_DELLINK: Final = 17
_RTM_GETLINK: Final = 18
_NLM_F_REQUEST: Final = 1
_NLMSG_ERROR: Final = 2
_RTMGRP_LINK: Final = 1
_IFLA_IFNAME: Final = 3
_IFLA_STATS64: Final = 23
_RX_DROPPED_INDEX: Final = 6  # in struct rtnl_link_stats64
_NLA_TYPE_MASK: Final = 0x3FFF

_IFF_UP: Final = 1 << 0
_IFF_RUNNING: Final = 1 << 6

_NLMSG = struct.Struct("=IHHII")
_IFINFOMSG = struct.Struct("=BxHiII")
_ATTRIBUTE = struct.Struct("=HH")


@dataclass(frozen=True, slots=True)
class LinkState:
    """One interface at one moment. `up` = administratively up and carrier there."""

    ifindex: int
    name: str
    up: bool
    rx_dropped: int
    gone: bool = False


class LinkMonitor:
    """Queries and subscribes to interface changes in the current network namespace."""

    def __init__(self) -> None:
        self._news = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
        self._news.bind((0, _RTMGRP_LINK))
        self._questions = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
        # The kernel answers within the system call; this is for a kernel that does not.
        self._questions.settimeout(1.0)
        self._questions.bind((0, 0))
        self._sequence = 0

    def fileno(self) -> int:
        """Return a descriptor that is readable when `changes` has something to return."""
        return self._news.fileno()

    def query(self, ifindex: int) -> LinkState | None:
        """Return an interface's state, None if there is no such interface."""
        self._sequence += 1
        request = _IFINFOMSG.pack(socket.AF_UNSPEC, 0, ifindex, 0, 0)
        header = _NLMSG.pack(
            _NLMSG.size + len(request), _RTM_GETLINK, _NLM_F_REQUEST, self._sequence, 0
        )
        try:
            self._questions.send(header + request)
            while True:
                answer = self._questions.recv(65536)
                if _NLMSG.unpack_from(answer)[3] == self._sequence:
                    break
        except OSError:
            return None
        states = _parse(answer)
        return states[0] if states else None

    def changes(self) -> list[LinkState] | None:
        """Return what changed, oldest first; None = news were lost, query what matters."""
        states: list[LinkState] = []
        while True:
            try:
                states += _parse(self._news.recv(65536))
            except BlockingIOError:
                return states
            except OSError as error:
                if error.errno == errno.ENOBUFS:
                    return None
                raise

    def close(self) -> None:
        """Close both sockets."""
        self._news.close()
        self._questions.close()


def _parse(messages: bytes) -> list[LinkState]:
    states = []
    at = 0
    while at + _NLMSG.size <= len(messages):
        length, kind, _, _, _ = _NLMSG.unpack_from(messages, at)
        if length < _NLMSG.size:
            break
        if kind in (_RTM_NEWLINK, _RTM_DELLINK):
            states.append(_parse_link(messages[at + _NLMSG.size : at + length], kind))
        at += (length + 3) & ~3
    return states


def _parse_link(body: bytes, kind: int) -> LinkState:
    _, _, ifindex, flags, _ = _IFINFOMSG.unpack_from(body)
    name = ""
    rx_dropped = 0
    at = _IFINFOMSG.size
    while at + _ATTRIBUTE.size <= len(body):
        length, attribute = _ATTRIBUTE.unpack_from(body, at)
        if length < _ATTRIBUTE.size:
            break
        value = body[at + _ATTRIBUTE.size : at + length]
        if attribute & _NLA_TYPE_MASK == _IFLA_IFNAME:
            name = os.fsdecode(value.rstrip(b"\0"))
        elif attribute & _NLA_TYPE_MASK == _IFLA_STATS64:
            (rx_dropped,) = struct.unpack_from("=Q", value, 8 * _RX_DROPPED_INDEX)
        at += (length + 3) & ~3
    gone = kind == _RTM_DELLINK
    up = not gone and flags & _IFF_UP != 0 and flags & _IFF_RUNNING != 0
    return LinkState(ifindex, name, up, rx_dropped, gone)
