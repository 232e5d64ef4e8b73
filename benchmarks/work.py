"""What is computed: a model and its items.

The default is a stand-in of DistilBERT's size with real weights; MiniLM-L6 is quicker to fetch;
any file of your own works too, with made-up items. Items are plain English of exactly as many
tokens as asked for, since padding would be neither computed nor compressed like text.
"""

from __future__ import annotations

import hashlib
import importlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import onnx

from crowdpipe.demo.work import generated_items
from crowdpipe.items_file import Arrays
from examples.sentences import SENTENCES, tokenise
from wire.errors import UserError
from wire.manifest import Manifest

SEQUENCE = 128
ITEMS = 60
PASSAGE = 40  # sentences joined to one text: at least eight tokens each
TOKEN_INPUTS = {"input_ids", "attention_mask"}
BUILT = {"minilm": "build_minilm", "standin": "build_standin"}
CELL_ENDS = ("layer2.norm", "layer5.norm")  # both have six layers of these names
GRAPHS = ("graph_builder", "minilm")  # what builds them beside their own module


@dataclass(frozen=True, slots=True)
class Work:
    """`items` is empty for a model of one's own until its manifest is known. `cell_ends` are the
    values after which the paper's cells end, as far as the model has such layers."""

    name: str
    model: Path
    items: tuple[Arrays, ...]
    max_shape: dict[str, int]
    cell_ends: tuple[str, ...] = ()
    count: int = ITEMS

    def first(self, count: int) -> Work:
        """The same with `count` items, which repeat if there are fewer."""
        if not self.items:
            return replace(self, count=count)
        chosen = tuple(self.items[index % len(self.items)] for index in range(count))
        return replace(self, items=chosen, count=count)

    def tokens(self, count: int) -> Work:
        """The same with items of `count` tokens instead of more; as it is for other models."""
        if not self.items or any(array.ndim != 2 for array in self.items[0].values()):
            return self
        items = tuple(
            {name: array[:, :count].copy() for name, array in item.items()} for item in self.items
        )
        return replace(self, items=items)

    def ready(self, manifest: Manifest) -> Work:
        """The same with items, made up if there are none."""
        return self if self.items else replace(self, items=generated_items(manifest, self.count))


def work_of(
    model: str, cache: Path, say: Callable[[str], None], cell_ends: tuple[str, ...] = ()
) -> Work:
    """`standin`, `minilm`, or a file, whose cells end after the values `cell_ends`.

    Raises `UserError` if it is none of these.
    """
    if model in BUILT:
        return _built(model, cache, say)
    path = Path(model)
    if not path.is_file():
        raise UserError(f"--model takes {', '.join(sorted(BUILT))} or a file, not {model!r}")
    name = re.sub(r"[^a-z0-9-]+", "-", path.stem.lower()).strip("-")[:32] or "model"
    if not _takes_tokens(path):
        return Work(name, path, (), {}, cell_ends)
    bounds = {"batch": 1, "sequence": SEQUENCE}
    return Work(name, path, _passages(tokenise, ITEMS, cache), bounds, cell_ends)


def _takes_tokens(path: Path) -> bool:
    """Whether it is an encoder of texts of the usual kind, for which there are items."""
    graph = onnx.load(path, load_external_data=False).graph
    weights = {tensor.name for tensor in graph.initializer}
    return {port.name for port in graph.input} - weights == TOKEN_INPUTS


def _built(name: str, cache: Path, say: Callable[[str], None]) -> Work:
    """From `examples`, built once and again when what builds it has changed."""
    source = importlib.import_module(f"examples.{name}")
    folder = Path(source.__file__ or "").parent
    code = b"".join((folder / f"{each}.py").read_bytes() for each in (*GRAPHS, name))
    stamp = hashlib.sha256(code).hexdigest()[:12]
    model = cache / f"{name}-{stamp}.onnx"
    if not model.is_file():
        say(f"building the model {name}, once …")
        cache.mkdir(parents=True, exist_ok=True)
        build: Callable[[Path, Path], Path] = getattr(source, BUILT[name])
        build(model, cache)
    bounds = {"batch": 1, "sequence": SEQUENCE}
    items = _passages(getattr(source, "tokenise", tokenise), ITEMS, cache)
    return Work(name, model, items, bounds, CELL_ENDS)


def _passages(
    encode: Callable[[tuple[str, ...], Path], list[Arrays]], count: int, cache: Path
) -> tuple[Arrays, ...]:
    """Texts of exactly `SEQUENCE` tokens, each beginning with another sentence."""
    texts = tuple(" ".join(_sentences_from(start)) for start in range(count))
    return tuple(_shortened(item) for item in encode(texts, cache))


def _sentences_from(start: int) -> Sequence[str]:
    return [SENTENCES[(start + offset) % len(SENTENCES)] for offset in range(PASSAGE)]


def _shortened(item: Arrays) -> Arrays:
    """The first tokens and the last, which says that the text ends."""
    kept = {name: array[:, :SEQUENCE].copy() for name, array in item.items()}
    for name, array in item.items():
        kept[name][:, -1] = array[:, -1]
    return kept
