"""Segments in a chain give the whole model's outputs, bit for bit, wherever they are cut."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.segmentation.checking.verify import Feeds, identical, run_chain, run_whole
from orchestrator.segmentation.cutting.constants import roles_of
from orchestrator.segmentation.cutting.live_sets import trunk_of
from orchestrator.segmentation.options import SegmentOptions
from orchestrator.segmentation.reading.normalise import normalise
from orchestrator.segmentation.reading.source import open_model
from orchestrator.segmentation.reading.walk import dataflow
from orchestrator.segmentation.segmenter import segment
from orchestrator.segmentation.typing.types import infer_types
from orchestrator.segmentation.writing.blob_sink import FolderSink
from tests.support.models import MODELS, save
from tests.support.random_models import pair_feeds, random_models
from wire.manifest import Manifest


def cuttable(path: Path) -> list[str]:
    """The first output of each node that is computed once, but the last."""
    model = normalise(open_model(path)).model
    flow = dataflow(model.graph)
    roles = roles_of(flow, infer_types(model, flow, SegmentOptions()))
    return [flow.nodes[index].outputs[0] for index in trunk_of(flow, roles)][:-1]


def cut(path: Path, folder: Path, after: tuple[str, ...] | None) -> Manifest:
    return segment(path, "test", FolderSink(folder), options=SegmentOptions(cut_after=after))


def check_every_cut(path: Path, folder: Path, feeds: Feeds) -> None:
    whole = run_whole(path, feeds, exact=True)
    names = cuttable(path)
    for after in [(), *((name,) for name in names), tuple(names)]:
        manifest = cut(path, folder, after)
        assert len(manifest.segments) == len(after) + 1
        assert identical(run_chain(folder, manifest, feeds, exact=True), whole), after


@pytest.mark.parametrize("name", MODELS)
def test_every_cut_of_a_known_model_changes_no_bit(name: str, tmp_path: Path) -> None:
    make, feeds = MODELS[name]
    path = save(make(), tmp_path / "model.onnx")
    assert len(cuttable(path)) >= 2
    check_every_cut(path, tmp_path / "blobs", feeds())


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(model=random_models(), rows=st.sampled_from([0, 1, 4]))
def test_every_cut_of_a_random_model_changes_no_bit(model: onnx.ModelProto, rows: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = save(model, Path(folder) / "model.onnx")
        check_every_cut(path, Path(folder) / "blobs", pair_feeds(rows))


@pytest.mark.parametrize("name", MODELS)
def test_cutting_twice_gives_the_same_manifest(name: str, tmp_path: Path) -> None:
    make: Callable[[], onnx.ModelProto] = MODELS[name][0]
    path = save(make(), tmp_path / "model.onnx")
    after = tuple(cuttable(path))
    first = cut(path, tmp_path / "a", after)
    assert first == cut(path, tmp_path / "b", after)
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == sorted(
        blob.digest for blob in first.blobs
    )


@pytest.mark.parametrize("name", MODELS)
def test_fast_mode_stays_within_a_hundred_thousandth(name: str, tmp_path: Path) -> None:
    from orchestrator.segmentation.checking.verify import compare

    make, feeds = MODELS[name]
    path = save(make(), tmp_path / "model.onnx")
    manifest = cut(path, tmp_path / "blobs", tuple(cuttable(path)))
    whole = run_whole(path, feeds(), exact=False)
    assert compare(run_chain(tmp_path / "blobs", manifest, feeds(), exact=False), whole) <= 1e-5
