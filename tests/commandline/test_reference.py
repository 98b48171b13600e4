"""docs/commands.md is what the commands are today."""

from __future__ import annotations

import tomllib
from pathlib import Path

import click
import pytest

from commandline import reference

ROOT = Path(__file__).parents[2]


def test_page_is_fresh() -> None:
    fresh = (ROOT / "docs" / reference.PAGE_FILE).read_text() == reference.page_text()
    assert fresh, "stale: run `python -m commandline.reference docs`"


def test_every_script_of_the_package_is_there() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert set(reference.COMMANDS) == set(scripts)


def test_subcommands_options_and_their_defaults_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @click.group()
    def top() -> None:
        """Does <things>.

        \b
        as it   stands
        """

    @top.command()
    @click.argument("where")
    @click.option("--rate", default=3, show_default=True, help="How *fast*.")
    @click.option("--secret", hidden=True)
    def go(where: str, rate: int, secret: str) -> None:
        """Goes WHERE."""

    @top.command(hidden=True)
    def hide() -> None:
        """Not for people."""

    monkeypatch.setattr(reference, "COMMANDS", {"tool": "somewhere:top"})
    monkeypatch.setattr(reference, "load", lambda place: top)
    text = reference.page_text()
    assert "## tool\n" in text and "### tool go\n" in text
    assert "```\ntool go [OPTIONS] WHERE\n```" in text
    assert "Does &lt;things>." in text and "```\nas it   stands\n```" in text
    assert "| `--rate INTEGER` | How \\*fast\\*. [default: 3] |" in text
    assert "secret" not in text and "hide" not in text
