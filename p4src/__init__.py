"""The P4 programs of the fabric, and where their compiled form lies.

`fabric` is the switch, `impair` the inline loss element. What `p4c-bm2-ss` made of them is kept
in `p4src/build/`, with a manifest of the sources it was made from (see `p4src.build`).
"""

from dataclasses import dataclass
from pathlib import Path

SOURCE_DIR = Path(__file__).resolve().parent
BUILD_DIR = SOURCE_DIR / "build"
PROGRAM_NAMES = ("fabric", "impair")


@dataclass(frozen=True, slots=True)
class CompiledProgram:
    """Paths of one compiled program."""

    name: str
    json_path: Path
    p4info_path: Path

    @property
    def json_text(self) -> str:
        """The BMv2 JSON that a switch runs."""
        return self.json_path.read_text()

    @property
    def p4info_text(self) -> str:
        """The P4Info, a `p4.config.v1.P4Info` in protobuf text format."""
        return self.p4info_path.read_text()


def compiled(name: str) -> CompiledProgram:
    """Return the compiled form of the program `name`.

    Raises:
        KeyError: there is no such program.
    """
    if name not in PROGRAM_NAMES:
        raise KeyError(f"no P4 program {name!r}; there are: {', '.join(PROGRAM_NAMES)}")
    return CompiledProgram(name, BUILD_DIR / f"{name}.json", BUILD_DIR / f"{name}.p4info.txtpb")
