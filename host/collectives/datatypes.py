"""Data types and reductions, by the names that users write."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

#: One-dimensional, of one of the types below
Vector: TypeAlias = npt.NDArray[Any]


class DataType(Enum):
    """What a buffer's elements are. In memory they are the machine's own, so little-endian."""

    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float32"

    @property
    def dtype(self) -> np.dtype[Any]:
        """As numpy has it."""
        return _DTYPES[self]

    @property
    def size_bytes(self) -> int:
        """Of one element."""
        return _DTYPES[self].itemsize

    @property
    def is_float(self) -> bool:
        """Whether it rounds, so that the order of a sum matters."""
        return self is DataType.FLOAT32

    def vector(self, view: memoryview) -> Vector:
        """A buffer's elements; no copy."""
        return np.frombuffer(view, dtype=_DTYPES[self])


class ReduceOp(Enum):
    """How elements of several ranks become one. Sums of integers wrap around."""

    SUM = "sum"
    MIN = "min"
    MAX = "max"

    def into(self, into: Vector, values: Vector, target: Vector | None = None) -> None:
        """`into` with `values`, element by element, to `target` (None: `into`)."""
        _UFUNCS[self](into, values, out=into if target is None else target)


_DTYPES: dict[DataType, np.dtype[Any]] = {each: np.dtype(each.value) for each in DataType}
_UFUNCS: dict[ReduceOp, Callable[..., Any]] = {
    ReduceOp.SUM: np.add,
    ReduceOp.MIN: np.minimum,
    ReduceOp.MAX: np.maximum,
}
