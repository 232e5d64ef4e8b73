"""What is known of one value: tensor or not, element type, dimensions, and their sizes."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.segmentation.options import DEFAULT_DIM
from wire.elements import Element, bits_of
from wire.manifest import STRING_LIMIT_NBYTES

Dim = int | str | None
_SAYS_NOTHING = frozenset(
    {"", "?", "*", "_", "-", "-1", "none", "null", "nan", "unk", "unknown", "dynamic", "any", "dim"}
)
GUESS_LIMIT_NBYTES = 16 << 20  # of a tensor with a dimension of which nothing is known


@dataclass(frozen=True, slots=True)
class ValueType:
    """A value's type. `kind` None: a sequence, an optional, or unknown. `dims` None: the rank is
    unknown; a dim None: unknown. `sizes` are the greatest of each dim over all sizes of the inputs,
    `most` the greatest number of elements where that is less than their product."""

    kind: Element | None = None
    dims: tuple[int | str | None, ...] | None = None
    sizes: tuple[int | None, ...] | None = None
    most: int | None = None

    @property
    def is_tensor(self) -> bool:
        return self.kind is not None

    @property
    def count(self) -> int:
        """The most elements; a size that is unknown counts as `DEFAULT_DIM`."""
        if self.most is not None:
            return self.most
        total = 1
        for size in self.sizes or ():
            total *= DEFAULT_DIM if size is None else size
        return total if self.sizes is not None else DEFAULT_DIM * DEFAULT_DIM

    @property
    def nbytes(self) -> int:
        if self.kind is None:
            return 0
        if self.kind is Element.STRING:
            return STRING_LIMIT_NBYTES
        nbytes = (self.count * bits_of(self.kind) + 7) // 8
        guessed = self.sizes is None or None in self.sizes
        return min(nbytes, GUESS_LIMIT_NBYTES) if guessed else nbytes


def symbol_of(text: str) -> str:
    """A usable name of a dimension; "" for text that says no more than that it is unknown, as
    converters write it on several axes that have nothing to do with each other. Decimal text would
    read as a size."""
    if text.strip().lower() in _SAYS_NOTHING:
        return ""
    return f"dim {text}" if text.isdecimal() else text


def sizes_of(
    dims: tuple[Dim, ...] | None, sizes: tuple[Dim, ...] | None
) -> tuple[int | None, ...] | None:
    """The sizes where they are known, else the dimensions that are fixed."""
    if dims is None:
        return None
    known = sizes if sizes is not None else dims
    pairs = zip(dims, known, strict=True)
    return tuple(
        size if isinstance(size, int) else dim if isinstance(dim, int) else None
        for dim, size in pairs
    )
