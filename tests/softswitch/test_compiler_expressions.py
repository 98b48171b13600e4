"""Operators at exact widths (programs/arithmetic.p4), against the P4_16 specification's rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softswitch import ir
from softswitch.compiler import runtime
from softswitch.compiler.expressions import Code, constant, cut, fit
from tests.softswitch.pipeline_support import bench

M12, M64, M8 = (1 << 12) - 1, (1 << 64) - 1, 0xFF
ARITHMETIC = bench("arithmetic")


@dataclass(frozen=True)
class Result:
    """The fields of `out_t`; what the operation does not set is 0."""

    r: int = 0
    q: int = 0
    x: int = 0
    y: int = 0


def signed(value: int, bits: int = 12) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def clamp(value: int, low: int, high: int) -> int:
    return max(low, min(value, high))


def bits(*flags: bool) -> int:
    return sum(flag << i for i, flag in enumerate(flags))


Operation = Callable[[int, int, int, int, int, int], Result]
# a, b: bit<12>; s, t: int<12>; w, v: bit<64>
OPERATIONS: dict[int, Operation] = {
    0: lambda a, b, s, t, w, v: Result(a + b & M12, signed(s + t), w + v & M64),
    1: lambda a, b, s, t, w, v: Result(a - b & M12, signed(s - t), w - v & M64),
    2: lambda a, b, s, t, w, v: Result(a * b & M12, signed(s * t), w * v & M64),
    3: lambda a, b, s, t, w, v: Result(min(a + b, M12), clamp(s + t, -2048, 2047)),
    4: lambda a, b, s, t, w, v: Result(max(a - b, 0), clamp(s - t, -2048, 2047)),
    5: lambda a, b, s, t, w, v: Result(a & b, s & t, w & v),
    6: lambda a, b, s, t, w, v: Result(a | b, s | t, w | v),
    7: lambda a, b, s, t, w, v: Result(a ^ b, s ^ t, w ^ v),
    8: lambda a, b, s, t, w, v: Result(~a & M12, ~s, ~w & M64),
    9: lambda a, b, s, t, w, v: Result(
        a << (b & M8) & M12, signed(s << (b & M8)), w << (b & M8) & M64
    ),
    10: lambda a, b, s, t, w, v: Result(a >> (b & M8), s >> (b & M8), w >> (b & M8)),
    11: lambda a, b, s, t, w, v: Result(-a & M12, signed(-s)),
    12: lambda a, b, s, t, w, v: Result(
        (a & M8) << 4 | b >> 8, 0, (w >> 8 & 0xFFFFFFFF) << 32 | v >> 32
    ),
    13: lambda a, b, s, t, w, v: Result(max(a, b), max(s, t)),
    14: lambda a, b, s, t, w, v: Result(s & M12, signed(a), s & M64),
    15: lambda a, b, s, t, w, v: Result(x=b, y=a & M8),
    16: lambda a, b, s, t, w, v: Result(
        y=bits(a < b, a <= b, a == b, s < t, s >= t, s != t, a < b and s < t, a < b or not s < t)
    ),
    17: lambda a, b, s, t, w, v: Result(x=(w & 0xFFFFFFFF) << 16),
    18: lambda a, b, s, t, w, v: Result(x=(1 + 2 + 3 + 5) * w & M64),
}

word = st.sampled_from([0, 1, 2047, 2048, 4095, 0x555, 8, 11, 12, 63, 64]) | st.integers(0, M12)
wide = st.sampled_from([0, 1, M64, 1 << 63]) | st.integers(0, M64)


def compute(op: int, a: int, b: int, s: int, t: int, w: int, v: int) -> Result:
    packed = op << 48 | a << 36 | b << 24 | s << 12 | t
    frame = (packed << 128 | w << 64 | v).to_bytes(23, "big")
    out = ARITHMETIC.send_one(frame)
    assert out[:23] == frame
    value = int.from_bytes(out[23:], "big")
    assert len(out) == 35
    return Result(value >> 84, signed(value >> 72), value >> 8 & M64, value & M8)


@pytest.mark.parametrize("op", OPERATIONS)
@settings(max_examples=60, deadline=None)
@given(a=word, b=word, s=word, t=word, w=wide, v=wide)
def test_operation(op: int, a: int, b: int, s: int, t: int, w: int, v: int) -> None:
    expected = OPERATIONS[op](a, b, signed(s), signed(t), w, v)
    assert compute(op, a, b, s, t, w, v) == expected


# ---- masks are left out only where they change nothing -------------------------------------------


def field(width: int, *, is_signed: bool = False) -> ir.Field:
    return ir.Field("f", width, 0, is_signed)


def test_no_mask_where_the_value_fits() -> None:
    assert fit(Code("x", low=0, high=255), field(8)).text == "x"
    assert cut(Code("x", low=0, high=255), 9).text == "x"
    assert fit(constant(7), field(3)).text == "7"


@pytest.mark.parametrize(("low", "high"), [(0, 256), (-1, 3), (-5, -1)])
def test_mask_where_the_value_may_not_fit(low: int, high: int) -> None:
    code = fit(Code("x", low=low, high=high), field(8))
    assert code.text == "x & 255"
    assert (code.low, code.high) == (0, 255)


@given(st.integers(-(1 << 20), 1 << 20))
def test_signed_fields_wrap(value: int) -> None:
    code = fit(Code("x", low=-(1 << 20), high=1 << 20), field(12, is_signed=True))
    assert eval(code.text, {"x": value}) == signed(value)


def test_a_gigantic_shift_makes_no_gigantic_number() -> None:
    assert runtime.shift_left(1, 1 << 40) == 0
    assert runtime.shift_left(1, 100) == 1 << 100


def test_division_that_p4_leaves_undefined_gives_zero() -> None:
    assert (runtime.divide(7, 0), runtime.modulo(7, 0), runtime.divide(-1, 3)) == (0, 0, 0)
    assert (runtime.divide(7, 2), runtime.modulo(7, 2)) == (3, 1)
