"""Work on a model file in a process of its own, so that whoever waits can end it at any moment.

Native code (parsing, shape inference, ONNX Runtime) runs for up to a minute without looking at
signals, and a model may end it by a memory fault. Here signals are obeyed at once: the process is
killed, whatever it does. What it stored is harmless: content comes first, the manifest last.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, cast

from crowdpipe.serving.model_work import AddModel, CheckModel, Job, JobListener, from_message
from wire.errors import InvalidModel, OperatorError, UserError, from_kind
from wire.record import encode

if TYPE_CHECKING:
    from orchestrator.segmentation.checking.check import CheckFigures
    from orchestrator.segmentation.checking.comparing import ModelComparison

_FAULTS = frozenset(
    {signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT}
)  # what a program does to itself


class WorkerFault(Exception):
    """The other process failed by a fault of ours; holds its traceback."""


def add_apart(job: AddModel, told: JobListener) -> ModelComparison:
    """As `add_model`, in a process of its own. Raises also `OperatorError` if that is killed."""
    return cast("ModelComparison", _done_apart(job, told))


def check_apart(job: CheckModel, told: JobListener) -> CheckFigures:
    """As `check`, in a process of its own. Raises also `OperatorError` if that is killed."""
    return cast("CheckFigures", _done_apart(job, told))


def _done_apart(job: Job, told: JobListener) -> Any:
    doing = "starting"
    with _worker(_encoded(job)) as process:
        for line in cast(IO[bytes], process.stdout):
            message = json.loads(line)
            if "doing" in message:
                doing = message["doing"]
                told.doing(doing)
            elif "done" in message:
                told.so_far(message["done"], message["total"])
            else:
                return _result(job, message)
        raise _ended(process.wait(), doing)


def _encoded(job: Job) -> bytes:
    try:
        return encode(job)
    except UnicodeEncodeError:
        raise UserError("the name of a file or folder is not UTF-8 text; rename it") from None


@contextmanager
def _worker(job: bytes) -> Iterator[subprocess.Popen[bytes]]:
    """The process, which has the job; dead and gone at the end, however that comes."""
    with tempfile.TemporaryDirectory(prefix="crowdpipe-", ignore_cleanup_errors=True) as scratch:
        process = subprocess.Popen(
            # -P: a folder where someone happens to work must not replace our modules.
            [sys.executable, "-P", "-m", "crowdpipe.serving.worker", str(os.getpid()), scratch],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,  # Ctrl-C is for this process, which ends the other
        )
        try:
            with cast(IO[bytes], process.stdin) as stdin:
                stdin.write(job)
            yield process
        finally:
            process.kill()
            process.wait()
            cast(IO[bytes], process.stdout).close()


def _result(job: Job, message: dict[str, Any]) -> Any:
    if "failed" in message:
        raise from_kind(message["failed"], message["reason"])
    if "fault" in message:
        raise WorkerFault(message["fault"])
    return from_message(job, message["result"])


def _ended(code: int, doing: str) -> Exception:
    """Why there was no result, by the process's exit code: negative for a signal."""
    if code >= 0:
        return WorkerFault(f"the process that works on the model ended with code {code} ({doing})")
    name = signal.Signals(-code).name
    if -code in _FAULTS:
        return InvalidModel(
            f"ONNX Runtime or its parsers ended by {name} while {doing}; export the model anew, "
            "with other settings or another opset"
        )
    return OperatorError(
        f"the process that works on the model was ended by {name} while {doing}; "
        "if nobody did that, this machine has too little memory for the model"
    )
