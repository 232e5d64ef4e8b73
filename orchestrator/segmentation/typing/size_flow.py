"""Follows sizes through the graph as terms: formulas of the inputs' dimensions.

ONNX's inference names each size that it cannot tell, once, and tells where that name goes on; so
only where a name appears first, a rule has to say what it is. What no rule knows stays unknown.
Also says which terms must be equal for the model to run.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TypeVar

import onnx

from orchestrator.segmentation.reading.walk import Dataflow, Node
from orchestrator.segmentation.typing.content_rules import CONTENT_RULES
from orchestrator.segmentation.typing.formulas import FormulaBook, Term
from orchestrator.segmentation.typing.node_view import KnownTerms, NodeView, Sizes
from orchestrator.segmentation.typing.size_rules import EQUATING, SIZE_RULES, recurrent_sizes
from orchestrator.segmentation.typing.value_type import Dim, ValueType

MAX_NUMBER = 1 << 31  # in a dimension's name
Told = TypeVar("Told")
_DOMAINS = ("", "ai.onnx", "com.microsoft")  # in which a name means the same operator
_SIGNS = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "div", ast.Div: "div"}


def follow_sizes(
    flow: Dataflow, values: dict[str, ValueType], symbols: dict[str, int]
) -> KnownTerms:
    """The terms of all values; `values` are what inference says, `symbols` the inputs' dimensions
    and up to what sizes formulas are compared."""
    known = KnownTerms(flow, values, FormulaBook(symbols))
    names: dict[str, Term | None] = {name: name for name in symbols}
    for name in flow.inputs:
        known.dims[name] = _agreed(values.get(name, ValueType()).dims, None, names)
    known.equations += named_equations(symbols, known.book)[0]
    for node in flow.nodes:
        _follow_node(node, known, names)
    return known


def named_equations(
    symbols: dict[str, int], book: FormulaBook | None = None
) -> tuple[list[tuple[Term, Term]], FormulaBook]:
    """What the names of dimensions say, and the book that knows these terms."""
    book = book or FormulaBook(symbols)
    meant = {name: _meant(name, book, symbols) for name in symbols}
    return [(name, term) for name, term in meant.items() if term is not None], book


def _follow_node(node: Node, known: KnownTerms, names: dict[str, Term | None]) -> None:
    view = NodeView(node.proto, known)
    kind = node.proto.op_type if node.proto.domain in _DOMAINS else ""
    asked = _has_news(node, known, names) or (kind in EQUATING and view.is_open)
    made = _made(view, kind, known) if asked else []
    content = _told(CONTENT_RULES.get(kind), view)
    for at, name in enumerate(node.proto.output):
        dims = known.values.get(name, ValueType()).dims
        known.dims[name] = _agreed(dims, made[at] if at < len(made) else None, names)
    known.keep_content(view, content)


def _made(view: NodeView, kind: str, known: KnownTerms) -> list[Sizes | None]:
    """Of each output; most rules tell of the first one."""
    if kind in ("GRU", "LSTM", "RNN"):
        return recurrent_sizes(view)
    if kind != "If":
        return [_told(SIZE_RULES.get(kind), view)]
    branches = [_branch(body, known) for body in _taken(view)]
    return [_either(known, list(sizes)) for sizes in zip(*branches, strict=False)]


def _taken(view: NodeView) -> list[onnx.GraphProto]:
    """The bodies of an If, or the one that is taken where that is known."""
    chosen = view.element(0)
    left = {0: "then_branch", 1: "else_branch"}.get(chosen) if isinstance(chosen, int) else None
    return [one.g for one in view.proto.attribute if one.HasField("g") and one.name != left]


def _branch(body: onnx.GraphProto, known: KnownTerms) -> list[Sizes | None]:
    """Of a body's outputs. What it says of dimensions holds only where it runs: it is left out."""
    inner = known.inside(body)
    for proto in body.node:
        _follow_node(Node(0, proto, (), tuple(proto.output)), inner, {})
    return [inner.dims_of(value.name) for value in body.output]


def _either(known: KnownTerms, shapes: list[Sizes | None]) -> Sizes | None:
    """The larger size on each axis of shapes that have as many."""
    told = [shape for shape in shapes if shape is not None]
    if len(told) < len(shapes) or len({len(shape) for shape in told}) != 1:
        return None
    return tuple(known.book.chain("max", list(sizes)) for sizes in zip(*told, strict=True))


def _has_news(node: Node, known: KnownTerms, names: dict[str, Term | None]) -> bool:
    """Whether inference leaves a size open that has no name yet."""
    for name in node.outputs:
        dims = known.values.get(name, ValueType()).dims
        if dims is None or not all(isinstance(dim, int) or dim in names for dim in dims):
            return True
    return False


def _told(rule: Callable[[NodeView], Told | None] | None, view: NodeView) -> Told | None:
    try:
        return rule(view) if rule is not None else None
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError):
        # A node that is not as its operator wants it: then nothing is known of what it makes, and
        # whoever runs or infers it says what is wrong.
        return None


def _agreed(
    dims: tuple[Dim, ...] | None, made: Sizes | None, names: dict[str, Term | None]
) -> Sizes | None:
    """What inference says of each size, and what a rule says of those that have a new name."""
    if dims is None:
        return made
    if made is None or len(made) != len(dims):
        made = (None,) * len(dims)
    found: list[Term | None] = []
    for dim, size in zip(dims, made, strict=True):
        term = names.setdefault(dim, size) if isinstance(dim, str) else dim
        found.append(size if term is None else term)
    return tuple(found)


def _meant(name: str, book: FormulaBook, symbols: dict[str, int]) -> Term | None:
    """What a dimension called "past + 1" says of another; None for a name that is only a name."""
    if not any(sign in name for sign in "+-*/"):
        return None
    try:
        tree = ast.parse(name.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return _term_of(tree, book, symbols) if isinstance(tree, ast.BinOp) else None


def _term_of(tree: ast.expr, book: FormulaBook, symbols: dict[str, int]) -> Term | None:
    if isinstance(tree, ast.Name):
        return tree.id if tree.id in symbols else None
    if isinstance(tree, ast.Constant):
        number = tree.value
        return number if type(number) is int and number < MAX_NUMBER else None
    if isinstance(tree, ast.BinOp) and type(tree.op) in _SIGNS:
        parts = (_term_of(part, book, symbols) for part in (tree.left, tree.right))
        return book.make(_SIGNS[type(tree.op)], *parts)
    return None
