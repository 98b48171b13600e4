"""What decides the numbers of a run, as a hash: a run made by other code is another run."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from experiments.catalogue import module_name

_ROOT: Final = Path(__file__).parent.parent
#: Packages and modules whose code a run goes through, the compiled P4 program among them
_SOURCES: Final = (
    "host",
    "sim",
    "softswitch",
    "controller",
    "topologies",
    "p4src/build",
    "p4src/__init__.py",
    "reports/evs.py",
    "reports/rates.py",
    "reports/result.py",
    "reports/verdict.py",
    "experiments/simulate.py",
    "experiments/interop",
    "experiments/worker.py",
)
_SUFFIXES: Final = (".py", ".yaml", ".json", ".txt", ".txtpb", ".cm", ".topo")
#: Names in a figure's module that look at finished runs and do not take part in them
_AFTERWARDS: Final = ("checks", "plots", "FIGURE")
#: What only they import
_ONLY_LOOKS: Final = ("experiments.drawing", "experiments.words", "matplotlib.figure")
#: In these folders nothing takes part in a run in virtual time
_ELSEWHERE: Final = ("topologies/runner", "host/agent", "topologies/scenarios")


@cache
def packages_version(root: Path = _ROOT) -> str:
    """Hash of everything but the figure's own module."""
    digest = hashlib.sha256()
    for path in _files(root):
        digest.update(str(path.relative_to(root)).encode())
        digest.update(b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _files(root: Path) -> Iterator[Path]:
    for source in _SOURCES:
        place = root / source
        if place.is_file():
            yield place
            continue
        for path in sorted(place.rglob("*")):
            inside = path.relative_to(root).as_posix()
            if path.suffix in _SUFFIXES and not inside.startswith(_ELSEWHERE):
                yield path


@cache
def figure_version(name: str) -> str:
    """Hash of a figure's code and all it goes through.

    Checks, plots and texts of the module do not count, nor do comments.
    """
    spec = find_spec(module_name(name))
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(module_name(name))
    digest = hashlib.sha256(packages_version().encode())
    for path in _own_modules(Path(spec.origin)):
        digest.update(path.name.encode())
        digest.update(measuring_part(path.read_text(encoding="utf-8")).encode())
    return digest.hexdigest()[:16]


def _own_modules(path: Path) -> Iterator[Path]:
    """A figure's module, and those beside it that it imports from."""
    seen: set[Path] = set()
    left = [path]
    while left:
        module = left.pop()
        if module in seen or not module.is_file():
            continue
        seen.add(module)
        yield module
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                package, _, name = node.module.rpartition(".")
                if package == "experiments.figures":
                    left.append(path.parent / f"{name}.py")


def measuring_part(source: str) -> str:
    """A module's code without docstrings and without what looks at finished runs."""
    tree = ast.parse(source)
    tree.body = [node for node in tree.body if not _is_afterwards(node) and not _is_docstring(node)]
    return ast.dump(tree)


def _is_afterwards(node: ast.stmt) -> bool:
    if isinstance(node, ast.FunctionDef):
        return node.name in _AFTERWARDS or node.name.startswith(
            ("draw", "_draw", "check_", "_check")
        )
    if isinstance(node, ast.Assign):
        names = {target.id for target in node.targets if isinstance(target, ast.Name)}
        return bool(names & set(_AFTERWARDS))
    return isinstance(node, ast.ImportFrom) and node.module in _ONLY_LOOKS


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
