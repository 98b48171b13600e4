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
    """The control socket that is meant. Raises UsageError where that is not clear."""
    directory = default_directory()
    if agent is None:
        there = sorted(directory.glob("*.control"))
        if len(there) == 1:
            return there[0]
        names = ", ".join(path.stem for path in there)
        found = f"there are {names}" if there else f"there is none in {directory}"
        raise UsageError(f"--agent: say which; {found}")
    if "/" in agent:
        return Path(agent)
    return control_path(directory, agent)


def open_agent(agent: str | None) -> ControlClient:
    """A connection with the agent that is meant. Raises AgentError."""
    return ControlClient(find_agent(agent))


def peer_address(peer: str, agent: str | None) -> Address:
    """Where to meet another agent: an address, or a host's name beside our own agent's socket."""
    if peer.startswith(("unix:", "tcp:")):
        return Address.parse(peer)
    path = Path(peer) if "/" in peer else exchange_path(find_agent(agent).parent, peer)
    if not path.exists():
        raise AgentError(f"no agent at {path}: there is no such socket")
    return Address(path=path)
