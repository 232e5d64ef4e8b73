"""ONNX Runtime on this device: loads one segment's graph, and runs it.

numpy and ONNX Runtime are imported with the first load, in the thread that loads: an idle agent
has neither. A session is made from the path of the graph in the blob folder, never from bytes
(measured: 835 against 425 MB peak), and finds its weights beside it. Budgets are others' work.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wire.errors import ComputeFailed, LoadFailed

LONGEST_SENTENCE = 300
# The highest opset of the default domain that a version takes (looked up or measured).
_OPSETS = ((32, 28), (29, 26), (22, 23), (18, 21), (17, 20), (15, 19), (14, 18), (0, 17))
_VERSION = re.compile(r"""^__version__\s*=\s*["']([^"']+)["']""", re.MULTILINE)


@functools.cache
def runtime_version() -> str:
    """The installed ONNX Runtime's version, read without importing it; empty if there is none.

    `importlib.metadata` would say it too, and takes more memory than all the rest of an idle
    agent's modules of ours.
    """
    for folder in sys.path:
        package = Path(folder or ".") / "onnxruntime" / "__init__.py"
        try:
            found = _VERSION.search(package.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError):
            continue
        return found.group(1) if found else ""
    return ""


def max_opset(version: str) -> int:
    """The highest opset that this version of ONNX Runtime accepts; 0 if there is none."""
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is None:
        return 0
    major, minor = int(found.group(1)), int(found.group(2))
    if major > 1:
        return _OPSETS[0][1]
    return next(opset for least, opset in _OPSETS if minor >= least)


def import_runtime() -> None:
    """Import numpy and ONNX Runtime now. Raises `LoadFailed` if they cannot be."""
    try:
        import onnxruntime
    except Exception as error:  # a broken native library raises more than ImportError
        raise LoadFailed(
            f"ONNX Runtime cannot be imported on this device ({error}); install it there: "
            "pkg install python-onnxruntime in Termux, pip install onnxruntime elsewhere"
        ) from None
    onnxruntime.set_default_logger_severity(3)


class Segment:
    """One loaded segment. `prepacked` False keeps its weights as mapped pages of the file, which
    the system can take back, at some cost in speed."""

    def __init__(
        self,
        graph: Path,
        inputs: Sequence[str],
        outputs: Sequence[str],
        *,
        exact: bool,
        threads: int,
        prepacked: bool,
    ) -> None:
        """Raises `LoadFailed` if ONNX Runtime refuses, or the graph is not what was assigned."""
        import onnxruntime

        self.outputs = tuple(outputs)
        options = _options(exact=exact, threads=threads, prepacked=prepacked)
        try:
            self._session = onnxruntime.InferenceSession(
                str(graph), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # ONNX Runtime's exceptions have no common public class
            raise LoadFailed(
                f"ONNX Runtime cannot load {graph.name[:12]} on this device: {shortened(error)}; "
                "update it there, or add the model again"
            ) from None
        self._check_names(inputs)

    def _check_names(self, inputs: Sequence[str]) -> None:
        takes = {port.name for port in self._session.get_inputs()}
        makes = {port.name for port in self._session.get_outputs()}
        if takes != set(inputs) or not set(self.outputs) <= makes:
            raise LoadFailed(
                f"the graph takes {sorted(takes)} and makes {sorted(makes)}, but the assignment "
                f"says {sorted(inputs)} and {sorted(self.outputs)}; add the model again"
            )

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(port.name for port in self._session.get_inputs())

    def run(self, feeds: dict[str, Any]) -> dict[str, Any]:
        """OrtValues by name in and out. Raises `ComputeFailed` with ONNX Runtime's sentence."""
        try:
            made = self._session.run_with_ort_values(list(self.outputs), feeds)
        except Exception as error:  # see above
            raise ComputeFailed(f"ONNX Runtime: {shortened(error)}") from None
        return dict(zip(self.outputs, made, strict=True))


def _options(*, exact: bool, threads: int, prepacked: bool) -> Any:
    """One thread when exact, like the reference: the number of threads changes last bits."""
    import onnxruntime

    level = onnxruntime.GraphOptimizationLevel
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level.ORT_DISABLE_ALL if exact else level.ORT_ENABLE_ALL
    options.intra_op_num_threads = 1 if exact else threads
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 3
    # The arena and the pattern keep activation memory for the next run (5 % faster, measured).
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if not prepacked:
        options.add_session_config_entry("session.disable_prepacking", "1")
    return options


def shortened(error: Exception) -> str:
    """The first line of what ONNX Runtime said, without its source's paths."""
    first = str(error).strip().partition("\n")[0]
    said = re.sub(r"(?:/[\w.+-]+)+/([\w.+-]+\.(?:cc|h):\d+)", r"\1", first)
    return said[:LONGEST_SENTENCE] or type(error).__name__
