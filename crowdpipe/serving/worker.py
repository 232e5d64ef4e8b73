"""The process that does one job with a model file: `python -m crowdpipe.serving.worker PARENT`.

Reads the job from stdin, and writes to stdout one JSON object a line: `doing`, `done` of `total`,
and last `result`, `failed` (a typed error's kind, and its reason) or `fault` (a traceback). It can
be ended at any moment, native code or not, and ends with its parent. What libraries print goes to
stderr. `worker_process` is the other end.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback
from typing import Any, BinaryIO

from broker_config.parent_watch import hold
from crowdpipe.serving.model_work import Job, to_message, work
from wire.errors import CrowdpipeError
from wire.record import decode

MIN_STEP_NBYTES = 1 << 20  # of progress in bytes that is told


class _Teller:
    """Writes messages for the parent."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._told = -1

    def send(self, **message: Any) -> None:
        self._out.write(json.dumps(message).encode() + b"\n")
        self._out.flush()

    def doing(self, what: str) -> None:
        self.send(doing=what)

    def so_far(self, done: int, total: int) -> None:
        few = done < self._told + MIN_STEP_NBYTES and total > MIN_STEP_NBYTES
        if not few or done in (0, total):
            self._told = done
            self.send(done=done, total=total)


def main() -> None:
    parent, scratch = int(sys.argv[1]), sys.argv[2]
    hold(parent)
    tempfile.tempdir = scratch  # the parent removes it, whenever this process is ended
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)
        _answer(_Teller(out), sys.stdin.buffer.read())


def _answer(teller: _Teller, data: bytes) -> None:
    try:
        job: Any = decode(Job, data)
        teller.send(result=to_message(work(job, teller)))
    except CrowdpipeError as error:
        teller.send(failed=error.kind, reason=error.reason)
    except BrokenPipeError:
        sys.exit(1)  # nobody is there any more
    except Exception:
        teller.send(fault=traceback.format_exc())


if __name__ == "__main__":
    main()
