"""The runner goes before what it runs, and nothing of that stays or is inherited."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from topologies.runner.priority import as_others, before_others

AUTOGROUP = Path("/proc/self/autogroup")
#: In a process and session of its own: this one's values are left alone
OWN_SESSION = """
import json, os, pathlib, subprocess
from topologies.runner.priority import as_others, before_others

def now():
    group = pathlib.Path("/proc/self/autogroup")
    nice = group.read_text().split()[-1] if group.exists() else "-"
    return os.getpriority(os.PRIO_PROCESS, 0), nice

seen = [now()]
with before_others():
    seen.append(now())
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    as_others(child.pid)
    seen.append((os.getpriority(os.PRIO_PROCESS, child.pid), "-"))
    child.kill()
    child.wait()
seen.append(now())
print(json.dumps(seen))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="a lower nice value needs root")
def test_it_goes_before_others_for_a_time() -> None:
    done = subprocess.run(
        [sys.executable, "-c", OWN_SESSION],
        start_new_session=True,
        capture_output=True,
        text=True,
        check=True,
    )
    before, meanwhile, child, after = json.loads(done.stdout)
    assert before == after
    assert meanwhile == [-10, "-10" if AUTOGROUP.exists() else "-"]
    assert child[0] == 0


def test_where_it_may_not_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "setpriority", refuse)
    with before_others():
        as_others(os.getpid())
