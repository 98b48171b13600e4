"""Tests that need what a machine may lack are skipped with the reason; everything else must run."""

import ctypes
import os
import shutil
from collections.abc import Callable
from functools import cache

import pytest

from p4src.build import find_compiler

CLONE_NEWNET = 0x40000000


@cache
def _can_make_namespaces() -> bool:
    child = os.fork()
    if child == 0:
        os._exit(0 if ctypes.CDLL(None).unshare(CLONE_NEWNET) == 0 else 1)
    return os.waitpid(child, 0)[1] == 0


def find_bmv2() -> str | None:
    """Return the path of simple_switch_grpc (`$BMV2`, else the PATH), or None."""
    return shutil.which(os.environ.get("BMV2") or "simple_switch_grpc")


REQUIREMENTS: dict[str, tuple[Callable[[], object], str]] = {
    "bmv2": (find_bmv2, "simple_switch_grpc is neither on the PATH nor in $BMV2"),
    "p4c": (find_compiler, "p4c-bm2-ss is neither on the PATH nor in $P4C"),
    "netns": (_can_make_namespaces, "making network namespaces needs root"),
    "tshark": (lambda: shutil.which("tshark"), "tshark is not installed (make setup installs it)"),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what cannot run here."""
    for item in items:
        for marker, (available, reason) in REQUIREMENTS.items():
            if item.get_closest_marker(marker) and not available():
                item.add_marker(pytest.mark.skip(reason=reason))
