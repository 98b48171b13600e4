"""Liveness of variables in generated code."""

from __future__ import annotations

import pytest

from softswitch.compiler.liveness import assigned, live_at_start


@pytest.mark.parametrize(
    ("source", "live"),
    [
        ("a = 1\nb = a", ""),
        ("b = a\na = 1", "a"),
        ("a += 1", "a"),
        ("a[i] = x", "a i x"),
        ("a, b = b, c", "b c"),
        ("if t:\n    a = 1\nb = a", "t a"),
        ("if t:\n    a = 1\nelse:\n    a = 2\nb = a", "t"),
        ("if t:\n    return x\na = 1\nb = a", "t x"),
        ("while True:\n    a = 1\n    if t:\n        break\nb = a", "t"),
        ("while True:\n    if t:\n        break\n    a = 1\nb = a", "t a"),
        ("while True:\n    b = a\n    a = 1\n    continue", "a"),
        ("while t:\n    a = 1\nb = a", "t a"),
        ("for x in xs:\n    y = x", "xs"),
        ("for x in xs:\n    y = z\nelse:\n    w = v", "xs z v"),
        ("for x in xs:\n    if x:\n        break\nb = x", "xs x"),
        ("f(a)\npass", "f a"),
        ("x = [y for y in z]", "z y"),
    ],
)
def test_live_at_start(source: str, live: str) -> None:
    assert live_at_start(source) == set(live.split())


def test_what_is_read_afterwards_counts() -> None:
    assert live_at_start("a = 1", frozenset("ab")) == {"b"}


def test_unknown_statements_are_not_passed_over() -> None:
    with pytest.raises(AssertionError, match="Try"):
        live_at_start("try:\n    pass\nfinally:\n    pass")


def test_assigned() -> None:
    assert assigned("a = 1\nfor b, c in d:\n    e += f\ng[h] = 1") == set("abce")
