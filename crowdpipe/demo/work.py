"""What the demonstration computes: a model file and its items.

By default MiniLM-L6 and plain sentences, from `examples`, which a clone has and an installed
package has not. With a model of one's own the items are made up, from a fixed seed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdpipe.demo.figures import NearestSentence
from crowdpipe.items_file import Arrays
from wire.errors import InvalidModel, UserError
from wire.manifest import Manifest, TensorSpec, size_of

MODEL_NAME = "minilm"
OUTPUT = "embedding"
LONGEST_SENTENCE = 64  # tokens; a bound, so that devices need not keep room for 512
SEED = 20
_REAL = {1: "float32", 10: "float16", 11: "float64"}
_WHOLE = {
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    12: "uint32",
    13: "uint64",
}


@dataclass(frozen=True, slots=True)
class DemoWork:
    """`items` is empty until the manifest is known where they are made up; `sentences` is empty
    then too. `max_shape` bounds the model's symbols."""

    name: str
    model: Path
    count: int
    items: tuple[Arrays, ...] = ()
    max_shape: dict[str, int] = field(default_factory=dict)
    sentences: tuple[str, ...] = ()

    def ready(self, manifest: Manifest) -> DemoWork:
        """The same with items, made up if need be."""
        return self if self.items else replace(self, items=generated_items(manifest, self.count))

    def answers(
        self, ours: Sequence[Arrays | None], whole: Sequence[Arrays]
    ) -> tuple[NearestSentence, ...]:
        """For each sentence the nearest of the others, by our results; none if one is missing."""
        if not self.sentences or any(result is None for result in ours):
            return ()
        mine = _stack([result for result in ours if result is not None])
        likeness, nearest = _nearest(mine)
        _, truly = _nearest(_stack(whole))
        return tuple(
            NearestSentence(sentence, self.sentences[near], float(like), bool(near == true))
            for sentence, near, like, true in zip(
                self.sentences, nearest, likeness, truly, strict=True
            )
        )


def _stack(results: Sequence[Arrays]) -> NDArray[np.float32]:
    return np.concatenate([result[OUTPUT] for result in results])


def _nearest(embeddings: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Cosine and index of the most similar other row; rows have length 1."""
    cosines = embeddings @ embeddings.T
    np.fill_diagonal(cosines, -np.inf)
    nearest = cosines.argmax(axis=1)
    return cosines[np.arange(len(cosines)), nearest], nearest


def sentence_work(count: int, cache: Path) -> DemoWork:
    """MiniLM-L6 and the first `count` sentences; fetched and built once, into `cache`.

    Raises `UserError`, or `DownloadFailed` if the weights cannot be fetched.
    """
    try:
        from examples import download, minilm, sentences
    except ImportError:
        raise UserError(
            "the demo's own model comes with a clone of the project, not with the installed "
            "package: run scripts/demo in a clone, or give --model FILE.onnx"
        ) from None
    if count > len(sentences.SENTENCES):
        raise UserError(
            f"there are {len(sentences.SENTENCES)} sentences, so --items can be at most that"
        )
    chosen = sentences.SENTENCES[:count]
    sources = (download.__file__, minilm.__file__)
    model = _built(cache, minilm.build_minilm, [Path(source or "") for source in sources])
    items = tuple(sentences.tokenise(chosen, cache))
    bounds = {"batch": 1, "sequence": LONGEST_SENTENCE}
    return DemoWork(MODEL_NAME, model, count, items, bounds, tuple(chosen))


def _built(cache: Path, build: Callable[[Path, Path], Path], sources: Sequence[Path]) -> Path:
    """The model file, built again when what builds it has changed."""
    stamp = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    model = cache / f"minilm-l6-{stamp}.onnx"
    if not model.is_file():
        cache.mkdir(parents=True, exist_ok=True)
        build(model, cache)
    return model


def generated_items(manifest: Manifest, count: int) -> tuple[Arrays, ...]:
    """Made-up items for any model: reals from a normal distribution, whole numbers 0 or 1, since
    they often index a table; every symbolic dimension at its bound."""
    random = np.random.default_rng(SEED)
    return tuple(
        {spec.name: _made_up(spec, manifest.symbols, random) for spec in manifest.inputs}
        for _ in range(count)
    )


def _made_up(
    spec: TensorSpec, symbols: dict[str, int], random: np.random.Generator
) -> NDArray[Any]:
    shape = tuple(size_of(dim, symbols) for dim in spec.dims)
    if spec.element in _REAL:
        return random.standard_normal(shape).astype(_REAL[spec.element])
    if spec.element in _WHOLE:
        return random.integers(0, 2, shape).astype(_WHOLE[spec.element])
    raise InvalidModel(
        f"cannot generate values for input {spec.name!r} of type {spec.kind.name}; "
        "use crowdpipe run with your own inputs"
    )


def own_work(model: Path, count: int, max_shape: dict[str, int]) -> DemoWork:
    """A model of one's own, named after its file."""
    name = re.sub(r"[^a-z0-9-]+", "-", model.stem.lower()).strip("-")[:32] or "model"
    return DemoWork(name, model, count, max_shape=max_shape)
