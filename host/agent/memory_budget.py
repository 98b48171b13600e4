"""How much memory all users of an agent may have together.

What a request may ask for is limited one by one (a region, an exchange); this is the limit of all
that are there at a time: regions, messages and slots of flows, vectors of collectives. What is
drawn and compared beside them for a while does not count, nor do queue pairs and mapped files.
"""

from __future__ import annotations

from typing import Final

from host.agent.errors import AgentError
from topologies.units import size_text

#: One region of the largest size
DEFAULT_MEMORY_BYTES: Final = 1 << 32


class MemoryBudget:
    """Bytes that may be in use, and that are."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0

    def take(self, size_bytes: int) -> None:
        """Raises AgentError where so much is not left; nothing is taken then."""
        if size_bytes > self.limit_bytes - self.used_bytes:
            raise AgentError(
                f"memory: {size_text(size_bytes)} do not fit: the agent's users have "
                f"{size_text(self.used_bytes)} of at most {size_text(self.limit_bytes)} "
                "(--max-memory)"
            )
        self.used_bytes += size_bytes

    def give_back(self, size_bytes: int) -> None:
        """What was taken is free again."""
        self.used_bytes -= size_bytes
