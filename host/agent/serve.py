"""An agent's life: open the interfaces, listen, work until told to stop, give everything back."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from host.agent.address import Address, remove_socket
from host.agent.agent import Agent, AgentOptions
from host.agent.control import ControlServer
from host.agent.exchange import ExchangeServer
from host.agent.services import SERVICES


async def serve(
    host_json: str,
    options: AgentOptions,
    control: Callable[[str], Path],
    exchange: Callable[[str], Sequence[Address]],
    on_ready: Callable[[Agent, Path, Sequence[Address]], None],
) -> None:
    """Run an agent until `quit`, SIGTERM or SIGINT.

    `control` and `exchange` say, by the host's name, where it listens. Raises AgentError where it
    cannot begin.
    """
    agent = Agent.open(host_json, options)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, agent.stopped.set)
    exchange_server = ExchangeServer(agent, SERVICES)
    control_server = ControlServer(agent)
    path = control(agent.name)
    try:
        for address in exchange(agent.name):
            await exchange_server.listen(address)
        # The last: where there is a control socket, everything works
        await control_server.listen(Address(path=path))
        on_ready(agent, path, exchange_server.addresses)
        await agent.stopped.wait()
        # The answer to `quit` goes out first
        await asyncio.sleep(0)
    finally:
        await control_server.close()
        await exchange_server.close()
        for address in exchange_server.addresses:
            if address.path is not None:
                remove_socket(address.path)
        agent.close()
