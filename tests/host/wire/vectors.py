"""The test vectors: tests/host/vectors/*.json, one packet each.

`frame` is the packet header by header, in hex; `fields` what stands in each header, under the names
of `host.wire.headers` (lower case, which are the names of the Wireshark fields, too).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

VECTORS = Path(__file__).parent.parent / "vectors"

#: Headers of the transport, by their key in `Vector.fields`
TRANSPORT_HEADERS = (
    "bth",
    "meth",
    "tseth",
    "reth",
    "immdt",
    "aeth",
    "seth",
    "cc_state",
    "neth",
    "peth",
    "erth",
    "eeth",
)

Values: TypeAlias = dict[str, int]


@dataclass(frozen=True)
class Vector:
    """One packet and what it says."""

    name: str
    kind: str
    frame: bytes
    #: As in the file: addresses are text
    below: dict[str, Any]
    #: Transport headers and their values, flags as 0 and 1
    transport: dict[str, Values]
    payload: bytes | None
    rest: bytes | None
    original_bytes: int
    payload_bytes: int | None

    @property
    def trimmed(self) -> bool:
        return self.kind == "Trimmed"


def _number(value: int | str) -> int:
    return int(value, 0) if isinstance(value, str) else int(value)


def _load(path: Path) -> Vector:
    data = json.loads(path.read_text())
    frame = bytes.fromhex("".join(data["frame"].values()))
    fields = data["fields"]
    return Vector(
        name=path.stem,
        kind=data["kind"],
        frame=frame,
        below={name: values for name, values in fields.items() if name not in TRANSPORT_HEADERS},
        transport={
            name: {field: _number(value) for field, value in values.items()}
            for name, values in fields.items()
            if name in TRANSPORT_HEADERS
        },
        payload=data["payload"].encode() if "payload" in data else None,
        rest=bytes.fromhex(data["rest"]) if "rest" in data else None,
        original_bytes=data.get("original_bytes", len(frame)),
        payload_bytes=data.get("payload_bytes"),
    )


ALL = tuple(_load(path) for path in sorted(VECTORS.glob("*.json")))
WHOLE = tuple(vector for vector in ALL if not vector.trimmed)
TRIMMED = tuple(vector for vector in ALL if vector.trimmed)
