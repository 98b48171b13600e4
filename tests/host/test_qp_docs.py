"""The tables in docs/endpoint.md are those of the code."""

from __future__ import annotations

from pathlib import Path

from host.qp.states import (
    QP_OPERATIONS,
    QP_TRANSITIONS,
    SEND_TRANSITIONS,
    Operation,
    QpState,
    SendEvent,
    SendState,
)

DOCUMENT = Path(__file__).parents[2] / "docs" / "endpoint.md"


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def transitions() -> str:
    return table(
        ["from \\ to", *(state.value for state in QpState)],
        [
            [old.value, *("yes" if new in QP_TRANSITIONS[old] else "" for new in QpState)]
            for old in QpState
        ],
    )


def operations() -> str:
    return table(
        ["in", *(operation.value for operation in Operation)],
        [
            [state.value, *(QP_OPERATIONS[state][operation].value for operation in Operation)]
            for state in QpState
        ],
    )


def scheduling() -> str:
    return table(
        ["state \\ event", *(event.name for event in SendEvent)],
        [
            [
                state.name,
                *(
                    ""
                    if SEND_TRANSITIONS[state][event] is state
                    else SEND_TRANSITIONS[state][event].name
                    for event in SendEvent
                ),
            ]
            for state in SendState
        ],
    )


def test_tables() -> None:
    text = DOCUMENT.read_text()
    for wanted in (transitions(), operations(), scheduling()):
        assert wanted in text, f"docs/endpoint.md lacks this table, or has another:\n{wanted}"
