"""First come, first served."""

from __future__ import annotations

import threading

import pytest

from softswitch.fair_lock import FairLock


def wait_until_queued(lock: FairLock, count: int) -> None:
    while len(lock._waiting) < count:
        threading.Event().wait(0.001)


def test_whoever_waits_gets_it_before_the_holder_gets_it_back() -> None:
    lock = FairLock()
    order: list[str] = []

    def wait(name: str) -> None:
        with lock:
            order.append(name)

    lock.acquire()
    threads = []
    for index, name in enumerate(("first", "second", "third"), start=1):
        thread = threading.Thread(target=wait, args=(name,))
        thread.start()
        wait_until_queued(lock, index)
        threads.append(thread)
    lock.release()
    lock.acquire()
    order.append("holder")
    lock.release()
    for thread in threads:
        thread.join()
    assert order == ["first", "second", "third", "holder"]
    assert not lock.locked()


def test_it_excludes() -> None:
    lock = FairLock()
    total = 0

    def add() -> None:
        nonlocal total
        for _ in range(2_000):
            with lock:
                before = total
                total = before + 1

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert total == 8_000


def test_release_of_what_nobody_holds() -> None:
    with pytest.raises(RuntimeError, match="not held"):
        FairLock().release()


def test_an_exception_lets_go() -> None:
    lock = FairLock()
    with pytest.raises(KeyError), lock:
        raise KeyError
    assert not lock.locked()
