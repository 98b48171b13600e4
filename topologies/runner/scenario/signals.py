"""Signals while an event loop runs: the first cancels the work, which cleans up undisturbed."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from topologies.runner.sandbox import Interrupted

_Result = TypeVar("_Result")
_STOPPING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_interruptibly(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Run a coroutine to its end and return its result; call it from the main thread.

    Raises Interrupted when a signal has ended it. Signal handlers are as before afterwards.
    """
    before = {number: signal.getsignal(number) for number in _STOPPING}
    caught: list[int] = []

    async def interruptible() -> _Result:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def stop(number: int) -> None:
            if not caught:
                task.cancel()
            caught.append(number)

        for number in _STOPPING:
            loop.add_signal_handler(number, stop, number)
        return await work

    try:
        with asyncio.Runner() as runner:
            return runner.run(interruptible())
    except asyncio.CancelledError:
        raise Interrupted(caught[0] if caught else signal.SIGINT) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
