"""What libraries of classical machine learning export, and operators on text: rows of the table."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from orchestrator.segmentation.checking.verify import Feeds
from tests.support.models import model_of, value

ML = "ai.onnx.ml"
FLOAT, STRING, INT64 = TensorProto.FLOAT, TensorProto.STRING, TensorProto.INT64
FEATURES, TREES, DEPTH = 6, 12, 4
LABELS = ("cat", "dog", "hen")


def node(kind: str, inputs: list[str], outputs: list[str], **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(kind, inputs, outputs, **attributes)


def classical(kind: str, inputs: list[str], outputs: list[str], **more: Any) -> onnx.NodeProto:
    return helper.make_node(kind, inputs, outputs, domain=ML, **more)


def _forest(leaves: str) -> dict[str, Any]:
    """Attributes of `TREES` complete trees; `leaves` is "class" or "target"."""
    rng = np.random.default_rng(2)
    inner = 2**DEPTH - 1
    rows: dict[str, list[Any]] = {
        name: []
        for name in ("treeids", "nodeids", "featureids", "values", "modes", "true", "false")
    }
    ends: dict[str, list[Any]] = {"treeids": [], "nodeids": [], "ids": [], "weights": []}
    for tree in range(TREES):
        for place in range(2 * inner + 1):
            leaf = place >= inner
            rows["treeids"].append(tree)
            rows["nodeids"].append(place)
            rows["featureids"].append(0 if leaf else int(rng.integers(FEATURES)))
            rows["values"].append(0.0 if leaf else float(rng.normal()))
            rows["modes"].append("LEAF" if leaf else "BRANCH_LEQ")
            rows["true"].append(0 if leaf else 2 * place + 1)
            rows["false"].append(0 if leaf else 2 * place + 2)
            if leaf:
                ends["treeids"].append(tree)
                ends["nodeids"].append(place)
                ends["ids"].append(int(rng.integers(len(LABELS))) if leaves == "class" else 0)
                ends["weights"].append(float(rng.normal()))
    renamed = {"true": "truenodeids", "false": "falsenodeids"}
    return {f"nodes_{renamed.get(name, name)}": listed for name, listed in rows.items()} | {
        f"{leaves}_{name}": listed for name, listed in ends.items()
    }


def regression() -> onnx.ModelProto:
    """A forest over scaled features, and a bias."""
    nodes = [
        classical("Scaler", ["x"], ["scaled"], offset=[0.1] * FEATURES, scale=[2.0] * FEATURES),
        classical(
            "TreeEnsembleRegressor",
            ["scaled"],
            ["grown"],
            n_targets=1,
            aggregate_function="SUM",
            post_transform="NONE",
            **_forest("target"),
        ),
        node("Add", ["grown", "bias"], ["y"]),
    ]
    weights: dict[str, NDArray[Any]] = {"bias": np.array([0.5], np.float32)}
    return _rows(nodes, [value("y", ["batch", 1])], weights)


def classification() -> onnx.ModelProto:
    """A forest whose labels are text, and the probabilities beside them."""
    nodes = [
        classical(
            "Imputer", ["x"], ["whole"], imputed_value_floats=[0.0], replaced_value_float=9.0
        ),
        classical(
            "TreeEnsembleClassifier",
            ["whole"],
            ["label", "scores"],
            classlabels_strings=list(LABELS),
            post_transform="SOFTMAX",
            **_forest("class"),
        ),
        classical("Normalizer", ["scores"], ["probabilities"], norm="L1"),
    ]
    outputs = [value("label", ["batch"], STRING), value("probabilities", ["batch", len(LABELS)])]
    return _rows(nodes, outputs)


def support_vectors() -> onnx.ModelProto:
    rng = np.random.default_rng(4)
    count = 9
    nodes = [
        classical("Normalizer", ["x"], ["n"], norm="L2"),
        classical(
            "SVMRegressor",
            ["n"],
            ["s"],
            kernel_type="RBF",
            kernel_params=[0.3, 0.0, 3.0],
            n_supports=count,
            support_vectors=[float(v) for v in rng.normal(size=count * FEATURES)],
            coefficients=[float(v) for v in rng.normal(size=count)],
            rho=[0.2],
            post_transform="NONE",
        ),
        node("Neg", ["s"], ["y"]),
    ]
    return _rows(nodes, [value("y", ["batch", 1])])


def encoded_words() -> onnx.ModelProto:
    """Words to numbers, to one of each, and counted."""
    nodes = [
        classical(
            "LabelEncoder",
            ["s"],
            ["number"],
            keys_strings=list(LABELS),
            values_int64s=[0, 1, 2],
            default_int64=3,
        ),
        classical("OneHotEncoder", ["number"], ["hot"], cats_int64s=[0, 1, 2, 3], zeros=1),
        node("ReduceSum", ["hot", "axis"], ["y"], keepdims=0),
    ]
    weights = {"axis": np.array([1])}
    return _text(nodes, ["batch", "words"], [value("y", None)], weights, opset=17)


def cleaned_words() -> onnx.ModelProto:
    """Without stop words, then how often each word and pair of words comes. Other locales than C
    are not on every device."""
    nodes = [
        node("StringNormalizer", ["s"], ["kept"], locale="C", stopwords=["the"]),
        node(
            "TfIdfVectorizer",
            ["kept"],
            ["y"],
            mode="TF",
            min_gram_length=1,
            max_gram_length=2,
            max_skip_count=0,
            ngram_counts=[0, 3],
            ngram_indexes=[0, 1, 2, 3],
            pool_strings=["cat", "dog", "hen", "cat", "dog"],
        ),
    ]
    return _text(nodes, ["words"], [value("y", None)], {}, opset=17)


def split_words() -> onnx.ModelProto:
    nodes = [
        node("StringSplit", ["s"], ["pieces", "count"], delimiter=" "),
        node("RegexFullMatch", ["pieces"], ["is_word"], pattern="[a-z]+"),
        node("Cast", ["is_word"], ["number"], to=INT64),
        node("ReduceSum", ["number", "axis"], ["words"], keepdims=0),
        node("Add", ["words", "count"], ["y"]),
    ]
    weights = {"axis": np.array([1])}
    outputs = [value("y", None, INT64), value("pieces", None, STRING)]
    return _text(nodes, ["batch"], outputs, weights, opset=20)


def _rows(
    nodes: list[onnx.NodeProto],
    outputs: list[onnx.ValueInfoProto],
    weights: dict[str, NDArray[Any]] | None = None,
) -> onnx.ModelProto:
    model = model_of(nodes, [value("x", ["batch", FEATURES])], outputs, weights, opset=17)
    model.opset_import.append(helper.make_opsetid(ML, 3))
    return model


def _text(
    nodes: list[onnx.NodeProto],
    shape: list[int | str],
    outputs: list[onnx.ValueInfoProto],
    weights: dict[str, NDArray[Any]],
    opset: int,
) -> onnx.ModelProto:
    model = model_of(nodes, [value("s", shape, STRING)], outputs, weights, opset=opset)
    model.opset_import.append(helper.make_opsetid(ML, 3))
    return model


def features() -> Feeds:
    return {"x": np.random.default_rng(6).normal(size=(1, FEATURES)).astype(np.float32)}


def table_of_words() -> Feeds:
    return {"s": np.array([["cat", "hen", "ox", "cat"]], object)}


def sentence() -> Feeds:
    return {"s": np.array(["The", "Cat", "dog", "the", "cat", "dog", "Hen"], object)}


def lines() -> Feeds:
    return {"s": np.array(["a cat and a dog"], object)}
