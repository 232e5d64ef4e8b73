"""`crowdpipe`, or `python -m crowdpipe`: the command line.

Typed errors become one sentence on stderr and an exit code; anything else is a fault of ours and
keeps its traceback.
"""

from __future__ import annotations

import os
import sys

from crowdpipe.cli.app import build
from wire.errors import CrowdpipeError

DEBUG_VARIABLE = "CROWDPIPE_DEBUG"
INTERRUPTED = 130  # what shells report for a program that Ctrl-C ended


def main() -> int:
    """Run the command that `sys.argv` names; exits with its code."""
    try:
        build()()
    except CrowdpipeError as error:
        if os.environ.get(DEBUG_VARIABLE):
            raise
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has enough, as `crowdpipe devices | head -1` does. Without this
        # Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
