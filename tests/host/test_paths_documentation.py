"""docs/paths.md and docs/congestion-control.md say what the code does."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from host.congestion import Network, make_controller, registry
from host.congestion.nscc import NsccConfig
from host.paths.states import SIGNAL_OF_M, SIGNAL_OF_NACK, TRANSITIONS, Action, EvState, Signal

DOCS = Path(__file__).parents[2] / "docs"


def row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def state_table() -> str:
    """TRANSITIONS as Markdown: what changes nothing is left empty."""
    lines = [row(["state", *(signal.name for signal in Signal)])]
    lines.append(row(["---"] * (len(Signal) + 1)))
    for state in EvState:
        cells = [state.value]
        for signal in Signal:
            new, action = TRANSITIONS[state][signal]
            with_action = "" if action is Action.NONE else f" ({action.name.lower()})"
            unchanged = new is state and action is Action.NONE
            cells.append("" if unchanged else f"{new.value}{with_action.replace('_', ' ')}")
        lines.append(row(cells))
    return "\n".join(lines)


def signal_table() -> str:
    lines = [row(["heard", "signal"]), row(["---", "---"])]
    heard = [(f"SACK M = {m.name}", signal) for m, signal in SIGNAL_OF_M.items()]
    heard += [(f"NACK {reason.name}", signal) for reason, signal in SIGNAL_OF_NACK.items()]
    lines += [row([what, "" if signal is None else signal.name]) for what, signal in heard]
    return "\n".join(lines)


def test_the_tables_of_states_and_signals_are_the_code_s() -> None:
    text = (DOCS / "paths.md").read_text()
    assert state_table() in text
    assert signal_table() in text


def test_every_knob_of_nscc_is_in_the_table() -> None:
    text = (DOCS / "congestion-control.md").read_text()
    table = text[text.index("### Knobs") : text.index("### What is our choice")]
    named = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (.*?) \|", table, re.MULTILINE))))
    assert named == {knob.name for knob in fields(NsccConfig)}


def test_the_example_of_a_controller_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_REGISTERED", dict(registry._REGISTERED))
    text = (DOCS / "congestion-control.md").read_text()
    (source,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(compile(source, "congestion-control.md", "exec"), {})
    controller = make_controller("aimd", Network(frame_bytes=1000), cwnd_bytes=10_000)
    controller.on_ack(10_000, False, None, 0)
    assert controller.cwnd_bytes == 11_000
    controller.on_trim(1000, True, 0)
    assert controller.cwnd_bytes == 5_500
    for _ in range(9):
        controller.on_loss(1000, 0)
    assert controller.cwnd_bytes == 1_000
