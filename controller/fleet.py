"""The same work on many switches at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from controller.client import DEFAULT_ELECTION_ID, DEFAULT_TIMEOUT_S, SwitchClient, SwitchError
from controller.p4info import SchemaError
from controller.targets import Target

Result = TypeVar("Result")

#: Threads: they wait for switches most of the time
DEFAULT_JOBS = 16


@dataclass(frozen=True, slots=True)
class Connection:
    """How to talk to a switch. `wait_s` is how long it may take to come up."""

    election_id: int = DEFAULT_ELECTION_ID
    timeout_s: float = DEFAULT_TIMEOUT_S
    wait_s: float = 0.0

    def open(self, target: Target) -> SwitchClient:
        """A client of a switch that answers; raises SwitchError for one that does not."""
        client = SwitchClient(
            target.address,
            target.device_id,
            election_id=self.election_id,
            timeout_s=self.timeout_s,
        )
        try:
            client.wait_until_up(self.wait_s)
        except BaseException:
            client.close()
            raise
        return client


@dataclass(slots=True)
class Outcome(Generic[Result]):
    """What came of each switch, in the order given: a result, or the reason why there is none."""

    done: dict[str, Result] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def for_each_switch(
    targets: Iterable[Target],
    work: Callable[[SwitchClient, Target], Result],
    connection: Connection,
    *,
    jobs: int = DEFAULT_JOBS,
    progress: Callable[[], None] = lambda: None,
) -> Outcome[Result]:
    """Does `work` on every switch; one that fails is named with its address, the rest go on.

    `progress` is called as each switch is finished with.
    """
    targets = list(targets)
    results: dict[str, Result] = {}
    failures: dict[str, str] = {}

    def one(target: Target) -> Result:
        with connection.open(target) as client:
            return work(client, target)

    with ThreadPoolExecutor(max_workers=max(1, min(jobs, len(targets)))) as pool:
        futures = {pool.submit(one, target): target for target in targets}
        try:
            for future in as_completed(futures):
                target = futures[future]
                try:
                    results[target.name] = future.result()
                except (SwitchError, SchemaError) as error:
                    failures[target.name] = f"{target.name} ({target.address}) {error}"
                progress()
        except BaseException:
            # Interrupted: what has begun is finished, nothing else is begun
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    order = [target.name for target in targets]
    return Outcome(
        {name: results[name] for name in order if name in results},
        {name: failures[name] for name in order if name in failures},
    )
