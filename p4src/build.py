"""Compile the P4 programs with p4c-bm2-ss, and tell whether the committed result is stale.

    python -m p4src.build            compile all programs into p4src/build/
    python -m p4src.build --check    compare the tree with the manifest; needs no compiler

`$P4C` names the compiler where it is not on the PATH as `p4c-bm2-ss`.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from p4src import BUILD_DIR, PROGRAM_NAMES, SOURCE_DIR, CompiledProgram, compiled

ROOT = SOURCE_DIR.parent
MANIFEST_PATH = BUILD_DIR / "manifest.json"
NO_COMPILER = (
    "make p4 needs p4c-bm2-ss on the PATH or in $P4C: Ubuntu and Debian: 'apt install p4lang-p4c' "
    "from the p4lang package repository; Fedora, Arch, macOS and others: build "
    "github.com/p4lang/p4c with -DENABLE_BMV2=ON. Only changes to p4src/ need it: the compiled "
    "programs are in p4src/build/."
)
# p4c prints this for every table of an action selector, even one that names no default action,
# and no option silences it. NoAction, which is implied, is what the target does.
UNAVOIDABLE_WARNING = re.compile(
    r"^.*\[--Wwarn=unsupported\] warning: Target does not support default_action for \S+ "
    r"\(due to action profiles\)\n.*\n\s*\^+\n?",
    re.MULTILINE,
)


class CompileError(Exception):
    """p4c refused a program or warned about it; the text is p4c's own."""


def find_compiler() -> str | None:
    """Return the path of p4c-bm2-ss (`$P4C`, else the PATH), or None."""
    return shutil.which(os.environ.get("P4C") or "p4c-bm2-ss")


def sources(program: str) -> list[Path]:
    """Return our files that `program` is made from, sorted: its .p4 and what it includes."""
    found: set[Path] = set()

    def visit(path: Path) -> None:
        if path in found:
            return
        found.add(path)
        for name in re.findall(r'^\s*#include\s+"([^"]+)"', path.read_text(), re.MULTILINE):
            visit((path.parent / name).resolve())

    visit(SOURCE_DIR / f"{program}.p4")
    return sorted(found)


def sha256(path: Path) -> str:
    """Return the hex SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def describe(program: CompiledProgram, compiler: str) -> dict[str, Any]:
    """Return the manifest's record of one program: hashes of sources and results."""
    return {
        "compiler": compiler,
        "sources": {str(p.relative_to(ROOT)): sha256(p) for p in sources(program.name)},
        "results": {
            str(p.relative_to(ROOT)): sha256(p) for p in (program.json_path, program.p4info_path)
        },
    }


def stale() -> Iterator[str]:
    """Yield one line for every difference between the manifest and what lies in the tree."""
    if not MANIFEST_PATH.exists():
        yield f"{MANIFEST_PATH.relative_to(ROOT)} is missing"
        return
    manifest = json.loads(MANIFEST_PATH.read_text())
    for name in PROGRAM_NAMES:
        recorded = manifest.get(name)
        if recorded is None:
            yield f"p4src/{name}.p4 has never been compiled"
            continue
        program = compiled(name)
        missing = [p for p in (program.json_path, program.p4info_path) if not p.exists()]
        if missing:
            yield from (f"{p.relative_to(ROOT)} is missing" for p in missing)
            continue
        now = describe(program, recorded["compiler"])
        for kind in ("sources", "results"):
            for path in sorted(now[kind].keys() | recorded[kind].keys()):
                if now[kind].get(path) != recorded[kind].get(path):
                    yield f"{path} is not what {name} was compiled from or to"


def compiler_version(compiler: str) -> str:
    """Return p4c's version, e.g. `p4c-bm2-ss 1.2.5.16`."""
    result = subprocess.run([compiler, "--version"], capture_output=True, text=True)
    match = re.search(r"Version\s+(\S+)", result.stdout + result.stderr)
    return f"p4c-bm2-ss {match.group(1) if match else 'unknown'}"


def portable(node: Any) -> Any:
    """Return p4c's JSON without source positions in files of the compiler's installation."""
    if isinstance(node, dict):
        return {
            key: portable(value)
            for key, value in node.items()
            if not (key == "source_info" and Path(value["filename"]).is_absolute())
        }
    if isinstance(node, list):
        return [portable(item) for item in node]
    return node


def compile_program(compiler: str, name: str, out_dir: Path) -> CompiledProgram:
    """Compile `p4src/<name>.p4` into `out_dir`.

    Raises:
        CompileError: p4c failed, or printed a warning.
    """
    out = CompiledProgram(name, out_dir / f"{name}.json", out_dir / f"{name}.p4info.txtpb")
    command = [
        compiler,
        "--std",
        "p4-16",
        "--p4runtime-files",
        str(out.p4info_path),
        "-o",
        str(out.json_path),
        f"p4src/{name}.p4",
    ]
    # Run where source names are relative: the result is the same wherever the tree lies.
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    messages = UNAVOIDABLE_WARNING.sub("", result.stdout + result.stderr).strip()
    if result.returncode != 0 or messages:
        raise CompileError(messages or f"p4c-bm2-ss exited with {result.returncode}")
    tree = portable(json.loads(out.json_path.read_text()))
    tree["program"] = f"p4src/{name}.p4"
    out.json_path.write_text(json.dumps(tree, indent=1) + "\n")
    return out


@click.command(help=__doc__)
@click.option("--check", is_flag=True, help="Only say whether the committed result is stale.")
def main(check: bool) -> None:
    """Compile all programs, or check them."""
    if check:
        differences = list(stale())
        for line in differences:
            click.echo(f"stale: {line}; run 'make p4'", err=True)
        sys.exit(1 if differences else 0)
    compiler = find_compiler()
    if compiler is None:
        named = os.environ.get("P4C")
        if named:
            click.echo(f"$P4C is {named}, but there is no such program", err=True)
        click.echo(NO_COMPILER, err=True)
        sys.exit(1)
    BUILD_DIR.mkdir(exist_ok=True)
    version = compiler_version(compiler)
    manifest = {}
    for name in PROGRAM_NAMES:
        try:
            program = compile_program(compiler, name, BUILD_DIR)
        except CompileError as error:
            click.echo(f"p4src/{name}.p4 does not compile cleanly:\n{error}", err=True)
            sys.exit(1)
        manifest[name] = describe(program, version)
        click.echo(f"p4src/{name}.p4 → {program.json_path.relative_to(ROOT)}")
    MANIFEST_PATH.write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
