"""The same work in one ONNX Runtime process: what the fleet is measured against.

    python -m crowdpipe.demo.reference MODEL.onnx ITEMS.npz RESULTS.npz [--exact]

A process of its own, so that its memory is its own and nothing else's. One thread, since each
agent has one. Prints a line of JSON: load and batch time in seconds, peak memory in bytes.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crowdpipe.items_file import Arrays, read_items, write_items
from wire.errors import InvalidModel, OperatorError, TimedOut

LIMIT_S = 300.0
WARM_UP = 5  # items run before the clock starts, as the fleet's runs are warm too


@dataclass(frozen=True, slots=True)
class SingleProcess:
    """What one process needs for all items."""

    load_s: float
    latency_s: float
    rss_peak_nbytes: int
    runtime_version: str


def measure_reference(
    model: Path, items: Path, results: Path, exact: bool, limit_s: float = LIMIT_S
) -> SingleProcess:
    """Run `model` over the numbered items in a child process; the results go to `results`.

    Raises `InvalidModel` with ONNX Runtime's words if the child fails, `TimedOut` at the limit.
    """
    command = [sys.executable, "-m", __name__, str(model), str(items), str(results)]
    try:
        done = subprocess.run(
            [*command, *(["--exact"] if exact else [])],
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TimedOut(f"one process did not finish the items within {limit_s:g} s") from None
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["it said nothing"]
        raise InvalidModel(f"ONNX Runtime could not run {model} as a whole: {lines[-1]}")
    try:
        return SingleProcess(**json.loads(done.stdout))
    except (ValueError, TypeError) as error:
        raise OperatorError(f"the reference process printed no figures: {error}") from None


def run_whole(
    model: Path, items: Sequence[Arrays], exact: bool
) -> tuple[list[Arrays], SingleProcess]:
    """All items through one session of the whole model, in this process."""
    import onnxruntime

    begun = time.perf_counter()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    if exact:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    load_s = time.perf_counter() - begun
    for item in items[:WARM_UP]:
        session.run(names, item)
    begun = time.perf_counter()
    results = [dict(zip(names, session.run(names, item), strict=True)) for item in items]
    latency_s = time.perf_counter() - begun
    return results, SingleProcess(load_s, latency_s, _rss_peak_nbytes(), onnxruntime.__version__)


def _rss_peak_nbytes() -> int:
    """VmHWM where there is /proc: what `getrusage` says of a child begins at its parent's peak."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(one for one in status.read_text().splitlines() if one.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description="Run a whole model in one process, measured.")
    parser.add_argument("model", type=Path)
    parser.add_argument("items", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--exact", action="store_true", help="without graph optimisation")
    arguments = parser.parse_args()
    _, items = read_items(arguments.items, ())
    results, reference = run_whole(arguments.model, items, arguments.exact)
    write_items(arguments.results, "numbered", results)
    plain: dict[str, Any] = {name: getattr(reference, name) for name in SingleProcess.__slots__}
    print(json.dumps(plain))


if __name__ == "__main__":
    main()
