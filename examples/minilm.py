"""Builds MiniLM-L6, a real sentence encoder of 22.7 million parameters, as an ONNX file.

    python -m examples.minilm OUT.onnx

Takes the published weights (Apache-2.0) from `examples.download` and writes the graph node by
node: no training framework is needed. Inputs `input_ids` and `attention_mask`, int64
[batch, sequence]; output `embedding`, float32 [batch, 384], the mean of the last layer over the
attended tokens, scaled to length 1, so that a dot product of two sentences is their cosine.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from examples.download import default_cache, minilm_folder
from examples.graph_builder import GraphBuilder

OPSET = 17
MASKED_SCORE = -10000.0  # what BERT adds to the score of a token that must not be seen
SMALLEST_LENGTH = 1e-12  # keeps the scaling of an all-zero embedding finite


@dataclass(frozen=True, slots=True)
class EncoderConfig:
    """What config.json says, in this module's words."""

    width: int
    heads: int
    layers: int
    epsilon: float

    @property
    def head_width(self) -> int:
        return self.width // self.heads


def read_config(path: Path) -> EncoderConfig:
    plain = json.loads(path.read_text(encoding="utf-8"))
    return EncoderConfig(
        width=plain["hidden_size"],
        heads=plain["num_attention_heads"],
        layers=plain["num_hidden_layers"],
        epsilon=plain["layer_norm_eps"],
    )


class EncoderGraph:
    """Writes the encoder's parts into one graph; each method adds a part and names its output."""

    def __init__(self, config: EncoderConfig, weights: Any) -> None:
        self._config = config
        self._weights = weights
        self._graph = GraphBuilder()

    def build(self) -> onnx.ModelProto:
        self._shared_constants()
        hidden = self._embeddings()
        mask, bias = self._attention_bias()
        for index in range(self._config.layers):
            hidden = self._layer(hidden, bias, index)
        self._normalise(self._mean(hidden, mask))
        tokens = ["batch", "sequence"]
        inputs = [
            helper.make_tensor_value_info(name, TensorProto.INT64, tokens)
            for name in ("input_ids", "attention_mask")
        ]
        width = self._config.width
        output = helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["batch", width])
        return self._graph.model("minilm-l6", inputs, [output], OPSET)

    def _tensor(self, name: str) -> NDArray[np.float32]:
        return np.asarray(self._weights.get_tensor(name), np.float32)

    def _shared_constants(self) -> None:
        config, graph = self._config, self._graph
        graph.ints("axis.first", 0)
        graph.ints("axis.tokens", 1)
        graph.ints("shape.heads", 0, 0, config.heads, config.head_width)
        graph.ints("shape.hidden", 0, 0, config.width)
        graph.scalar("one", 1.0)
        graph.scalar("half", 0.5)
        graph.scalar("sqrt.two", math.sqrt(2.0))
        graph.scalar("score.scale", 1.0 / math.sqrt(config.head_width))

    def _linear(self, value: str, source: str, name: str) -> str:
        """x @ W + b; the published weight is [out, in], ONNX's MatMul wants [in, out]."""
        graph = self._graph
        weight = graph.weight(f"{name}.weight", self._tensor(f"{source}.weight").T)
        bias = graph.weight(f"{name}.bias", self._tensor(f"{source}.bias"))
        product = graph.node("MatMul", [value, weight], f"{name}.matmul")
        return graph.node("Add", [product, bias], name)

    def _layer_norm(self, value: str, source: str, name: str) -> str:
        graph = self._graph
        scale = graph.weight(f"{name}.scale", self._tensor(f"{source}.weight"))
        bias = graph.weight(f"{name}.bias", self._tensor(f"{source}.bias"))
        inputs = [value, scale, bias]
        return graph.node("LayerNormalization", inputs, name, axis=-1, epsilon=self._config.epsilon)

    def _embeddings(self) -> str:
        graph, tensor = self._graph, self._tensor
        words = graph.weight("words", tensor("embeddings.word_embeddings.weight"))
        places = graph.weight("places", tensor("embeddings.position_embeddings.weight"))
        kind = graph.weight("kind", tensor("embeddings.token_type_embeddings.weight")[0])
        word = graph.node("Gather", [words, "input_ids"], "embed.word")
        shape = graph.node("Shape", ["input_ids"], "embed.shape")
        length = graph.node("Gather", [shape, "axis.tokens"], "embed.length", axis=0)
        place = graph.node("Slice", [places, "axis.first", length], "embed.place")
        placed = graph.node("Add", [word, place], "embed.placed")
        summed = graph.node("Add", [placed, kind], "embed.sum")
        return self._layer_norm(summed, "embeddings.LayerNorm", "embed.norm")

    def _attention_bias(self) -> tuple[str, str]:
        """The mask as float32 [batch, sequence], and what it adds to scores [batch, 1, 1, s]."""
        graph = self._graph
        graph.scalar("masked.score", MASKED_SCORE)
        graph.ints("axes.heads", 1, 2)
        mask = graph.node("Cast", ["attention_mask"], "mask", to=TensorProto.FLOAT)
        hidden = graph.node("Sub", ["one", mask], "mask.hidden")
        scores = graph.node("Mul", [hidden, "masked.score"], "mask.scores")
        return mask, graph.node("Unsqueeze", [scores, "axes.heads"], "mask.bias")

    def _layer(self, hidden: str, bias: str, index: int) -> str:
        name, source = f"layer{index}", f"encoder.layer.{index}"
        context = self._attention(hidden, bias, source, name)
        attended = self._linear(context, f"{source}.attention.output.dense", f"{name}.attended")
        added = self._graph.node("Add", [attended, hidden], f"{name}.attended.sum")
        middle = self._layer_norm(
            added, f"{source}.attention.output.LayerNorm", f"{name}.attended.norm"
        )
        wide = self._gelu(self._linear(middle, f"{source}.intermediate.dense", f"{name}.wide"))
        narrow = self._linear(wide, f"{source}.output.dense", f"{name}.narrow")
        summed = self._graph.node("Add", [narrow, middle], f"{name}.sum")
        return self._layer_norm(summed, f"{source}.output.LayerNorm", f"{name}.norm")

    def _attention(self, hidden: str, bias: str, source: str, name: str) -> str:
        graph = self._graph
        query = self._heads(hidden, f"{source}.attention.self.query", f"{name}.query", [0, 2, 1, 3])
        key = self._heads(hidden, f"{source}.attention.self.key", f"{name}.key", [0, 2, 3, 1])
        value = self._heads(hidden, f"{source}.attention.self.value", f"{name}.value", [0, 2, 1, 3])
        scores = graph.node("MatMul", [query, key], f"{name}.scores")
        scaled = graph.node("Mul", [scores, "score.scale"], f"{name}.scores.scaled")
        masked = graph.node("Add", [scaled, bias], f"{name}.scores.masked")
        weights = graph.node("Softmax", [masked], f"{name}.attention", axis=-1)
        context = graph.node("MatMul", [weights, value], f"{name}.context")
        turned = graph.node("Transpose", [context], f"{name}.context.turned", perm=[0, 2, 1, 3])
        return graph.node("Reshape", [turned, "shape.hidden"], f"{name}.context.joined")

    def _heads(self, hidden: str, source: str, name: str, perm: list[int]) -> str:
        graph = self._graph
        flat = self._linear(hidden, source, name)
        split = graph.node("Reshape", [flat, "shape.heads"], f"{name}.split")
        return graph.node("Transpose", [split], f"{name}.heads", perm=perm)

    def _gelu(self, value: str) -> str:
        graph = self._graph
        ratio = graph.node("Div", [value, "sqrt.two"], f"{value}.ratio")
        error = graph.node("Erf", [ratio], f"{value}.erf")
        raised = graph.node("Add", [error, "one"], f"{value}.raised")
        product = graph.node("Mul", [value, raised], f"{value}.product")
        return graph.node("Mul", [product, "half"], f"{value}.gelu")

    def _mean(self, hidden: str, mask: str) -> str:
        """[batch, sequence, width] → [batch, width], over the attended tokens only."""
        graph = self._graph
        graph.ints("axis.width", 2)
        column = graph.node("Unsqueeze", [mask, "axis.width"], "pool.mask")
        kept = graph.node("Mul", [hidden, column], "pool.kept")
        total = graph.node("ReduceSum", [kept, "axis.tokens"], "pool.total", keepdims=0)
        count = graph.node("ReduceSum", [mask, "axis.tokens"], "pool.count", keepdims=1)
        return graph.node("Div", [total, count], "pool.mean")

    def _normalise(self, mean: str) -> str:
        graph = self._graph
        graph.scalar("length.smallest", SMALLEST_LENGTH)
        length = graph.node("ReduceL2", [mean], "length", axes=[1], keepdims=1)
        divisor = graph.node("Max", [length, "length.smallest"], "length.divisor")
        return graph.node("Div", [mean, divisor], "embedding")


def build_minilm(out: Path, cache: Path | None = None) -> Path:
    """Writes the model to `out` (91 MB) and returns it; fetches the weights once into `cache`.

    Raises `examples.download.DownloadFailed`.
    """
    from safetensors import safe_open

    folder = minilm_folder(cache)
    with safe_open(folder / "model.safetensors", "np") as weights:
        model = EncoderGraph(read_config(folder / "config.json"), weights).build()
    partial = out.with_name(out.name + ".partial")
    onnx.save(model, partial)
    partial.replace(out)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description="Write MiniLM-L6 as an ONNX file (91 MB).")
    parser.add_argument("out", type=Path, metavar="OUT.onnx")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="where weights stay")
    arguments = parser.parse_args()
    print(build_minilm(arguments.out, arguments.cache))


if __name__ == "__main__":
    main()
