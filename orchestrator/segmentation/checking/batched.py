"""Whether items of a model may be computed together, their tensors joined along the first axis.

Two things must hold. By their types, every tensor that crosses a cut has the inputs' first symbol
as its first dimension and nowhere else, and no operator is one that looks at a whole tensor to
make each row of it. And run together, items give at each cut what they give alone, within the
limit of fast mode. Partitions between two cuts that pass are then what the whole chain was: an
input that is joined from items is the one that was compared. What is tried are items of different
content, so that a row that leaks into another shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from orchestrator.segmentation.checking.items import made_up_alike
from orchestrator.segmentation.checking.reference import beyond_tolerance
from orchestrator.segmentation.checking.verify import (
    Array,
    Feeds,
    Outputs,
    RuntimeSettings,
    compare,
    open_session,
    to_array,
    to_value,
)
from orchestrator.segmentation.cutting.randomness import RANDOM
from orchestrator.segmentation.options import SegmentOptions
from orchestrator.segmentation.reading.complaints import telling_part
from wire.elements import Element, bits_of
from wire.manifest import Batching, CutSpec, Manifest, TensorSpec

ROWS = 3  # items that are tried together, if the bound admits them
WHOLE_TENSOR = RANDOM | {
    "Compress",
    "DynamicQuantizeLinear",
    "DynamicQuantizeLSTM",
    "DynamicQuantizeMatMul",
    "If",
    "Loop",
    "MoE",
    "NonMaxSuppression",
    "NonZero",
    "QMoE",
    "Scan",
    "Unique",
}
"""Operators whose rows depend on other rows by the values in them, which no shape tells and which
inputs that are made up may not show: one scale for all, one condition, one number of steps."""


class Unbatchable(Exception):
    """Why items are computed alone."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What is needed to run a model's segments on items. `given`: real items, if there are."""

    path: Path
    folder: Path
    manifest: Manifest
    options: SegmentOptions
    settings: RuntimeSettings
    given: Sequence[Feeds] = ()


def batching_of(trial: Trial, spread: float) -> Batching:
    """What a comparison finds. `spread`: ONNX Runtime's own, which the limit follows from."""
    try:
        symbol = batch_symbol(trial.manifest)
        cuts = [cut.index for cut in trial.manifest.cuts if _is_clean(cut, symbol, trial.manifest)]
        return _compared(trial, symbol, frozenset(cuts), spread)
    except Unbatchable as refusal:
        return Batching(refused=str(refusal))


# --- by their types -------------------------------------------------------------------------------


def batch_symbol(manifest: Manifest) -> str:
    """The name of the first dimension, which items are joined along. Raises `Unbatchable`."""
    operators = {name.rpartition(":")[2] for each in manifest.segments for name in each.operators}
    if operators & WHOLE_TENSOR:
        listed = ", ".join(sorted(operators & WHOLE_TENSOR))
        raise Unbatchable(f"rows may depend on each other in {listed}")
    firsts = [spec.dims[0] for spec in manifest.inputs if spec.dims]
    symbol = next((dim for dim in firsts if not dim.isdecimal()), None)
    if symbol is None:
        raise Unbatchable("no input has a first dimension of open size")
    for spec in (*manifest.inputs, *manifest.outputs):
        if symbol in spec.dims and not _has_rows(spec, symbol):
            raise Unbatchable(f"{symbol!r} is not the first dimension alone of {spec.name!r}")
    if not all(_has_rows(spec, symbol) for spec in manifest.outputs):
        raise Unbatchable(f"not every output has {symbol!r} as its first dimension")
    if manifest.symbols[symbol] < 2:
        raise Unbatchable(
            f"{symbol!r} has a bound of 1; add the model with --max-shape {symbol}=8, or so"
        )
    return symbol


def _has_rows(spec: TensorSpec, symbol: str) -> bool:
    whole_bytes = spec.kind is not Element.STRING and bits_of(spec.kind) % 8 == 0
    first = spec.rank_known and spec.dims[:1] == (symbol,)
    return whole_bytes and first and symbol not in spec.dims[1:]


def _is_clean(cut: CutSpec, symbol: str, manifest: Manifest) -> bool:
    """What else crosses may only be an input of the model: of what was computed without the axis,
    nobody knows from how many rows it was."""
    inputs = {spec.name for spec in manifest.inputs}
    return all(
        _has_rows(spec, symbol) or (spec.name in inputs and symbol not in spec.dims)
        for spec in cut.tensors
    )


# --- by running them ------------------------------------------------------------------------------


def _compared(trial: Trial, symbol: str, cuts: frozenset[int], spread: float) -> Batching:
    chain = _Chain(trial, symbol, _rows(trial, symbol))
    good = [0] if 0 in cuts else []
    difference = 0.0
    for index in range(len(trial.manifest.segments)):
        chain.advance()
        if index + 1 not in cuts:
            continue
        pairs = chain.pairs()
        if not any(beyond_tolerance(a, b, spread) for a, b in pairs):
            good.append(index + 1)
            difference = max(compare(a, b) for a, b in pairs)
    return _verdict(trial.manifest, symbol, tuple(good), difference)


def _verdict(manifest: Manifest, symbol: str, good: tuple[int, ...], difference: float) -> Batching:
    """What comes out must be right: whoever mixes rows on the way may be found there only."""
    if len(manifest.segments) not in good:
        raise Unbatchable("together, items gave other outputs than alone")
    return Batching(symbol, good, difference)


def _rows(trial: Trial, symbol: str) -> list[dict[str, Array]]:
    """Items that may be joined: real ones where two are alike, or made up."""
    wanted = min(ROWS, trial.manifest.symbols[symbol])
    carrying = _carrying(trial.manifest, symbol)
    found = _alike(trial.given, carrying, trial.manifest.symbols[symbol])[:wanted]
    if len(found) < 2:
        sizes = {symbol: 1}
        found = made_up_alike(trial.path, trial.manifest, trial.options, sizes, wanted)
    if len(found) < 2:
        raise Unbatchable("no two items of one size could be made up to be compared")
    return [found[0], *({**each, **_others(found[0], carrying)} for each in found[1:])]


def _carrying(manifest: Manifest, symbol: str) -> frozenset[str]:
    return frozenset(spec.name for spec in manifest.inputs if symbol in spec.dims)


def _others(feeds: Mapping[str, Array], carrying: frozenset[str]) -> dict[str, Array]:
    return {name: array for name, array in feeds.items() if name not in carrying}


def _alike(items: Sequence[Feeds], carrying: frozenset[str], most: int) -> list[dict[str, Array]]:
    """Those of one row each that are shaped as the first of them."""
    arrays = [
        {name: value if isinstance(value, np.ndarray) else to_array(value) for name, value in each}
        for each in (feeds.items() for feeds in items)
    ]
    single = [each for each in arrays if all(each[name].shape[:1] == (1,) for name in carrying)]
    return [each for each in single if _shapes(each) == _shapes(single[0])][:most]


def _shapes(feeds: Mapping[str, Array]) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in feeds.items()}


class _Chain:
    """The segments one after the other, on each item alone and on all of them together."""

    def __init__(self, trial: Trial, symbol: str, rows: Sequence[Mapping[str, Array]]) -> None:
        self._trial = trial
        self._symbol = symbol
        self._at = 0
        self._alone = [{name: to_value(array) for name, array in each.items()} for each in rows]
        carrying = _carrying(trial.manifest, symbol)
        joined = {name: np.concatenate([each[name] for each in rows]) for name in carrying}
        together = {**rows[0], **joined}
        self._together = {name: to_value(array) for name, array in together.items()}

    def advance(self) -> None:
        """Past the next segment."""
        segment = self._trial.manifest.segments[self._at]
        self._at += 1
        names = set(self._trial.manifest.cuts[self._at].names)
        path = self._trial.folder / segment.graph.digest
        session = open_session(path, exact=False, settings=self._trial.settings)
        for values in (*self._alone, self._together):
            given = {name: values[name] for name in segment.inputs}
            try:
                made = session.run_with_ort_values(list(segment.outputs), given)
            except Exception as error:  # ONNX Runtime raises classes of its own
                raise Unbatchable(f"together, items fail: {telling_part(error)}") from None
            values.update(zip(segment.outputs, made, strict=True))
            for name in values.keys() - names:
                del values[name]

    def pairs(self) -> list[tuple[Outputs, Outputs]]:
        """Of each item what it is together with the others, and alone, at this cut."""
        specs = self._trial.manifest.cuts[self._at].tensors
        names = [spec.name for spec in specs if self._symbol in spec.dims]
        alone = [{name: to_array(values[name]) for name in names} for values in self._alone]
        together = {name: to_array(self._together[name]) for name in names}
        return [
            ({name: _part(together[name], at, len(alone)) for name in names}, each)
            for at, each in enumerate(alone)
        ]


def _part(together: Array, at: int, of: int) -> Array:
    """One item's share; all of it where it is no multiple of items, which then compares unequal."""
    count, left = divmod(together.shape[0], of)
    return together if left else together[at * count : (at + 1) * count]
