"""The models that the `onnx` package ships for testing runtimes, each with an input.

Some 1,900: one for each operator and its variants, small converted networks, and the layouts of
known vision networks with made-up weights. `try_everywhere` cuts one at every possible place
(in random ways where there are very many) and says what became of it.
"""

from __future__ import annotations

import random
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.backend.test.loader import DATA_DIR

from orchestrator.segmentation.checking.verify import (
    Array,
    Value,
    identical,
    open_session,
    run_chain,
    run_session,
    value_of,
)
from orchestrator.segmentation.cutting.constants import roles_of
from orchestrator.segmentation.cutting.live_sets import trunk_of
from orchestrator.segmentation.cutting.randomness import is_random
from orchestrator.segmentation.cutting.trunk_costs import trunk_costs
from orchestrator.segmentation.options import SegmentOptions
from orchestrator.segmentation.reading.normalise import normalise
from orchestrator.segmentation.reading.source import open_model
from orchestrator.segmentation.reading.walk import all_nodes, dataflow
from orchestrator.segmentation.segmenter import segment
from orchestrator.segmentation.typing.runtime_graph import computed
from orchestrator.segmentation.typing.types import infer_types
from orchestrator.segmentation.writing.blob_sink import FolderSink
from wire.elements import Element
from wire.errors import InvalidModel

SMALL_PLACES = 40  # up to here each place is cut alone, beyond it random sets of places are
RANDOM_WAYS = 20
FOLDERS = ("simple", "pytorch-converted", "pytorch-operator")


@dataclass(frozen=True)
class BackendCase:
    """A model and the inputs that its authors test it with; None where a sequence is among them."""

    name: str
    model: onnx.ModelProto
    feeds: dict[str, Array | Value] | None


@dataclass(frozen=True)
class Outcome:
    """What became of a case. `verdict` is `exact`, `refused`, `random`, `unsupported` (ONNX
    Runtime does not run the whole model either) or `different`; `ways` counts ways to cut."""

    verdict: str
    reason: str = ""
    ways: int = 0


def node_cases() -> Iterator[BackendCase]:
    """One for each operator and its variants; making them takes about 10 s."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        made = collect_testcases(None)
    for case in sorted(made, key=lambda one: str(one.name)):
        names = [value.name for value in case.model.graph.input]
        yield BackendCase(case.name, case.model, _feeds(names, case.data_sets[0][0]))


def stored_cases() -> Iterator[BackendCase]:
    """Small networks that are stored as files."""
    for kind in FOLDERS:
        for folder in sorted((Path(DATA_DIR) / kind).glob("test_*")):
            model = onnx.load(folder / "model.onnx")
            names = [value.name for value in model.graph.input]
            files = [folder / "test_data_set_0" / f"input_{at}.pb" for at in range(len(names))]
            arrays = [_stored(path) for path in files if path.exists()]
            yield BackendCase(f"{kind}/{folder.name}", model, _feeds(names, arrays))


def light_cases() -> Iterator[BackendCase]:
    """Known vision networks whose weights are constants that fill in."""
    for path in sorted((Path(DATA_DIR) / "light").glob("*.onnx")):
        model = onnx.load(path)
        weights = {tensor.name for tensor in model.graph.initializer}
        image = next(v for v in model.graph.input if v.name not in weights)
        shape = [dim.dim_value for dim in image.type.tensor_type.shape.dim]
        array = np.random.default_rng(1).random(shape, np.float32)
        yield BackendCase(f"light/{path.stem}", model, {image.name: array})


def _stored(path: Path) -> Any:
    tensor = TensorProto()
    try:
        tensor.ParseFromString(path.read_bytes())
        return numpy_helper.to_array(tensor)
    except Exception:
        return None  # a sequence or an optional: its bytes are no TensorProto


def _feeds(names: Sequence[str], arrays: Sequence[Any]) -> dict[str, Array | Value] | None:
    kinds = np.ndarray | np.generic | TensorProto
    if len(names) < len(arrays) or any(not isinstance(array, kinds) for array in arrays):
        return None
    return {name: _plain(array) for name, array in zip(names, arrays, strict=False)}


def _plain(array: Any) -> Array | Value:
    """Strings as Python objects; scalars as arrays of rank 0; tensors that numpy cannot hold as
    ONNX Runtime's values."""
    if isinstance(array, TensorProto):
        return value_of(array)
    made = np.asarray(array)
    return made.astype(object) if made.dtype.kind in "US" else made


def try_everywhere(case: BackendCase) -> Outcome:
    """Cuts the model at every place it can be cut, and all of them at once."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        path = folder / "model.onnx"
        path.write_bytes(case.model.SerializeToString())
        try:
            ways = ways_to_cut(path)
        except InvalidModel as error:
            return Outcome("refused", str(error))
        if case.feeds is None:
            return Outcome("refused", "an input is a sequence")
        if any(is_random(node) for node in all_nodes(case.model)):
            return Outcome("random")
        return try_ways(path, case.feeds, folder / "blobs", ways)


def try_ways(
    path: Path, feeds: Mapping[str, Array | Value], blobs: Path, ways: Sequence[tuple[str, ...]]
) -> Outcome:
    """Cuts the model at `path` in each of the ways, and compares with the whole, bit for bit;
    the whole with itself, too: what ONNX Runtime keeps from call to call must be refused."""
    try:
        session = open_session(path, exact=True)
        whole = run_session(session, feeds)
    except Exception as error:
        return Outcome("unsupported", f"{type(error).__name__}: {error}")
    if not identical(run_session(session, feeds), whole):
        return Outcome("different", "the whole model's second answer is not its first")
    for after in ways:
        manifest = segment(path, "test", FolderSink(blobs), options=SegmentOptions(cut_after=after))
        if not identical(run_chain(blobs, manifest, feeds, exact=True), whole):
            return Outcome("different", f"cut after {after}", len(ways))
    return Outcome("exact", ways=len(ways))


def ways_to_cut(path: Path, seed: int = 0) -> list[tuple[str, ...]]:
    """Lists of values to cut after: none, each alone, and all; at random where there are many.

    Raises `InvalidModel` as `segment` does.
    """
    names = places_to_cut(path)
    if len(names) <= SMALL_PLACES:
        return list(dict.fromkeys([(), *((name,) for name in names), tuple(names)]))
    rng = random.Random(seed)
    return [
        tuple(sorted(rng.sample(names, rng.randint(1, 12)), key=names.index))
        for _ in range(RANDOM_WAYS)
    ]


def places_to_cut(path: Path) -> list[str]:
    """For each place where the model can be cut, the value made just before it."""
    model = normalise(open_model(path)).model
    flow = dataflow(model.graph)
    types = infer_types(model, flow, SegmentOptions())
    for name in flow.outputs:
        types.kind_of(name)
    found = computed(model, any(v.kind is Element.FLOAT16 for v in types.values.values()))
    if found.model is not model:
        flow = dataflow(found.model.graph)
        types = infer_types(found.model, flow, SegmentOptions())
    roles = roles_of(flow, types)
    trunk = trunk_of(flow, roles)
    places = trunk_costs(flow, roles, types, trunk).places
    return [flow.nodes[trunk[place - 1]].outputs[0] for place in places]
