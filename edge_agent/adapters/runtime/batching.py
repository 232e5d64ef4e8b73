"""Several items in one call: which may go together, their tensors joined, and the outputs parted.

Joined along the first axis, whose rows are one after the other in memory. What may be joined at
all is the assignment's to say (`BatchTerms`); here only shapes, types and numbers are looked at,
since each item has its own. Whoever cannot go with others is computed alone, which is never wrong.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edge_agent.adapters.runtime.onnx_values import element_of, raw_of, shape_of, value_of
from wire.elements import Element, bits_of, element, nbytes_of
from wire.errors import ComputeFailed
from wire.frame_head import FrameHead

Values = Mapping[str, Any]  # OrtValues by name


@dataclass(frozen=True, slots=True)
class Form:
    """Items of equal `kinds` may be joined: types, shapes but for the rows, and all of what is
    shared. `most`: so many at once are asked for."""

    rows: int
    most: int
    kinds: tuple[tuple[object, ...], ...]


def form_of(head: FrameHead, wanted: Collection[str], shared: Mapping[str, bytes]) -> Form | None:
    """Of the tensors `wanted` of a frame; `shared` has the bytes of those without rows. None: it
    cannot be joined with anything."""
    kinds: list[tuple[object, ...]] = []
    rows: set[int] = set()
    for tensor in head.tensors:
        if tensor.name not in wanted:
            continue
        if tensor.name in shared:
            kinds.append((tensor, shared[tensor.name]))
        elif tensor.shape and _whole_bytes(element(tensor.element)):
            rows.add(tensor.shape[0])
            kinds.append((tensor.name, tensor.element, tensor.shape[1:]))
        else:
            return None
    known = len(rows) == 1 and 0 not in rows
    return Form(rows.pop(), head.batch, tuple(kinds)) if known else None


def _whole_bytes(kind: Element) -> bool:
    return bits_of(kind) > 0 and bits_of(kind) % 8 == 0


def grouped(forms: Sequence[Form | None], most_rows: int) -> Iterator[range]:
    """Neighbours that go together, all of them in order: not more than each asks for, nor more rows
    than memory is planned for."""
    start, rows = 0, 0
    for at, form in enumerate(forms):
        if at > start and not _goes_with(form, forms[start], at - start, most_rows - rows):
            yield range(start, at)
            start, rows = at, 0
        rows += form.rows if form is not None else 0
    if forms:
        yield range(start, len(forms))


def _goes_with(form: Form | None, first: Form | None, count: int, rows_left: int) -> bool:
    """Whether it may be one more beside `count` others, of which the first is known."""
    if form is None or first is None or form.kinds != first.kinds:
        return False
    return form.rows <= rows_left and count < first.most == form.most


def joined(items: Sequence[Values], shared: Iterable[str]) -> dict[str, Any]:
    """One value for each name, of all rows in order; of what is shared the first item's."""
    apart = frozenset(shared)
    return {
        name: items[0][name] if name in apart else _joined([each[name] for each in items])
        for name in items[0]
    }


def _joined(values: Sequence[Any]) -> Any:
    kind, shape = element_of(values[0]), shape_of(values[0])[1:]
    rows = sum(shape_of(value)[0] for value in values)
    return value_of(kind, (rows, *shape), b"".join(map(raw_of, values)))


def parted(made: Values, names: Iterable[str], rows: Sequence[int]) -> list[dict[str, Any]]:
    """What each item has of the outputs `names`. Raises `ComputeFailed` if one does not have all
    rows: then nobody knows whose they are."""
    parts: list[dict[str, Any]] = [{} for _ in rows]
    for name in names:
        if name in made:
            for part, value in zip(parts, _parts(name, made[name], rows), strict=True):
                part[name] = value
    return parts


def _parts(name: str, value: Any, rows: Sequence[int]) -> Iterator[Any]:
    kind, shape = element_of(value), shape_of(value)
    if not _whole_bytes(kind) or shape[:1] != (sum(rows),):
        raise ComputeFailed(f"{name!r} {list(shape)} of {sum(rows)} rows cannot be parted")
    row_nbytes = nbytes_of(kind, math.prod(shape[1:]))
    address = value.data_ptr()
    for count in rows:
        data = ctypes.string_at(address, count * row_nbytes) if row_nbytes else b""
        yield value_of(kind, (count, *shape[1:]), data)
        address += count * row_nbytes
