"""Runs segments in a chain, and the whole model, and says how far apart their outputs are.

Works on ONNX Runtime's own values, so every tensor type passes, also those that numpy does not
have. *Exact* switches graph optimisation off on both sides: then outputs are equal bit for bit.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

from wire.elements import Element
from wire.manifest import Manifest

Array = NDArray[Any]
Feeds = Mapping[str, Any]  # arrays, or ONNX Runtime's own values
Outputs = dict[str, Array]
Value: TypeAlias = Any  # onnxruntime.OrtValue, which has no type stubs

# Types that numpy lacks: how their bytes read. Packed int4 and its kin stay bytes.
_EXTENDED: dict[int, Any] = {
    Element.BFLOAT16: ml_dtypes.bfloat16,
    Element.FLOAT8E4M3FN: ml_dtypes.float8_e4m3fn,
    Element.FLOAT8E4M3FNUZ: ml_dtypes.float8_e4m3fnuz,
    Element.FLOAT8E5M2: ml_dtypes.float8_e5m2,
    Element.FLOAT8E5M2FNUZ: ml_dtypes.float8_e5m2fnuz,
    Element.FLOAT8E8M0: ml_dtypes.float8_e8m0fnu,
}
_PACKED = frozenset({Element.INT4, Element.UINT4, Element.INT2, Element.UINT2, Element.FLOAT4E2M1})
_PACKED_DTYPES = frozenset(
    {
        np.dtype(ml_dtypes.int4),
        np.dtype(ml_dtypes.uint4),
        np.dtype(ml_dtypes.int2),
        np.dtype(ml_dtypes.uint2),
        np.dtype(ml_dtypes.float4_e2m1fn),
    }
)
_BY_DTYPE = {np.dtype(dtype): int(kind) for kind, dtype in _EXTENDED.items()}


def run_chain(folder: Path, manifest: Manifest, feeds: Feeds, exact: bool) -> Outputs:
    """The model's outputs by name, computed segment by segment from the blobs in `folder`."""
    return run_chains(folder, manifest, [feeds], exact)[0]


def run_chains(
    folder: Path,
    manifest: Manifest,
    items: Sequence[Feeds],
    exact: bool,
    settings: RuntimeSettings | None = None,
) -> list[Outputs]:
    """As `run_chain` for several items; each segment is loaded once. `settings` go before
    `exact`."""
    live = [{name: to_value(array) for name, array in feeds.items()} for feeds in items]
    for segment, cut in zip(manifest.segments, manifest.cuts[1:], strict=True):
        session = open_session(folder / segment.graph.digest, exact, settings)
        for values in live:
            given = {name: values[name] for name in segment.inputs}
            made = session.run_with_ort_values(list(segment.outputs), given)
            values.update(zip(segment.outputs, made, strict=True))
            for name in values.keys() - set(cut.names):
                del values[name]
    names = [tensor.name for tensor in manifest.outputs]
    return [{name: to_array(values[name]) for name in names} for values in live]


def run_whole(
    path: Path, feeds: Feeds, exact: bool, settings: RuntimeSettings | None = None
) -> Outputs:
    """The outputs by name of the author's file in one session."""
    return run_session(open_session(path, exact, settings), feeds)


def run_session(session: onnxruntime.InferenceSession, feeds: Feeds) -> Outputs:
    """All outputs by name of a session on one item."""
    names = [output.name for output in session.get_outputs()]
    given = {name: to_value(array) for name, array in feeds.items()}
    made = session.run_with_ort_values(names, given)
    return {name: to_array(value) for name, value in zip(names, made, strict=True)}


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    """How ONNX Runtime is to compute: what changes the last bits of its results."""

    optimise: bool = True
    threads: int = 1
    prepack: bool = True

    def __str__(self) -> str:
        words = (
            "optimised" if self.optimise else "as written",
            f"{self.threads} threads",
            "packed" if self.prepack else "unpacked",
        )
        return ", ".join(words)


def open_session(
    path: Path, exact: bool, settings: RuntimeSettings | None = None
) -> onnxruntime.InferenceSession:
    """A session as devices open them (one thread, no spinning), or as `settings` say."""
    wanted = settings or RuntimeSettings(optimise=not exact)
    level = onnxruntime.GraphOptimizationLevel
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = (
        level.ORT_ENABLE_ALL if wanted.optimise else level.ORT_DISABLE_ALL
    )
    options.intra_op_num_threads = wanted.threads
    options.log_severity_level = 4  # what goes wrong is raised, and told by whoever catches it
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.disable_prepacking", "0" if wanted.prepack else "1")
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def dtype_of(kind: Element) -> np.dtype[Any]:
    """The numpy type of an element type that has whole bytes and a fixed size."""
    return np.dtype(_EXTENDED.get(kind) or onnx.helper.tensor_dtype_to_np_dtype(kind))


def to_value(array: Any) -> Value:
    """ONNX Runtime's value of an array of any tensor type; one of its own stays what it is."""
    if isinstance(array, onnxruntime.OrtValue):
        return array
    if array.dtype == object or array.dtype in _PACKED_DTYPES:
        return value_of(onnx.numpy_helper.from_array(array))
    kind = _BY_DTYPE.get(array.dtype)
    if kind is None:
        return onnxruntime.OrtValue.ortvalue_from_numpy(array)
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(array, kind)


def value_of(tensor: onnx.TensorProto) -> Value:
    """ONNX Runtime's value of a tensor that numpy cannot hand over (strings, packed types): a
    model that holds it, and does nothing else, gives it."""
    held = onnx.TensorProto()
    held.CopyFrom(tensor)
    held.name = "held"
    output = onnx.helper.make_tensor_value_info("held", tensor.data_type, list(tensor.dims))
    graph = onnx.helper.make_graph([], "held", [], [output], [held])
    opsets = [onnx.helper.make_opsetid("", 17)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run_with_ort_values(["held"], {})[0]


def to_array(value: Value) -> Array:
    """A copy of a tensor's content. Packed types give their bytes, uint8 [nbytes]."""
    kind = value.element_type()
    if kind not in _EXTENDED and kind not in _PACKED:
        return np.array(value.numpy())
    raw = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    if kind in _PACKED:
        return np.frombuffer(raw, np.uint8).copy()
    return np.frombuffer(raw, _EXTENDED[kind]).reshape(value.shape()).copy()


def compare(a: Outputs, b: Outputs) -> float:
    """The worst |a - b| / max(1, max|b|) over all outputs; 0.0 means equal.

    Infinite where names, types, shapes, integers, booleans or strings differ, or where NaN or
    infinities are not in the same places.
    """
    if a.keys() != b.keys():
        return np.inf
    return max((_distance(a[name], b[name]) for name in b), default=0.0)


def _distance(a: Array, b: Array) -> float:
    if a.shape != b.shape or a.dtype != b.dtype:
        return np.inf
    if not is_inexact(a):
        return 0.0 if np.array_equal(a, b) else np.inf
    wide = np.complex128 if np.iscomplexobj(a) else np.float64
    x, y = a.astype(wide), b.astype(wide)
    finite = np.isfinite(y)
    same = np.array_equal(x[~finite], y[~finite], equal_nan=True)
    if not same or not np.array_equal(np.isfinite(x), finite):
        return np.inf
    if not finite.any():
        return 0.0
    worst = float(np.max(np.abs(x[finite] - y[finite])))
    return worst / max(1.0, float(np.max(np.abs(y[finite]))))


def is_inexact(array: Array) -> bool:
    """Whether an array is of floating point, real or complex, of any width."""
    return array.dtype.kind in "fc" or array.dtype in _BY_DTYPE


def identical(a: Outputs, b: Outputs) -> bool:
    """Whether all outputs are equal bit for bit, signs of zero and payloads of NaN included."""
    return a.keys() == b.keys() and all(
        a[name].dtype == b[name].dtype
        and a[name].shape == b[name].shape
        and (
            a[name].tolist() == b[name].tolist()
            if a[name].dtype == object
            else a[name].tobytes() == b[name].tobytes()
        )
        for name in b
    )


def differing(a: Outputs, b: Outputs) -> tuple[str, ...]:
    """The outputs that are not equal bit for bit."""
    return tuple(name for name in b if not identical({name: a[name]}, {name: b[name]}))
