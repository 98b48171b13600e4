"""A signal cancels the work of an event loop, once, and everything is as before."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from topologies.runner.sandbox import Interrupted
from topologies.runner.scenario.signals import run_interruptibly


def test_without_a_signal_there_is_a_result_and_handlers_are_as_before() -> None:
    async def work() -> int:
        return 7

    before = signal.getsignal(signal.SIGTERM)
    assert run_interruptibly(work()) == 7
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_first_signal_cancels_and_others_do_not_disturb_the_clean_up() -> None:
    cleaned = False

    async def work() -> None:
        nonlocal cleaned
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            await asyncio.Event().wait()
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(0.01)
            cleaned = True

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(Interrupted) as caught:
        run_interruptibly(work())
    assert caught.value.exit_code == 128 + signal.SIGTERM
    assert cleaned
    assert signal.getsignal(signal.SIGINT) is before


def test_a_signal_within_a_callback_of_a_loop_is_not_lost() -> None:
    """pyroute2 runs a loop of its own, whose callbacks may be where the signal strikes."""

    def strike() -> None:
        raise Interrupted(signal.SIGINT)

    async def wait() -> None:
        asyncio.get_running_loop().call_soon(strike)
        await asyncio.Event().wait()

    with pytest.raises(Interrupted):
        asyncio.run(asyncio.wait_for(wait(), 10.0))


def test_an_error_of_the_work_is_what_it_is() -> None:
    async def work() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        run_interruptibly(work())
