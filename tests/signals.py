"""Signals of processes that tests start."""

import signal


def hear_ctrl_c() -> None:
    """In a new process, before its program: Ctrl-C ends it.

    Whatever runs in the background of a script inherits that it does not, and so would its tests.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
