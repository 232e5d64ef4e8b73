"""Comparing outputs: what counts as equal, as close, and as different."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from orchestrator.segmentation.checking.generated import generate
from orchestrator.segmentation.checking.reference import beyond_tolerance, measure, tolerance
from orchestrator.segmentation.checking.verify import compare, identical, run_chain, run_whole
from orchestrator.segmentation.segmenter import segment
from orchestrator.segmentation.writing.blob_sink import FolderSink
from tests.support.models import MODELS, mlp, row_feeds, save
from wire.manifest import Reference
from wire.record import decode, encode


def of(*numbers: Any, dtype: Any = np.float32) -> dict[str, Any]:
    return {"y": np.array(numbers, dtype)}


@pytest.mark.parametrize(
    ("a", "b", "distance"),
    [
        (of(1.0, 2.0), of(1.0, 2.0), 0.0),
        (of(1.5), of(1.0), 0.5),
        (of(150.0), of(100.0), 0.5),
        (of(0.0), of(0.25), 0.25),
        (of(np.nan, 1.0), of(np.nan, 1.0), 0.0),
        (of(np.inf), of(np.inf), 0.0),
        (of(np.inf), of(-np.inf), np.inf),
        (of(np.nan), of(1.0), np.inf),
        (of(1.0), of(np.nan), np.inf),
        (of(1.0), of(1.0, 2.0), np.inf),
        (of(1.0), of(1.0, dtype=np.float64), np.inf),
        (of(3, dtype=np.int64), of(3, dtype=np.int64), 0.0),
        (of(3, dtype=np.int64), of(4, dtype=np.int64), np.inf),
        (of("a", dtype=object), of("b", dtype=object), np.inf),
        (of(True, dtype=bool), of(False, dtype=bool), np.inf),
        (of(1.5, dtype=ml_dtypes.bfloat16), of(1.0, dtype=ml_dtypes.bfloat16), 0.5),
        (of(1 + 1j, dtype=np.complex64), of(1, dtype=np.complex64), 1.0),
        (of(), of(), 0.0),
        (of(1.0), {"z": np.array([1.0], np.float32)}, np.inf),
    ],
)
def test_distances(a: dict[str, Any], b: dict[str, Any], distance: float) -> None:
    assert compare(a, b) == distance


def test_zeros_of_different_sign_are_close_but_not_identical() -> None:
    assert compare(of(0.0), of(-0.0)) == 0.0
    assert not identical(of(0.0), of(-0.0))
    assert identical(of("a", dtype=object), of("a", dtype=object))


def test_tolerances_follow_the_type_and_the_spread() -> None:
    assert tolerance(np.zeros(1, np.float32), 0.0) == pytest.approx(1e-5, rel=0.01)
    assert tolerance(np.zeros(1, np.float32), 1e-3) == 2e-3
    assert tolerance(np.zeros(1, ml_dtypes.bfloat16), 0.0) > 0.5
    assert tolerance(np.zeros(1, np.int64), 1e-3) == 0.0
    assert beyond_tolerance(of(1.1), of(1.0), 0.0) == ("y",)
    assert beyond_tolerance(of(1.000001), of(1.0), 0.0) == ()


def test_the_reference_is_measured_and_travels(tmp_path: Path) -> None:
    path = save(mlp(), tmp_path / "model.onnx")
    reference = measure(path, [row_feeds(), row_feeds(40)])
    assert 0.0 <= reference.spread < 1e-5
    assert len(set(reference.settings)) == 5
    assert decode(Reference, encode(reference)) == reference


@pytest.mark.parametrize("name", MODELS)
def test_a_model_runs_on_generated_inputs(name: str, tmp_path: Path) -> None:
    path = save(MODELS[name][0](), tmp_path / "model.onnx")
    manifest = segment(path, "test", FolderSink(tmp_path / "blobs"))
    feeds = generate(manifest)
    whole = run_whole(path, feeds, exact=True)
    assert identical(run_chain(tmp_path / "blobs", manifest, feeds, exact=True), whole)
