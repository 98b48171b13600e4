"""Which code makes another run of a run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import experiments
from experiments import code_version
from experiments.code_version import figure_version, measuring_part, packages_version

ROOT: Final = Path(experiments.__file__).parent.parent
#: What a run imports and what decides none of its numbers: how it tells how far it is, and the
#: counters of real sockets
DECIDES_NOTHING: Final = {"reports/progress.py", "reports/text.py", "rawsocket/losses.py"}

_MODULE = '''"""A figure."""
SIZE = 4

def measure(parameters, seed):
    return SIZE

def checks(results):
    return [1]

FIGURE = Figure(title="one")
'''


def test_checks_texts_and_comments_do_not_count() -> None:
    other = _MODULE.replace("[1]", "[2]").replace("one", "two").replace("A figure", "The figure")
    assert measuring_part(_MODULE) == measuring_part("# Why\n" + other)


def test_what_measures_counts() -> None:
    assert measuring_part(_MODULE) != measuring_part(_MODULE.replace("SIZE = 4", "SIZE = 5"))
    assert measuring_part(_MODULE) != measuring_part(_MODULE.replace("return SIZE", "return 1"))


def test_what_only_pictures_need_does_not_count() -> None:
    drawn = f"from experiments.drawing import MRC\n{_MODULE}"
    assert measuring_part(drawn) == measuring_part(_MODULE)
    assert measuring_part(f"from sim.clock import MRC\n{_MODULE}") != measuring_part(_MODULE)


def test_packages_and_the_compiled_program_count(tmp_path: Path) -> None:
    for folder in ("host", "p4src/build"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "host/nic.py").write_text("1")
    (tmp_path / "p4src/build/fabric.json").write_text("{}")
    versions = [packages_version.__wrapped__(tmp_path)]
    (tmp_path / "host/nic.py").write_text("2")
    versions.append(packages_version.__wrapped__(tmp_path))
    (tmp_path / "p4src/build/fabric.json").write_text('{"tables": []}')
    versions.append(packages_version.__wrapped__(tmp_path))
    (tmp_path / "host/agent").mkdir()
    (tmp_path / "host/agent/cli.py").write_text("3")
    versions.append(packages_version.__wrapped__(tmp_path))
    assert len(set(versions)) == 3
    assert versions[2] == versions[3]


def test_all_that_a_run_goes_through_counts() -> None:
    counted = {path.relative_to(ROOT).as_posix() for path in code_version._files(ROOT)}
    left, seen = [ROOT / "experiments/simulate.py"], set()
    while left:
        path = left.pop()
        if path not in seen:
            seen.add(path)
            left += _imported(path)
    gone_through = {path.relative_to(ROOT).as_posix() for path in seen}
    assert len(gone_through) > 100
    assert gone_through - counted == DECIDES_NOTHING


def _imported(path: Path) -> Iterator[Path]:
    """The repository's own modules that one imports, under whatever condition."""
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    for name in names:
        place = ROOT / name.replace(".", "/")
        yield from (
            file for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()
        )


def test_figures_that_share_a_module_differ_all_the_same() -> None:
    assert figure_version("fig-19a") != figure_version("fig-19b")
