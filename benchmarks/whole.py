"""The rival: a model in one ONNX Runtime process of one thread, as a person would run it.

    python -m benchmarks.whole MODEL.onnx ITEMS.npz

ONNX Runtime's own defaults apart from the number of threads. A process of its own, loaded once
and kept, so that its rounds can alternate with the fleet's. It reads a word a line and answers in
a line of JSON; it ends when its input does.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.process import cpu_s, peak_nbytes
from benchmarks.talker import Talker
from crowdpipe.items_file import Arrays, read_items, write_items

WARM_UP = 3


class WholeModel(Talker):
    """One rival process, ready inside a `with`. `floor_nbytes` is its memory with everything
    imported and nothing loaded."""

    def __init__(self, model: Path, items: Path, prefix: Sequence[str] = ()) -> None:
        super().__init__(__name__, [str(model), str(items)], prefix)

    @property
    def load_s(self) -> float:
        return float(self.said["load_s"])

    @property
    def floor_nbytes(self) -> int:
        return int(self.said["floor_nbytes"])

    def begin(self, count: int) -> None:
        """Have it run that many items, from the first on; `finish` waits for them."""
        self.tell(f"run {count}")

    def finish(self) -> list[float]:
        """Seconds of each item."""
        return [float(each) for each in self.answer()["each_s"]]

    def run(self, count: int) -> list[float]:
        self.begin(count)
        return self.finish()

    def write(self, path: Path) -> list[Arrays]:
        """The outputs of all items, through a file at `path`."""
        self.ask(f"write {path}")
        return read_items(path, ())[1]

    def peak_nbytes(self) -> int:
        return int(self.ask("peak")["peak_nbytes"])

    def cpu_s(self) -> float:
        return cpu_s(self.pid)


# --- in the process itself --------------------------------------------------------------------


class _Served:
    def __init__(self, model: Path, items: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._items = read_items(items, ())[1]
        self.floor_nbytes = peak_nbytes()
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
    print(json.dumps({"load_s": served.load_s, "floor_nbytes": served.floor_nbytes}), flush=True)
    words: dict[str, Callable[[str], dict[str, Any]]]
    words = {"run": served.run, "write": served.write, "peak": served.peak}
    for line in sys.stdin:
        word, _, rest = line.strip().partition(" ")
        print(json.dumps(words[word](rest)), flush=True)


if __name__ == "__main__":
    main()
