"""What goes wrong in an agent, as its users see it."""

from __future__ import annotations


class AgentError(Exception):
    """Something failed; the message is one line that says what and where."""


class UsageError(AgentError):
    """What was asked for cannot be; the message says what would be right."""
