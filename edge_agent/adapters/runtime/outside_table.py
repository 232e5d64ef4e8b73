"""A value that a table has no row for, told as the fault of the input that it came in by.

ONNX Runtime names an inner node, and the row reader a tensor inside the model. Where a partition
begins with the model's own inputs, whoever asked is told which of them has the value, and that it
is theirs to mend.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from wire.elements import Element
from wire.errors import ComputeFailed, CrowdpipeError, InvalidInput

INTEGERS = (Element.INT32, Element.INT64)
_SAID = re.compile(r"idx=(-?\d+) must be within the inclusive range \[(-?\d+),(-?\d+)\]")


def integers_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """Those that a table may be read by; small ones, which may stay in memory."""
    return {name: value for name, value in values.items() if value.element_type() in INTEGERS}


def of_input(error: ComputeFailed, inputs: Mapping[str, Any]) -> CrowdpipeError:
    """`InvalidInput` if the value that `error` is about is in one of the model's `inputs`
    (OrtValues of integers); otherwise `error` itself."""
    said = _SAID.search(str(error))
    if said is None:
        return error
    value, low, high = map(int, said.groups())
    for name, given in inputs.items():
        if (given.numpy() == value).any():
            return InvalidInput(
                f"input '{name}' has the value {value}, and the model takes {low} to {high} there"
            )
    return error


def outside(value: int, rows: int, output: str) -> ComputeFailed:
    """A table of so many rows has none for it. In ONNX Runtime's words, so that both are told
    alike."""
    return ComputeFailed(
        f"no row for {output!r}: idx={value} must be within the inclusive range "
        f"[{-rows},{rows - 1}]"
    )
