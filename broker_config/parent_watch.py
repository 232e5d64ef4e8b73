"""Start a program that ends when its parent does, however the parent ends.

Run as a script: `python -I parent_watch.py PARENT_PID PROGRAM ARGUMENT...`. Has Linux send SIGTERM
when the parent dies, then becomes the program, so that the process id stays the same. Elsewhere
it only becomes the program, and an orderly stop is all there is. Imports nothing of ours: it
has to start in milliseconds. (Doing this between fork and exec of a process with threads can
deadlock, hence a program of its own.)
"""

from __future__ import annotations

import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def hold(parent: int) -> None:
    """End this process with its parent; exits at once if the parent is gone already."""
    if not sys.platform.startswith(("linux", "android")):
        return
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    # The parent may have died before the request: then nobody would ever send the signal.
    if os.getppid() != parent:
        sys.exit(1)  # without a word: whoever asked for the work has ended it


def main() -> None:
    parent, program = int(sys.argv[1]), sys.argv[2:]
    hold(parent)
    try:
        os.execvp(program[0], program)
    except OSError as error:
        sys.exit(f"cannot start {program[0]}: {error.strerror}")


if __name__ == "__main__":
    main()
