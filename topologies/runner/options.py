"""Options that several commands have."""

from __future__ import annotations

import click

run_option = click.option("--run", "run_id", help="Which run, where there are several: its id.")
