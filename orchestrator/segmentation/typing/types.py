"""What is known of each value: tensor or not, element type, dimensions, and the bounds of these:
the greatest over all sizes that inputs may have. What stays unknown stays unknown, and nothing is
cut there.
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx

from orchestrator.segmentation.options import SegmentOptions
from orchestrator.segmentation.reading.walk import Dataflow
from orchestrator.segmentation.typing.dimensions import (
    Minting,
    check_wishes,
    counted_bounds,
    input_bounds,
)
from orchestrator.segmentation.typing.fitting_bounds import fitting_bounds
from orchestrator.segmentation.typing.ranged_values import ranged_values
from orchestrator.segmentation.typing.relations import Relations
from orchestrator.segmentation.typing.shape_inference import (
    ShapeInference,
    with_named_dimensions,
)
from orchestrator.segmentation.typing.value_type import GUESS_LIMIT_NBYTES, ValueType
from wire.elements import Element
from wire.errors import InvalidModel
from wire.manifest import bound_of


@dataclass(frozen=True, slots=True)
class Types:
    """The types of all values, the bounds of all symbols, which of these bounds are guesses
    because the dimension depends on data, notes on that, and which of the inputs' dimensions
    follow from others."""

    values: dict[str, ValueType]
    symbols: dict[str, int]
    guessed: frozenset[str]
    notes: tuple[str, ...]
    relations: Relations

    def __getitem__(self, name: str) -> ValueType:
        return self.values.get(name, ValueType())

    def kind_of(self, name: str) -> Element:
        """The element type. Raises `InvalidModel` if the value is no tensor."""
        kind = self[name].kind
        if kind is None:
            raise InvalidModel(
                f"{name!r} is no tensor of a known type (a sequence, map or optional); "
                "it can be neither an output nor cross a cut"
            )
        return kind

    def bound_nbytes(self, name: str) -> int:
        """The most bytes of a tensor over all sizes of the inputs; less where a bound is a guess,
        since guesses multiply. A larger one is refused when it comes, and `max_shape` then mends
        that."""
        value = self[name]
        if value.dims is None:
            return value.nbytes
        dims = tuple(str(dim) for dim in value.dims)
        nbytes = bound_of(self.kind_of(name), dims, self.symbols)
        if value.most is not None:
            nbytes = min(nbytes, value.nbytes)
        guessed = not self.guessed.isdisjoint(dims)
        return min(nbytes, GUESS_LIMIT_NBYTES) if guessed else nbytes

    def count(self, name: str) -> int:
        return self[name].count

    def sizes(self, name: str) -> tuple[int, ...] | None:
        """The greatest size of each dim if all are known."""
        sizes = self[name].sizes
        if sizes is None or any(size is None for size in sizes):
            return None
        return tuple(size for size in sizes if size is not None)


def infer_types(model: onnx.ModelProto, flow: Dataflow, options: SegmentOptions) -> Types:
    """Raises `UserError` if `options.max_shape` names a symbol that the model does not have, or
    bounds that contradict each other."""
    named = with_named_dimensions(model)
    wide = input_bounds(named, options)
    asking = ShapeInference(named, flow)
    found = fitting_bounds(asking, flow, wide, options.max_shape)
    ranged = ranged_values(asking, flow, found)
    counted = counted_bounds(flow.nodes, ranged.values)
    minting = Minting({**counted, **ranged.symbols}, options)
    minted = {name: minting.mint(name, value) for name, value in ranged.values.items()}
    check_wishes(options, set(minting.symbols))
    notes = (*found.notes, *ranged.notes, *minting.notes)
    return Types(minted, minting.symbols, frozenset(minting.guessed), notes, ranged.relations)
