"""The list of claims: it runs, prints and judges."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments import claims


def test_claims_are_printed_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "claims.json"
    assert claims.main(["two-flows", "--json", str(target)]) == 0
    out = capsys.readouterr().out
    assert "ok   two flows forced on one EV" in out
    assert "2 of 2 hold" in out
    assert [claim["holds"] for claim in json.loads(target.read_text())] == [True, True]


def test_a_claim_that_does_not_hold_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = claims.Claim("name", "what", "measured", False)
    monkeypatch.setitem(claims.CLAIMS, "one-qp", lambda runs: iter([wrong]))
    assert claims.main(["one-qp"]) == 1
    assert "FAIL name: what" in capsys.readouterr().out


def test_an_unknown_claim_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        claims.main(["two-flow"])
    assert left.value.code == 2
    assert "two-flow: no such claim; did you mean two-flows?" in capsys.readouterr().err
