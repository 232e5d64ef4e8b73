"""The parts of a model that figures of single devices are about: cells, and even shares.

The paper's cells are the embeddings with the first layers, the other layers, and the head. They
are served as ranges of the segments that the model is usually cut into; a cut of the usual line
is added where a cell ends and there is none. Each cell is also one plain model file, for a plain
session to be the rival.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks.desk import Desk, Span
from benchmarks.whole import WholeModel
from benchmarks.work import Work
from crowdpipe.items_file import Arrays, write_items
from wire.errors import OperatorError
from wire.manifest import Manifest, TensorSpec


@dataclass(frozen=True, slots=True)
class Cell:
    """`plain` is its file for a plain session; `inputs` are live sets at its beginning, and
    `outputs` what the plain session makes of them."""

    name: str
    span: Span
    plain: Path
    items: Path
    inputs: tuple[Arrays, ...]
    outputs: tuple[Arrays, ...]


@dataclass(frozen=True, slots=True)
class Cells:
    """The model in segments, and its cells; the last of them is the whole model."""

    manifest: Manifest
    cells: tuple[Cell, ...]


def make_cells(desk: Desk, work: Work, folder: Path, items: int) -> Cells:
    """Cuts the model at the desk. A model without known layers has one cell, the whole."""
    manifest = desk.cut(work)
    if work.cell_ends:
        missing = _missing(manifest, work.cell_ends)
        manifest = desk.cut(work, (*_places(manifest), *missing)) if missing else manifest
    work = work.ready(manifest).first(items)
    cells = _parts(desk, work, manifest, folder) if work.cell_ends else []
    whole = Span(0, len(manifest.segments) - 1)
    cells.append(_cell("whole", whole, work.model, list(work.items), folder))
    return Cells(manifest, tuple(cells))


def plain_file(desk: Desk, work: Work, manifest: Manifest, span: Span) -> Path:
    """A model file of just these segments, as one graph, for a plain session."""
    places = ("", *_places(manifest), "")
    ends = tuple(filter(None, (places[span.first], places[span.last + 1])))
    if not ends:
        return work.model
    coarse = desk.cut(work, ends)
    wanted = set(manifest.cuts[span.first].names), set(manifest.cuts[span.last + 1].names)
    for segment in coarse.segments:
        cuts = coarse.cuts[segment.index : segment.index + 2]
        if tuple(set(cut.names) for cut in cuts) == wanted:
            return desk.store.blobs.path(segment.graph.digest)
    raise OperatorError(
        f"{manifest.name} cannot be cut around segments {span.first} to {span.last}"
    )


def _places(manifest: Manifest) -> tuple[str, ...]:
    """The value after whose node each inner cut is: what is large there was made last."""
    largest = (max(cut.tensors, key=_bound) for cut in manifest.cuts[1:-1])
    return tuple(tensor.name for tensor in largest)


def _bound(tensor: TensorSpec) -> int:
    return tensor.bound_nbytes


def _missing(manifest: Manifest, ends: tuple[str, ...]) -> tuple[str, ...]:
    places = set(_places(manifest))
    return tuple(end for end in ends if end not in places)


def _parts(desk: Desk, work: Work, manifest: Manifest, folder: Path) -> list[Cell]:
    coarse = desk.cut(work, work.cell_ends)
    values = [dict(item) for item in work.items]
    cells = []
    for segment in coarse.segments:
        first, after = (
            _cut_with(manifest, coarse.cuts[segment.index + offset].names) for offset in (0, 1)
        )
        wanted = coarse.cuts[segment.index].names
        inputs = [{name: each[name] for name in wanted if name in each} for each in values]
        feeds = [{name: each[name] for name in segment.inputs} for each in inputs]
        path = desk.store.blobs.path(segment.graph.digest)
        span = Span(first, after - 1)
        cell = _cell(f"cell{segment.index + 1}", span, path, feeds, folder, inputs)
        values = [a | b for a, b in zip(values, cell.outputs, strict=True)]
        cells.append(cell)
    return cells


def _cut_with(manifest: Manifest, names: tuple[str, ...]) -> int:
    for index, cut in enumerate(manifest.cuts):
        if set(cut.names) == set(names):
            return index
    raise OperatorError(f"no cut of {manifest.name} has the live set {', '.join(names)}")


def _cell(
    name: str,
    span: Span,
    plain: Path,
    feeds: list[Arrays],
    folder: Path,
    inputs: list[Arrays] | None = None,
) -> Cell:
    items = folder / f"{name}.npz"
    write_items(items, "numbered", feeds)
    with WholeModel(plain, items) as session:
        outputs = session.write(folder / f"{name}-outputs.npz")
    return Cell(name, span, plain, items, tuple(inputs or feeds), tuple(outputs))
