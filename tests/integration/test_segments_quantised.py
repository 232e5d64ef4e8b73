"""Models made smaller or rewritten by ONNX Runtime's own tools stay exact wherever they are cut.

Real models of the zoo, quantised as its documentation says (weights alone, with calibrated
activations in both formats, in 16 bits), in float16, and optimised beforehand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import onnx
import onnxruntime
import pytest
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)
from onnxruntime.transformers.float16 import convert_float_to_float16

from orchestrator.segmentation.checking.verify import Feeds
from tests.support.backend_cases import try_ways, ways_to_cut
from tests.support.effort import NIGHTLY
from tests.support.zoo import ZOO

Rewrite = Callable[[Path, Path, Feeds], None]
WAYS = 20 if NIGHTLY else 4


class OneInput(CalibrationDataReader):
    def __init__(self, feeds: Feeds) -> None:
        self._left: Iterator[Feeds] = iter([feeds])

    def get_next(self) -> Feeds | None:
        return next(self._left, None)


def weights_only(source: Path, made: Path, feeds: Feeds) -> None:
    quantize_dynamic(source, made)


def weights_by_channel(source: Path, made: Path, feeds: Feeds) -> None:
    quantize_dynamic(source, made, per_channel=True, weight_type=QuantType.QUInt8)


def calibrated(source: Path, made: Path, feeds: Feeds) -> None:
    quantize_static(source, made, OneInput(feeds), quant_format=QuantFormat.QDQ, per_channel=True)


def calibrated_operators(source: Path, made: Path, feeds: Feeds) -> None:
    quantize_static(source, made, OneInput(feeds), quant_format=QuantFormat.QOperator)


def calibrated_16_bits(source: Path, made: Path, feeds: Feeds) -> None:
    quantize_static(
        source,
        made,
        OneInput(feeds),
        activation_type=QuantType.QUInt16,
        extra_options={"UseQDQContribOps": True},
    )


def halved(source: Path, made: Path, feeds: Feeds) -> None:
    onnx.save(convert_float_to_float16(onnx.load(source), keep_io_types=True), made)


def optimised(source: Path, made: Path, feeds: Feeds) -> None:
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(made)
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    onnxruntime.InferenceSession(str(source), options)


REWRITES: tuple[Rewrite, ...] = (
    weights_only,
    weights_by_channel,
    calibrated,
    calibrated_operators,
    calibrated_16_bits,
    halved,
    optimised,
)
MODELS = ("file-types.onnx", *(("turner.onnx", "paraphrases.onnx") if NIGHTLY else ()))


def operators(path: Path) -> Counter[tuple[str, int]]:
    """What is computed, and the element types of weights: a rewrite changes one of them."""
    graph = onnx.load(path).graph
    kinds = Counter((node.op_type, 0) for node in graph.node)
    return kinds + Counter(("weight", tensor.data_type) for tensor in graph.initializer)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("rewrite", REWRITES, ids=lambda one: one.__name__)
@pytest.mark.parametrize("name", MODELS)
def test_what_onnx_runtimes_tools_make_of_a_model_stays_exact(
    name: str, rewrite: Rewrite, tmp_path: Path
) -> None:
    source, feeds = ZOO[name].make(tmp_path), ZOO[name].feeds()
    made = tmp_path / "made.onnx"
    rewrite(source, made, feeds)
    assert operators(made) != operators(source), "the tool found nothing to do"
    ways = ways_to_cut(made)[:WAYS]
    outcome = try_ways(made, feeds, tmp_path / "blobs", ways)
    assert (outcome.verdict, outcome.reason) == ("exact", "")
    assert outcome.ways == WAYS
