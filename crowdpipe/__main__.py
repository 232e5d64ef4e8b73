"""`crowdpipe`, or `python -m crowdpipe`: the command line.

Typed errors become one sentence on stderr and an exit code, and so do signals that ask for an end
and a disk without room; anything else is a fault of ours and keeps its traceback.
"""

from __future__ import annotations

import os
import sys

from bus.program_log import log_to_stderr
from crowdpipe.cli.app import build
from crowdpipe.serving.signals import Interrupted, ending_signals_raise
from wire.errors import CrowdpipeError, DiskFull
from wire.unwritable import FULL

DEBUG_VARIABLE = "CROWDPIPE_DEBUG"


def main() -> int:
    """Run the command that `sys.argv` names; exits with its code."""
    log_to_stderr("warning", "%(message)s")
    try:
        with ending_signals_raise():  # typer's own ending differs from version to version
            build()()
    except Interrupted as asked:
        print(f"Stopped ({asked}).", file=sys.stderr)
        return asked.exit_code
    except CrowdpipeError as error:
        if os.environ.get(DEBUG_VARIABLE):
            raise
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        if error.errno not in FULL or os.environ.get(DEBUG_VARIABLE):
            raise
        # Such as output that goes to a file there; no fault of ours, wherever it was met.
        print(f"error: no room left on a disk: {error}; make room, and try again", file=sys.stderr)
        return DiskFull.exit_code
    except SystemExit as ending:
        if not isinstance(ending.__context__, BrokenPipeError):
            raise
        # Whoever read our output has enough, as `crowdpipe devices | head -1` does; typer makes
        # a failure of it. Without this Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
