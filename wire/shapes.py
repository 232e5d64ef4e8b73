"""Whether a tensor has the shape that a model takes, and if not, why: said alike on both sides.

A client checks before anything is sent, the orchestrator checks what comes from any client.
"""

from __future__ import annotations

from collections.abc import Mapping

from wire.manifest import TensorSpec

Sizes = dict[str, tuple[int, str]]  # by symbol: its size so far, and the tensor that fixed it


def shape_fault(
    spec: TensorSpec, shape: tuple[int, ...], bounds: Mapping[str, int], sizes: Sizes
) -> str | None:
    """What is wrong with `shape`, if anything. `bounds` by symbol; `sizes` fills with each tensor
    of an item, as a symbol has one size in all of them."""
    if not spec.rank_known:
        return None
    if len(shape) != len(spec.dims):
        return _sentence(spec, shape, f"{len(spec.dims)} dimensions are needed, not {len(shape)}")
    for dim, size in zip(spec.dims, shape, strict=True):
        fault = _dim_fault(dim, size, spec.name, bounds, sizes)
        if fault is not None:
            return _sentence(spec, shape, fault)
    return None


def _dim_fault(
    dim: str, size: int, where: str, bounds: Mapping[str, int], sizes: Sizes
) -> str | None:
    if dim.isdecimal():
        return None if size == int(dim) else f"{size} is given where {dim} is needed"
    if size > bounds.get(dim, size):
        return (
            f"'{dim}' may be at most {bounds[dim]}; "
            f"add the model again with --max-shape {dim}={size} to allow more"
        )
    known, first = sizes.setdefault(dim, (size, where))
    return None if known == size else f"'{dim}' is {known} in '{first}' and {size} here"


def _sentence(spec: TensorSpec, shape: tuple[int, ...], why: str) -> str:
    return (
        f"input '{spec.name}' has shape {list(shape)}; "
        f"the model takes [{', '.join(spec.dims)}]: {why}"
    )
