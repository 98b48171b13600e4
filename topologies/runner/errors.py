"""What can go wrong in a run, as one line a reader can act on."""

from __future__ import annotations


class RunnerError(Exception):
    """The run cannot go on; the text is one clear line, or a line and the tail of a log."""


class UsageError(RunnerError):
    """What was asked for does not exist or does not fit; exit code 2."""


class PrivilegeError(RunnerError):
    """The kernel does not let us make namespaces; the text says what is needed."""
