"""Which variables are read before they are written: on generated code, by its syntax tree.

It decides what the prologue of a function must set and what travels from ingress to egress, so that
the generators can assign freely and nothing is computed or carried for nobody.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Loop:
    on_break: frozenset[str]
    on_continue: frozenset[str]


_NONE: frozenset[str] = frozenset()
_OUTSIDE = _Loop(_NONE, _NONE)


def live_at_start(source: str, after: frozenset[str] = _NONE) -> frozenset[str]:
    """Names that a sequence of statements may read before it has written them.

    `after` are the names that are read after the last statement. Global names are among the result.
    """
    return _block(ast.parse(source).body, after, _OUTSIDE)


def assigned(source: str) -> frozenset[str]:
    """Names that the statements assign anywhere."""
    return frozenset(
        node.id
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )


def _reads(node: ast.AST | None) -> frozenset[str]:
    if node is None:
        return _NONE
    return frozenset(
        n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
    )


def _stores(node: ast.AST) -> frozenset[str]:
    return frozenset(
        n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    )


def _block(body: Sequence[ast.stmt], after: frozenset[str], loop: _Loop) -> frozenset[str]:
    live = after
    for statement in reversed(body):
        live = _statement(statement, live, loop)
    return live


def _statement(node: ast.stmt, live: frozenset[str], loop: _Loop) -> frozenset[str]:
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                live = live - _stores(target)
            for target in targets:
                live = live | _reads(target)
            return live | _reads(value)
        case ast.AugAssign(target=target, value=value):
            return live | _stores(target) | _reads(target) | _reads(value)
        case ast.If(test=test, body=body, orelse=orelse):
            return _reads(test) | _block(body, live, loop) | _block(orelse, live, loop)
        case ast.While(test=test, body=body):
            forever = isinstance(test, ast.Constant) and test.value is True
            exit_ = _NONE if forever else live
            head = exit_
            while True:
                inside = _Loop(live, head)
                new = _reads(test) | _block(body, head, inside) | exit_
                if new == head:
                    return head
                head = new
        case ast.For(target=target, iter=iter_, body=body, orelse=orelse):
            done = _block(orelse, live, loop)
            head = done
            while True:
                inside = _Loop(live, head)
                new = (_block(body, head, inside) - _stores(target)) | done
                if new == head:
                    return head | _reads(iter_)
                head = new
        case ast.Return(value=value):
            return _reads(value)
        case ast.Break():
            return loop.on_break
        case ast.Continue():
            return loop.on_continue
        case ast.Expr(value=value):
            return live | _reads(value)
        case ast.Pass():
            return live
    raise AssertionError(f"generated code has no {type(node).__name__}")
