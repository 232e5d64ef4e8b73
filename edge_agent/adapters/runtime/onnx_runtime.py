"""ONNX Runtime on this device: loads one segment's graph, and runs it.

numpy and ONNX Runtime are imported with the first load, in the thread that loads: an idle agent
has neither. A session is made from the path of the graph in the blob folder, never from bytes
(measured: 835 against 425 MB peak), and finds its weights beside it. All sessions take memory for
activations from one arena, which gives back what is free when it is told to: an arena for each
keeps as much as every segment ever needed, and the heap is left in pieces (measured over 19
segments: 7 MB against 25 MB that stay). Keeps no budget.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edge_agent.adapters.device.memory import keep_large_blocks_apart
from edge_agent.adapters.device.runtime_version import (
    UNFUSED,
)
from wire.errors import ComputeFailed, LoadFailed

LONGEST_SENTENCE = 300
INLINE_NBYTES = 1024  # smaller weights stay in a prepared graph
_PROVIDERS = ["CPUExecutionProvider"]
# ModelProto of y = Identity(x), float32 [1], IR 8, opset 17.
_IDENTITY = (
    b'\x08\x08:7\n\x10\n\x01x\x12\x01y"\x08Identity\x12\x01gZ\x0f\n\x01x\x12\n\n\x08\x08\x01'
    b"\x12\x04\n\x02\x08\x01b\x0f\n\x01y\x12\n\n\x08\x08\x01\x12\x04\n\x02\x08\x01B\x04\n\x00\x10\x11"
)
_log = logging.getLogger("crowdpipe.agent.executor")


def import_runtime() -> None:
    """Import numpy and ONNX Runtime now, and make the arena that all sessions share. Raises
    `LoadFailed` if they cannot be imported."""
    try:
        import onnxruntime
    except Exception as error:  # a broken native library raises more than ImportError
        raise LoadFailed(
            f"ONNX Runtime cannot be imported on this device ({error}); install it there: "
            "pkg install python-onnxruntime in Termux, pip install onnxruntime elsewhere"
        ) from None
    onnxruntime.set_default_logger_severity(3)
    keep_large_blocks_apart()
    _arena_is_shared()


@functools.cache
def _arena_is_shared() -> bool:
    """Make the arena, once for the process. False where ONNX Runtime cannot."""
    import onnxruntime

    try:
        info = onnxruntime.OrtMemoryInfo(
            "Cpu",
            onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR,
            0,
            onnxruntime.OrtMemType.DEFAULT,
        )
        onnxruntime.create_and_register_allocator(info, None)
    except Exception as error:  # ONNX Runtime's exceptions have no common public class
        _log.info("sessions have no arena: %s", shortened(error))
        return False
    return True


@functools.cache
def _shrinker() -> Any:
    """A session of one Identity, whose run tells the arena to give back what is free."""
    import onnxruntime

    options = _options(exact=True, threads=1, prepacked=False)
    return onnxruntime.InferenceSession(_IDENTITY, options, providers=_PROVIDERS)


def shrink_arena() -> None:
    """Give back what the arena holds and nobody uses. Costs about 2 ms after a large task."""
    import onnxruntime

    if not _arena_is_shared():
        return
    options = onnxruntime.RunOptions()
    options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    value = onnxruntime.OrtValue.ortvalue_from_shape_and_type([1], 1)
    _shrinker().run_with_ort_values(["y"], {"x": value}, options)


class SegmentSession:
    """One loaded session. `prepacked` False keeps its weights as mapped pages of the file, which
    the system can take back, at some cost in speed. `optimised`: the graph is as `save_prepared`
    left it."""

    def __init__(
        self,
        graph: Path,
        inputs: Sequence[str],
        outputs: Sequence[str],
        *,
        exact: bool,
        threads: int,
        prepacked: bool,
        optimised: bool = False,
    ) -> None:
        """Raises `LoadFailed` if ONNX Runtime refuses, or the graph is not what was assigned."""
        self.outputs = tuple(outputs)
        options = _options(exact=exact or optimised, threads=threads, prepacked=prepacked)
        options.intra_op_num_threads = 1 if exact else threads
        self._session = _session(graph, options)
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
        # Not `run_with_ort_values`, whose list of outputs ends by an exception in C++ (1.32): 44
        # microseconds instead of 9, for each segment.
        bound = self._session.io_binding()
        try:
            for name, value in feeds.items():
                bound.bind_ortvalue_input(name, value)
            for name in self.outputs:
                bound.bind_output(name)
            self._session.run_with_iobinding(bound)
        except Exception as error:  # see above
            raise ComputeFailed(f"ONNX Runtime: {shortened(error)}") from None
        return dict(zip(self.outputs, bound.get_outputs(), strict=True))


def save_prepared(graph: Path, to: Path, weights_name: str, *, exact: bool) -> None:
    """Write to `to` the graph as a session here would run it, and beside it under `weights_name`
    its weights, both as they were and packed: a session of `to` maps the packed ones.

    Raises `LoadFailed` if ONNX Runtime cannot: such a segment runs as its author made it.
    """
    options = _options(exact=exact, threads=1, prepacked=True)
    options.optimized_model_filepath = str(to)
    for name, value in (
        ("optimized_model_external_initializers_file_name", weights_name),
        ("optimized_model_external_initializers_min_size_in_bytes", str(INLINE_NBYTES)),
        ("save_external_prepacked_constant_initializers", "1"),
    ):
        options.add_session_config_entry(f"session.{name}", value)
    _session(graph, options)


def _session(graph: Path, options: Any) -> Any:
    import onnxruntime

    try:
        return onnxruntime.InferenceSession(
            str(graph), options, providers=_PROVIDERS, disabled_optimizers=list(UNFUSED)
        )
    except Exception as error:  # ONNX Runtime's exceptions have no common public class
        raise LoadFailed(
            f"ONNX Runtime cannot load {graph.name[:12]} on this device: {shortened(error)}; "
            "update it there, or add the model again"
        ) from None


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
    options.enable_cpu_mem_arena = _arena_is_shared()
    options.enable_mem_pattern = False  # it reserves for each shape of input
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if _arena_is_shared():
        options.add_session_config_entry("session.use_env_allocators", "1")
    if not prepacked:
        options.add_session_config_entry("session.disable_prepacking", "1")
    return options


def shortened(error: Exception) -> str:
    """The first line of what ONNX Runtime said, without its source's paths."""
    first = str(error).strip().partition("\n")[0]
    said = re.sub(r"(?:/[\w.+-]+)+/([\w.+-]+\.(?:cc|h):\d+)", r"\1", first)
    return said[:LONGEST_SENTENCE] or type(error).__name__
