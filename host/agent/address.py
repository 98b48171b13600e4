"""Where agents listen: `unix:/path` and `tcp:host:port`; and where their sockets are by default."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import stat
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from host.agent.errors import AgentError, UsageError
from host.agent.jsonlines import MAX_LINE_BYTES, shown

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

#: sockaddr_un: 108 bytes with the final 0
_MAX_UNIX_PATH_BYTES: Final = 107


def default_directory() -> Path:
    """Where agents of this user have their sockets unless told otherwise."""
    chosen = os.environ.get("MRC_HOST_DIR")
    if chosen:
        return Path(chosen)
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        return Path(runtime) / "mrc-host"
    return Path(tempfile.gettempdir()) / f"mrc-host-{os.geteuid()}"


def control_path(directory: Path, host: str) -> Path:
    """The control socket of a host's agent."""
    return directory / f"{host}.control"


def exchange_path(directory: Path, host: str) -> Path:
    """The socket on which a host's agent meets other agents."""
    return directory / f"{host}.exchange"


@dataclass(frozen=True, slots=True)
class Address:
    """A Unix socket's `path`, or a TCP `host` and `port`."""

    path: Path | None = None
    host: str = ""
    port: int = 0

    def __str__(self) -> str:
        if self.path is not None:
            return f"unix:{self.path}"
        return (
            f"tcp:[{self.host}]:{self.port}" if ":" in self.host else f"tcp:{self.host}:{self.port}"
        )

    @classmethod
    def parse(cls, text: str) -> Address:
        """Raises UsageError for what is none."""
        if not text.isprintable():
            raise UsageError(f"address {shown(text)} does not fit: it has what cannot be printed")
        kind, _, rest = text.partition(":")
        if kind == "unix" and rest:
            if len(os.fsencode(rest)) > _MAX_UNIX_PATH_BYTES:
                raise UsageError(
                    f"{text}: a socket's path has at most {_MAX_UNIX_PATH_BYTES} bytes"
                )
            return cls(path=Path(rest))
        host, _, port = rest.rpartition(":")
        if kind == "tcp" and host and _is_port(port):
            return cls(host=host.removeprefix("[").removesuffix("]"), port=int(port))
        raise UsageError(f"address {shown(text)} does not fit: write unix:/path or tcp:host:port")

    async def listen(self, handler: Handler) -> asyncio.Server:
        """Serve it. A Unix socket gets mode 0600. Raises AgentError where it cannot be."""
        try:
            if self.path is None:
                return await asyncio.start_server(
                    handler, self.host, self.port, limit=MAX_LINE_BYTES
                )
            listener = _unix_listener(self.path)
            return await asyncio.start_unix_server(handler, sock=listener, limit=MAX_LINE_BYTES)
        except OSError as error:
            raise AgentError(f"cannot listen on {self}: {error.strerror or error}") from None
        except UnicodeError:
            raise UsageError(f"cannot listen on {self}: that is no host's name") from None

    async def connect(self, timeout_s: float) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to it. Raises AgentError where nobody listens."""
        try:
            async with asyncio.timeout(timeout_s):
                if self.path is not None:
                    return await asyncio.open_unix_connection(str(self.path), limit=MAX_LINE_BYTES)
                return await asyncio.open_connection(self.host, self.port, limit=MAX_LINE_BYTES)
        except TimeoutError:
            raise AgentError(f"{self} did not answer within {timeout_s:g} s") from None
        except OSError as error:
            raise AgentError(f"no agent at {self}: {error.strerror or error}") from None
        except UnicodeError:
            raise UsageError(f"no agent at {self}: that is no host's name") from None


def _is_port(text: str) -> bool:
    return text.isdecimal() and len(text) < 10 and int(text) < 1 << 16


def _unix_listener(path: Path) -> socket.socket:
    """A listening socket with mode 0600; a socket that a killed agent left is replaced."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # With the umask, and not afterwards: nobody else may connect in between
        before = os.umask(0o177)
        try:
            try:
                listener.bind(str(path))
            except OSError as error:
                if error.errno != errno.EADDRINUSE or not _is_abandoned(path):
                    raise
                path.unlink()
                listener.bind(str(path))
        finally:
            os.umask(before)
        listener.setblocking(False)
        listener.listen(64)
    except BaseException:
        listener.close()
        raise
    return listener


def _is_abandoned(path: Path) -> bool:
    """Whether it is a socket on which nobody listens."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            return False
    except OSError:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False


def remove_socket(path: Path) -> None:
    """After the server is closed."""
    with contextlib.suppress(OSError):
        path.unlink()
