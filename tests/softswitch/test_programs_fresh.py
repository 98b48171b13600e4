"""The compiled test programs are what p4c makes of their sources."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from p4src.build import find_compiler
from tests.softswitch.pipeline_support import PROGRAMS

ROOT = Path(__file__).parents[2]
NAMES = ("arithmetic", "lengths", "matching", "parsing", "requests", "stacks", "stateful")
SOURCES = [PROGRAMS / f"{name}.p4" for name in NAMES]


@pytest.mark.p4c
@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_recompiled_program_is_the_same(source: Path, tmp_path: Path) -> None:
    compiler = find_compiler()
    if compiler is None:
        pytest.skip("p4c-bm2-ss is neither on the PATH nor in $P4C")
    made, info = tmp_path / "made.json", tmp_path / "made.p4info.txtpb"
    # By its path from the root: p4c writes the path into the result.
    arguments = [compiler, "--p4v", "16", "--p4runtime-files", str(info), "-o", str(made)]
    subprocess.run([*arguments, str(source.relative_to(ROOT))], cwd=ROOT, check=True)
    assert made.read_text() == source.with_suffix(".json").read_text()
    committed = source.with_suffix(".p4info.txtpb")
    if committed.exists():
        assert info.read_text() == committed.read_text()


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_no_machine_paths(source: Path) -> None:
    for path in (source, source.with_suffix(".json")):
        assert str(ROOT) not in path.read_text()
