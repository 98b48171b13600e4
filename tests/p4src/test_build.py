"""The committed build is what the sources compile to, and says nothing of where it was made."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from p4.config.v1 import p4info_pb2

from p4src import BUILD_DIR, PROGRAM_NAMES, compiled
from p4src.build import (
    MANIFEST_PATH,
    ROOT,
    CompileError,
    compile_program,
    compiler_version,
    find_compiler,
    sources,
    stale,
)


def test_committed_build_is_not_stale() -> None:
    assert list(stale()) == [], "run 'make p4' (needs p4c-bm2-ss) and commit p4src/build"


@pytest.mark.p4c
@pytest.mark.parametrize("name", PROGRAM_NAMES)
def test_a_rebuild_gives_the_same(name: str, tmp_path: Path) -> None:
    compiler = find_compiler()
    assert compiler is not None
    recorded = json.loads(MANIFEST_PATH.read_text())[name]["compiler"]
    here = compiler_version(compiler)
    if here != recorded:
        pytest.skip(f"this is {here}, the committed build is of {recorded}")
    rebuilt = compile_program(compiler, name, tmp_path)
    assert rebuilt.json_text == compiled(name).json_text
    assert rebuilt.p4info_text == compiled(name).p4info_text


@pytest.mark.p4c
def test_a_warning_of_the_compiler_fails_the_build(tmp_path: Path) -> None:
    """`make p4` promises no warnings: here an action that nothing uses."""
    compiler = find_compiler()
    assert compiler is not None
    tree = copy_of_sources(tmp_path)
    program = tree / "p4src" / "impair.p4"
    text = program.read_text()
    assert "action drop() {" in text
    program.write_text(text.replace("action drop() {", "action unused() { }\n    action drop() {"))
    run = build(tree, environment(P4C=compiler))
    assert run.returncode == 1
    assert "p4src/impair.p4 does not compile cleanly" in run.stderr
    assert "unused" in run.stderr


def test_compile_error_is_the_compilers_own_words(tmp_path: Path) -> None:
    failing = tmp_path / "p4c-bm2-ss"
    failing.write_text("#!/bin/sh\necho 'impair.p4(7): error: no such thing' >&2\nexit 1\n")
    failing.chmod(0o755)
    with pytest.raises(CompileError, match="no such thing"):
        compile_program(str(failing), "impair", tmp_path)


# ---- what lies in p4src/build --------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(BUILD_DIR.iterdir()), ids=lambda path: path.name)
def test_no_absolute_paths(path: Path) -> None:
    found = re.findall(
        r'"/[^"]*"|[A-Z]:\\\\[^"]*|/(?:home|root|opt|usr|tmp|work)/\S*', path.read_text()
    )
    assert not found


def filenames(node: Any) -> set[str]:
    """All source files that a tree of p4c's JSON names."""
    if isinstance(node, dict):
        own = {node["filename"]} if "filename" in node else set()
        return own.union(*(filenames(value) for value in node.values()))
    if isinstance(node, list):
        return set().union(*(filenames(value) for value in node))
    return set()


@pytest.mark.parametrize("name", PROGRAM_NAMES)
def test_source_positions_are_of_our_files(name: str) -> None:
    tree = json.loads(compiled(name).json_text)
    ours = {str(path.relative_to(ROOT)) for path in sources(name)}
    assert filenames(tree) <= ours
    assert f"p4src/{name}.p4" in filenames(tree)
    assert tree["program"] == f"p4src/{name}.p4"


@pytest.mark.parametrize("name", PROGRAM_NAMES)
def test_p4info_and_json_name_the_same_things(name: str) -> None:
    tree = json.loads(compiled(name).json_text)
    info = text_format.Parse(compiled(name).p4info_text, p4info_pb2.P4Info())
    with_keys = {t["name"] for p in tree["pipelines"] for t in p["tables"] if t["key"]}
    assert {t.preamble.name for t in info.tables} == with_keys
    assert {c.preamble.name for c in info.counters} == {c["name"] for c in tree["counter_arrays"]}
    assert {r.preamble.name for r in info.registers} == {r["name"] for r in tree["register_arrays"]}
    ids = [x.preamble.id for kind in (info.tables, info.actions, info.counters) for x in kind]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("name", PROGRAM_NAMES)
def test_every_source_is_in_the_manifest(name: str) -> None:
    manifest = json.loads(MANIFEST_PATH.read_text())
    assert set(manifest[name]["sources"]) == {str(p.relative_to(ROOT)) for p in sources(name)}


def test_every_include_belongs_to_a_program() -> None:
    used = {path for name in PROGRAM_NAMES for path in sources(name)}
    assert set((ROOT / "p4src").rglob("*.p4")) == used


# ---- the command ---------------------------------------------------------------------------------


def copy_of_sources(folder: Path) -> Path:
    """A tree with nothing but p4src in it."""
    shutil.copytree(ROOT / "p4src", folder / "p4src", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def environment(**changes: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "P4C"}
    return {**kept, **changes}


def build(tree: Path, env: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """`python -m p4src.build` in a tree of its own (the working directory comes first)."""
    return subprocess.run(
        [sys.executable, "-m", "p4src.build", *arguments],
        cwd=tree,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_a_compiler_one_line_tells_what_is_needed(tmp_path: Path) -> None:
    tree = copy_of_sources(tmp_path)
    before = {path: path.read_bytes() for path in (tree / "p4src/build").iterdir()}
    run = build(tree, environment(PATH=str(tmp_path)))
    assert run.returncode == 1
    assert run.stdout == ""
    (line,) = run.stderr.splitlines()
    assert line.startswith("make p4 needs p4c-bm2-ss")
    assert "$P4C" in line
    assert {path: path.read_bytes() for path in (tree / "p4src/build").iterdir()} == before


def test_check_names_a_changed_source(tmp_path: Path) -> None:
    tree = copy_of_sources(tmp_path)
    clean = build(tree, environment(), "--check")
    assert (clean.returncode, clean.stderr) == (0, "")
    with (tree / "p4src/include/srv6.p4").open("a") as file:
        file.write("// changed\n")
    changed = build(tree, environment(), "--check")
    assert changed.returncode == 1
    (line,) = changed.stderr.splitlines()
    assert "p4src/include/srv6.p4" in line
    assert "make p4" in line


def test_check_names_a_changed_result(tmp_path: Path) -> None:
    tree = copy_of_sources(tmp_path)
    with (tree / "p4src/build/impair.json").open("a") as file:
        file.write("\n")
    changed = build(tree, environment(), "--check")
    assert changed.returncode == 1
    assert "p4src/build/impair.json" in changed.stderr


def test_check_names_a_missing_result(tmp_path: Path) -> None:
    tree = copy_of_sources(tmp_path)
    (tree / "p4src/build/fabric.p4info.txtpb").unlink()
    changed = build(tree, environment(), "--check")
    assert changed.returncode == 1
    assert "fabric.p4info.txtpb is missing" in changed.stderr
