"""docs/wire-format.md against the tables of `layouts` and the codes of `constants`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from host.wire.constants import NackReason, Opcode, SackM
from host.wire.layouts import LAYOUTS, Header

PAGE = (Path(__file__).parents[3] / "docs" / "wire-format.md").read_text()


@pytest.mark.parametrize("header", LAYOUTS, ids=lambda header: LAYOUTS[header].name)
def test_header_tables(header: type[Header]) -> None:
    layout = LAYOUTS[header]
    title = f"### {layout.name}, {layout.size_bytes} bytes"
    assert PAGE.count(title) == 1
    section = PAGE.split(title)[1].split("\n#")[0]
    rows = re.findall(r"^\| (\d+)(?:-(\d+))? \| (\d+) \| (\w+) \|", section, re.MULTILINE)
    bit = 0
    expected = []
    for field in layout.fields:
        first, last = bit // 8, (bit + field.bits - 1) // 8
        expected.append(
            (str(first), str(last) if last > first else "", str(field.bits), field.name)
        )
        bit += field.bits
    assert rows == expected


def test_codes() -> None:
    opcodes = PAGE.split("## Opcodes")[1].split("\n## ")[0]
    found = re.findall(r"0x([0-9A-F]{2})\b", opcodes)
    assert sorted(int(code, 16) for code in found) == sorted(Opcode)
    for code in (*SackM, *NackReason):
        assert f"{code.value} {code.name}" in PAGE
