"""How commands find the agent that they ask."""

from __future__ import annotations

from pathlib import Path

import click

from host.agent.address import Address, control_path, default_directory, exchange_path
from host.agent.client import ControlClient
from host.agent.errors import AgentError, UsageError

agent_option = click.option(
    "-A",
    "--agent",
    metavar="HOST|PATH",
    envvar="MRC_AGENT",
    help="The agent: its host's name, or its control socket.  [$MRC_AGENT; else the only one]",
)


def find_agent(agent: str | None) -> Path:
    """The control socket that is meant. Raises UsageError where that is not clear.

    Raises AgentError where the host that is named has none.
    """
    directory = default_directory()
    if agent is not None and "/" in agent:
        return Path(agent)
    there = sorted(directory.glob("*.control"))
    names = ", ".join(path.stem for path in there)
    if agent is None:
        if len(there) == 1:
            return there[0]
        raise UsageError(f"--agent: say which; {_that_run(directory, names)}")
    path = control_path(directory, agent)
    if path not in there:
        raise AgentError(f"no agent at {path}; {_that_run(directory, names)}")
    return path


def _that_run(directory: Path, names: str) -> str:
    return f"there are {names}" if names else f"there is none in {directory} ($MRC_HOST_DIR)"


def open_agent(agent: str | None) -> ControlClient:
    """A connection with the agent that is meant. Raises AgentError."""
    return ControlClient(find_agent(agent))


def peer_address(peer: str, agent: str | None) -> Address:
    """Where to meet another agent: an address, or a host's name beside our own agent's socket."""
    if peer.startswith(("unix:", "tcp:")):
        return Address.parse(peer)
    if "/" in peer:
        path = Path(peer)
        if not path.exists():
            raise AgentError(f"no agent at {path}: there is no such socket")
        return Address(path=path)
    directory = find_agent(agent).parent
    path = exchange_path(directory, peer)
    if not path.exists():
        names = ", ".join(each.stem for each in sorted(directory.glob("*.exchange")))
        raise AgentError(f"PEER: no agent at {path}; {_that_run(directory, names)}")
    return Address(path=path)
