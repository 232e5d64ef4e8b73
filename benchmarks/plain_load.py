"""The rival of loading: a plain ONNX Runtime session of a model file, made again and again.

    python -m benchmarks.plain_load MODEL.onnx

One thread, and ONNX Runtime's own defaults otherwise. It imports nothing of the runtime before the
first load, so that the first one of a process has the import in it. It reads a word a line and
answers in a line of JSON; it ends when its input does.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.talker import Talker


class PlainLoad(Talker):
    """One such process, inside a `with`."""

    def __init__(self, model: Path) -> None:
        super().__init__(__name__, [str(model)])

    def load(self) -> float:
        """Seconds in which a session was made; what a former load left is given up before."""
        return float(self.ask("load")["load_s"])


def fresh_load(model: Path) -> float:
    """The same of a new process, with the import."""
    with PlainLoad(model) as process:
        return process.load()


# --- in the process itself --------------------------------------------------------------------


def _session(model: str) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def main(model: str) -> None:
    print(json.dumps({}), flush=True)
    session = None
    for _ in sys.stdin:
        session = None
        begun = time.perf_counter()
        session = _session(model)
        print(json.dumps({"load_s": time.perf_counter() - begun}), flush=True)
    del session


if __name__ == "__main__":
    main(sys.argv[1])
