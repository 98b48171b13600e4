"""The first step of a command. Imports nothing that takes time, so not even `typing`."""

from __future__ import annotations

import importlib
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

#: Exit code of what Ctrl-C ended
INTERRUPTED = 128 + signal.SIGINT


def launch(where: str) -> NoReturn:
    """Import `module:function` and call it.

    The modules of a command take half a second. As long as nothing has begun there is nothing to
    clean up, so Ctrl-C then does what it does to any program, instead of a traceback out of
    the middle of an import.
    """
    module, _, name = where.partition(":")
    # Else it is ignored, as in the background of a script
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    try:
        if ours:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        function = getattr(importlib.import_module(module), name)
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        function()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    sys.exit(0)
