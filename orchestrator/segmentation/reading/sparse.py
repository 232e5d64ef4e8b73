"""Sparse weights as the dense ones that ONNX Runtime makes of them when it loads a model.

Refuses indices that lie or lead outside, values elsewhere than in the model, and shapes whose
dense form would be larger than is reasonable to make in memory: few bytes can claim many.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from orchestrator.segmentation.reading.tensors import element_of, is_external
from orchestrator.segmentation.reading.walk import all_graphs
from wire.elements import bits_of
from wire.errors import InvalidModel

MAX_DENSE_NBYTES = 256 << 20


def densify(model: onnx.ModelProto) -> None:
    """Replaces the sparse initializers of all graphs. Raises `InvalidModel` with the reason."""
    for graph in all_graphs(model):
        for sparse in graph.sparse_initializer:
            graph.initializer.append(_dense(sparse))
        graph.ClearField("sparse_initializer")


def _dense(sparse: onnx.SparseTensorProto) -> onnx.TensorProto:
    name, dims = sparse.values.name, tuple(sparse.dims)
    if is_external(sparse.values) or is_external(sparse.indices):
        raise _refusal(name, "has values outside of the model file; store it as a dense tensor")
    bits = bits_of(element_of(sparse.values))
    if bits < 8 or any(dim < 0 for dim in dims) or math.prod(dims) * bits // 8 > MAX_DENSE_NBYTES:
        raise _refusal(name, f"of shape {list(dims)} cannot be made dense; store it as such")
    try:
        values = numpy_helper.to_array(sparse.values)
        places = _places(numpy_helper.to_array(sparse.indices), dims)
    except (ValueError, TypeError) as error:
        raise _refusal(name, f"holds no consistent values and indices: {error}") from None
    if values.shape != places.shape:
        raise _refusal(name, f"has {values.size} values, but {places.size} indices")
    made = np.zeros(math.prod(dims), values.dtype)
    made[places] = values
    return numpy_helper.from_array(made.reshape(dims), name)


def _places(indices: NDArray[Any], dims: tuple[int, ...]) -> NDArray[np.int64]:
    """[n] or [n, rank] indices as places in the flat dense tensor, int64 [n]."""
    if indices.dtype != np.int64 or indices.ndim not in (1, 2):
        raise ValueError("indices must be int64 of rank 1 or 2")
    if indices.ndim == 2:
        if indices.shape[1] != len(dims):
            raise ValueError("indices have another rank than the tensor")
        if indices.size and bool(((indices < 0) | (indices >= np.array(dims))).any()):
            raise ValueError("an index lies outside the tensor")
        strides = [math.prod(dims[axis + 1 :]) for axis in range(len(dims))]
        indices = (indices * np.array(strides, np.int64)).sum(axis=1)
    if indices.size and not 0 <= int(indices.min()) <= int(indices.max()) < math.prod(dims):
        raise ValueError("an index lies outside the tensor")
    return indices.astype(np.int64)


def _refusal(name: str, why: str) -> InvalidModel:
    return InvalidModel(f"sparse weight {name!r} {why}")
