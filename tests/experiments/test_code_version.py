"""Which code makes another run of a run."""

from __future__ import annotations

from pathlib import Path

from experiments.code_version import figure_version, measuring_part, packages_version

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


def test_figures_that_share_a_module_differ_all_the_same() -> None:
    assert figure_version("fig-19a") != figure_version("fig-19b")
