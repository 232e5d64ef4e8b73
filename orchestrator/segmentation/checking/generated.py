"""Inputs made up for a model when nobody gives real ones.

`generate` makes one array for each input; `accepted` tries sizes and kinds of numbers until the
whole model takes them. That the numbers mean something is not promised: floats are noise, token
ids are any row of their table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import ml_dtypes
import numpy as np
import onnxruntime

from orchestrator.segmentation.checking.input_ranges import InputRange
from orchestrator.segmentation.checking.input_sizes import UNRELATED, candidate_sizes
from orchestrator.segmentation.checking.untaken import nothing_taken
from orchestrator.segmentation.checking.verify import Array, dtype_of, run_session
from orchestrator.segmentation.typing.relations import Relations
from wire.elements import Element
from wire.manifest import Manifest, TensorSpec, size_of

DEFAULT_SIZE = 8  # of a dimension that is free, unless its bound is less
MAX_REFUSALS = 120  # of made-up items, before the search for more ends
Style = Literal["varied", "ones", "zeros"]
STYLES: tuple[Style, ...] = ("varied", "ones", "zeros")


@dataclass(frozen=True, slots=True)
class FillPlan:
    """How to fill the inputs: integers anywhere in their ranges, or all ones, or all zeros."""

    ranges: Mapping[str, InputRange]
    style: Style


def generate(
    manifest: Manifest,
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
    plan: FillPlan | None = None,
) -> dict[str, Array]:
    """An array for each input: normal floats; integers and booleans by `plan` (without one: ones,
    which are valid as ids and masks); the string "a". `sizes` sets symbolic dimensions; the
    others are small."""
    rng = np.random.default_rng(seed)
    symbols = {name: min(bound, DEFAULT_SIZE) for name, bound in manifest.symbols.items()}
    symbols.update(sizes or {})
    chosen = plan or FillPlan({}, "ones")
    return {spec.name: _array(spec, symbols, rng, chosen) for spec in manifest.inputs}


def _array(
    spec: TensorSpec, symbols: Mapping[str, int], rng: np.random.Generator, plan: FillPlan
) -> Array:
    shape = tuple(size_of(dim, dict(symbols)) for dim in spec.dims)
    if spec.kind is Element.STRING:
        return np.full(shape, "a", object)
    dtype = dtype_of(spec.kind)
    if "int" in dtype.name or dtype == np.bool_:
        return _integers(spec, shape, rng, plan).astype(dtype)
    made = np.asarray(rng.normal(size=shape))
    if spec.kind is Element.FLOAT8E8M0:
        made = np.exp2(np.round(made))  # powers of two are all that it has
    return np.asarray(made.astype(dtype))


def _integers(
    spec: TensorSpec, shape: tuple[int, ...], rng: np.random.Generator, plan: FillPlan
) -> Array:
    known = plan.ranges.get(spec.name, InputRange())
    if plan.style != "varied":
        return np.full(shape, 1 if plan.style == "ones" else 0)
    if known.choices:
        return np.asarray(rng.choice(known.choices, shape))
    if known.below is not None:
        return np.asarray(rng.integers(0, min(known.below, _limit(spec.kind)), shape))
    if "mask" in spec.name.lower():
        return _mask(shape)
    return np.asarray(rng.integers(0, 2, shape))


def _limit(kind: Element) -> int:
    """The first whole number that an integer type cannot hold."""
    dtype = dtype_of(kind)
    iinfo: Any = ml_dtypes.iinfo  # knows numpy's types and its own
    return 2 if dtype == np.bool_ else int(iinfo(dtype).max) + 1


def _mask(shape: tuple[int, ...]) -> Array:
    """Ones, and zeros where padding would be: the last quarter of the last axis."""
    made = np.ones(shape, np.int64)
    if shape and shape[-1] >= 4:
        made[..., -(shape[-1] // 4) :] = 0
    return made


def accepted(
    session: onnxruntime.InferenceSession,
    manifest: Manifest,
    ranges: Mapping[str, InputRange],
    wanted: int,
    relations: Relations = UNRELATED,
) -> list[dict[str, Array]]:
    """Up to `wanted` items that `session` (the whole model) takes: of different shapes where
    dimensions are open (by `relations` where some follow from others), else of different numbers.

    Raises `InvalidInput` with what ONNX Runtime said if it takes none.
    """
    found: list[dict[str, Array]] = []
    why: list[Exception] = []
    for alternatives in _candidates(manifest, ranges, wanted, relations):
        if len(found) == wanted or (len(why) >= MAX_REFUSALS):
            break
        feeds = _first_taken(session, alternatives, why)
        if feeds is not None and not any(_same(feeds, other) for other in found):
            found.append(feeds)
    if not found:
        raise nothing_taken(manifest, why[0])
    return found


def _candidates(
    manifest: Manifest, ranges: Mapping[str, InputRange], wanted: int, relations: Relations
) -> Iterator[list[dict[str, Array]]]:
    """Alternatives for one item after the other, the best first: a list for each choice of sizes,
    and then the same with other numbers."""
    sizes = list(candidate_sizes(manifest, relations))
    for seed in range(wanted):
        for some in sizes:
            yield [generate(manifest, some, seed, FillPlan(ranges, style)) for style in STYLES]


def _first_taken(
    session: onnxruntime.InferenceSession,
    alternatives: list[dict[str, Array]],
    why: list[Exception],
) -> dict[str, Array] | None:
    """The first that `session` runs on; what it said of the others goes to `why`."""
    for feeds in alternatives:
        try:
            run_session(session, feeds)
        except Exception as error:
            # ONNX Runtime raises classes of its own, without a common base. Whatever it is, the
            # model does not take this item; the reason is told if it takes none.
            why.append(error)
            continue
        return feeds
    return None


def _same(a: Mapping[str, Array], b: Mapping[str, Array]) -> bool:
    return all(a[n].shape == b[n].shape and a[n].tobytes() == b[n].tobytes() for n in a)
