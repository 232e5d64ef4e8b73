"""What the rules for sizes see of one node: its inputs' sizes and small contents, as terms.

A size or an element that nobody knows is None; so are dims of unknown rank, and contents that are
long or not followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from orchestrator.segmentation.reading.tensors import INTEGERS, is_external
from orchestrator.segmentation.reading.walk import Dataflow
from orchestrator.segmentation.typing.formulas import FormulaBook, Term, plain
from orchestrator.segmentation.typing.value_type import ValueType

Sizes = tuple[Term | None, ...]
Content = NDArray[Any]  # of objects: terms, and None for an element that is unknown
_COUNTING = frozenset({"Shape", "Size"})  # integers, whatever they are of
MAX_CONTENT = 64  # elements: shapes and what they are made from are no longer


@dataclass(slots=True)
class KnownTerms:
    """By name of value: its dims, and its elements if they are few numbers (`reals` has those that
    are no integers by type); and which terms must be equal for the model to run."""

    flow: Dataflow
    values: dict[str, ValueType]
    book: FormulaBook
    dims: dict[str, Sizes | None] = field(default_factory=dict)
    contents: dict[str, Content | None] = field(default_factory=dict)
    reals: set[str] = field(default_factory=set)
    equations: list[tuple[Term, Term]] = field(default_factory=list)

    def dims_of(self, name: str) -> Sizes | None:
        tensor = self.flow.initializers.get(name)
        return tuple(tensor.dims) if tensor is not None else self.dims.get(name)

    def content_of(self, name: str) -> Content | None:
        tensor = self.flow.initializers.get(name)
        if tensor is not None and name not in self.contents:
            self._keep_tensor(name, tensor)
        return self.contents.get(name)

    def _keep_tensor(self, name: str, tensor: onnx.TensorProto) -> None:
        self.dims[name], self.contents[name] = tuple(tensor.dims), numbers_in(tensor)
        if tensor.data_type not in INTEGERS:
            self.reals.add(name)

    def keep_content(self, view: NodeView, content: Content | None) -> None:
        """What a node's first output holds."""
        name = view.proto.output[0] if view.proto.output else ""
        self.contents[name] = (
            None if content is not None and content.size > MAX_CONTENT else content
        )
        if content is not None and view.makes_reals:
            self.reals.add(name)

    def inside(self, body: onnx.GraphProto) -> KnownTerms:
        """What a body of a node sees: all that is known outside, and its own initializers."""
        inner = replace(
            self,
            values={},
            dims=dict(self.dims),
            contents=dict(self.contents),
            reals=set(self.reals),
            equations=[],
        )
        for tensor in body.initializer:
            inner._keep_tensor(tensor.name, tensor)
        return inner


def numbers_in(tensor: onnx.TensorProto) -> Content | None:
    """The elements of a small tensor; None if it is large, outside the graph, or no numbers."""
    if is_external(tensor) or prod(tensor.dims) > MAX_CONTENT:
        return None
    array = numpy_helper.to_array(tensor)
    if array.dtype.kind not in "iufb":
        return None
    return content_of_terms([plain(float(one)) for one in array.ravel()]).reshape(array.shape)


def content_of_terms(terms: Sequence[Term | None]) -> Content:
    """One dimension of elements."""
    made = np.empty(len(terms), object)
    made[:] = terms
    return made


class NodeView:
    """One node, and what is known around it."""

    def __init__(self, proto: onnx.NodeProto, known: KnownTerms) -> None:
        self.proto = proto
        self._known = known
        self.make = known.book.make
        self.chain = known.book.chain

    @cached_property
    def _attributes(self) -> dict[str, Any]:
        return {a.name: onnx.helper.get_attribute_value(a) for a in self.proto.attribute}

    def has(self, place: int) -> bool:
        return place < len(self.proto.input) and bool(self.proto.input[place])

    def dims(self, place: int) -> Sizes | None:
        return self._known.dims_of(self.proto.input[place]) if self.has(place) else None

    def content(self, place: int) -> Content | None:
        return self._known.content_of(self.proto.input[place]) if self.has(place) else None

    def listed_content(self, place: int) -> Sizes | None:
        """An input's elements in order."""
        content = self.content(place)
        return None if content is None else tuple(content.ravel())

    def element(self, place: int) -> Term | None:
        """The only element of an input."""
        content = self.listed_content(place)
        return content[0] if content and len(content) == 1 else None

    def integers(self, place: int) -> list[int] | None:
        """An input's elements if all are known whole numbers."""
        content = self.content(place)
        if content is None or not all(isinstance(one, int) for one in content.ravel()):
            return None
        return [int(one) for one in content.ravel()]

    def attribute(self, name: str, default: int) -> int:
        return int(self._attributes.get(name, default))

    def text(self, name: str) -> str:
        value = self._attributes.get(name, b"")
        return value.decode(errors="replace") if isinstance(value, bytes) else ""

    def listed(self, name: str) -> list[int] | None:
        value = self._attributes.get(name)
        return [int(one) for one in value] if isinstance(value, Sequence) else None

    def listed_terms(self, name: str) -> Sizes | None:
        """As `listed`, where an input could hold the same."""
        numbers = self.listed(name)
        return None if numbers is None else tuple(numbers)

    def tensor(self, name: str) -> onnx.TensorProto | None:
        value = self._attributes.get(name)
        return value if isinstance(value, onnx.TensorProto) else None

    def any_attribute(self, name: str) -> object:
        return self._attributes.get(name)

    def axes(self, place: int) -> list[int] | None:
        """The axes that an operator names: in an attribute, or since some opset in an input."""
        return self.integers(place) if self.has(place) else self.listed("axes")

    @property
    def is_open(self) -> bool:
        """Whether an input has a size that is not fixed."""
        shapes = (self.dims(place) for place in range(len(self.proto.input)))
        return any(not isinstance(size, int) for shape in shapes for size in shape or ())

    @property
    def makes_reals(self) -> bool:
        """Whether the elements made from numbers are floats."""
        kind, tensor = self.proto.op_type, self.tensor("value")
        if kind == "Cast":
            return self.attribute("to", 0) not in INTEGERS
        if kind == "Constant":
            return tensor.data_type not in INTEGERS if tensor else self.has_floats
        return kind not in _COUNTING and not self._known.reals.isdisjoint(self.proto.input)

    @property
    def has_floats(self) -> bool:
        return any(name.startswith("value_float") for name in self._attributes)

    def equate(self, a: Term | None, b: Term | None) -> None:
        """The model runs only where both are the same, or one is 1 and is broadcast."""
        if a is not None and b is not None and a != b and 1 not in (a, b):
            self._known.equations.append((a, b))
