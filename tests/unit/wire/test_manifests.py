"""Which manifests are of one model, for devices, plans and frames."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.tiny_manifest import tiny_manifest
from wire.manifest import Manifest, ModelMetadata, Reference
from wire.messages.model import summary_of

SAME: dict[str, dict[str, Any]] = {
    "a name": {"name": "another"},
    "notes": {"notes": ("remarked",)},
    "a measurement": {"reference": Reference("1.32", 1e-7)},
    "metadata": {"metadata": ModelMetadata({"names": "cat, dog"})},
}


def moved() -> Manifest:
    return tiny_manifest(weights=(10_000_000, 9_000_000, 11_000_000))


@pytest.mark.parametrize("others", SAME.values(), ids=SAME)
def test_what_is_only_said_of_a_model_leaves_it_the_same(others: dict[str, Any]) -> None:
    manifest = tiny_manifest()
    assert replace(manifest, **others).digest == manifest.digest


@pytest.mark.parametrize("said", ["notes", "a measurement", "metadata"])
def test_runs_go_on_when_only_something_is_said_anew(said: str) -> None:
    manifest = tiny_manifest()
    assert replace(manifest, **SAME[said]).serves_as(manifest)


@pytest.mark.parametrize(
    "other",
    [
        tiny_manifest(seq=256),
        replace(tiny_manifest(), symbols={"batch": 5, "seq": 128}),
        replace(tiny_manifest(), exact_only=True),
        tiny_manifest(cuts=(2048, 2048, 4096, 2048)),
        moved(),
    ],
    ids=["sizes", "a bound", "a mode", "bytes at a cut", "where it is cut"],
)
def test_what_changes_how_it_is_served_makes_another_model(other: Manifest) -> None:
    assert other.digest != tiny_manifest().digest
    assert not other.serves_as(tiny_manifest())


def test_an_input_that_nothing_uses_counts_for_what_may_come():
    manifest = tiny_manifest()
    (x,) = manifest.inputs
    unused = replace(manifest, inputs=(x, replace(x, name="unused", bound_nbytes=7)))
    assert unused.frame_bound_nbytes(0) == x.bound_nbytes + 7
    assert unused.frame_bound_nbytes(1) == manifest.cuts[1].bound_nbytes
    assert summary_of(unused).input_limit_nbytes == x.bound_nbytes + 7
