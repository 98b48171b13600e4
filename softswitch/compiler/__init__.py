"""Typed program → Python source → functions.

* `layout` — which variables hold the headers and metadata, and how
* `expressions`, `codec` — fragments: expressions, fields from and to bytes
* `parser`, `actions`, `controls`, `checksums`, `deparser` — the stages of the pipeline
* `functions` — the two functions, what travels between them, and their compilation
* `runtime` — what generated code calls
"""

from softswitch.compiler.functions import CompiledProgram, compile_program
from softswitch.compiler.state import RuntimeState

__all__ = ["CompiledProgram", "RuntimeState", "compile_program"]
