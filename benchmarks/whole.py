"""The rival: a model in one ONNX Runtime process of one thread, as a person would run it.

    python -m benchmarks.whole MODEL.onnx ITEMS.npz

ONNX Runtime's own defaults apart from the number of threads. A process of its own, loaded once
and kept, so that its rounds can alternate with the fleet's. It reads a word a line and answers in
a line of JSON; it ends when its input does.
"""

from __future__ import annotations

import json
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks.process import peak_nbytes
from crowdpipe.items_file import Arrays, read_items, write_items
from wire.errors import OperatorError, TimedOut

LIMIT_S = 300.0
WARM_UP = 3


class WholeModel:
    """One rival process, ready inside a `with`."""

    def __init__(self, model: Path, items: Path) -> None:
        self._command = [sys.executable, "-m", __name__, str(model), str(items)]
        self._process: subprocess.Popen[str]
        self.load_s = 0.0

    def __enter__(self) -> WholeModel:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        try:
            self.load_s = float(self._answer()["load_s"])
        except BaseException:
            self._end()
            raise
        return self

    @property
    def pid(self) -> int:
        return self._process.pid

    def begin(self, count: int) -> None:
        """Have it run that many items, from the first on; `finish` waits for them."""
        self._say(f"run {count}")

    def finish(self) -> list[float]:
        """Seconds of each item."""
        return [float(each) for each in self._answer()["each_s"]]

    def run(self, count: int) -> list[float]:
        self.begin(count)
        return self.finish()

    def write(self, path: Path) -> list[Arrays]:
        """The outputs of all items, through a file at `path`."""
        self._say(f"write {path}")
        self._answer()
        return read_items(path, ())[1]

    def peak_nbytes(self) -> int:
        self._say("peak")
        return int(self._answer()["peak_nbytes"])

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _answer(self) -> dict[str, Any]:
        output = self._process.stdout
        assert output is not None
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            if not selector.select(LIMIT_S):
                raise TimedOut(f"the process of the whole model was silent for {LIMIT_S:g} s")
        line = output.readline()
        if not line:
            raise OperatorError("the process of the whole model has ended; its words are above")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end()

    def _end(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


# --- in the process itself --------------------------------------------------------------------


class _Served:
    def __init__(self, model: Path, items: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._items = read_items(items, ())[1]
        begun = time.perf_counter()
        self._session = onnxruntime.InferenceSession(
            str(model), options, providers=["CPUExecutionProvider"]
        )
        self.load_s = time.perf_counter() - begun
        self._names = [output.name for output in self._session.get_outputs()]
        for _ in range(WARM_UP):
            self._one(0)

    def _one(self, index: int) -> list[Any]:
        outputs: list[Any] = self._session.run(self._names, self._items[index % len(self._items)])
        return outputs

    def run(self, count: str) -> dict[str, Any]:
        return {"each_s": list(self._timed(int(count)))}

    def _timed(self, count: int) -> Iterator[float]:
        for index in range(count):
            begun = time.perf_counter()
            self._one(index)
            yield time.perf_counter() - begun

    def write(self, path: str) -> dict[str, Any]:
        outputs = [
            dict(zip(self._names, self._one(index), strict=True))
            for index in range(len(self._items))
        ]
        write_items(Path(path), "numbered", outputs)
        return {}

    def peak(self, _: str) -> dict[str, Any]:
        return {"peak_nbytes": peak_nbytes()}


def main() -> None:
    served = _Served(Path(sys.argv[1]), Path(sys.argv[2]))
    print(json.dumps({"load_s": served.load_s}), flush=True)
    words: dict[str, Callable[[str], dict[str, Any]]]
    words = {"run": served.run, "write": served.write, "peak": served.peak}
    for line in sys.stdin:
        word, _, rest = line.strip().partition(" ")
        print(json.dumps(words[word](rest)), flush=True)


if __name__ == "__main__":
    main()
