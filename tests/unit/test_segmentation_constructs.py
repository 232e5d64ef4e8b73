"""Each construct of the table in the documentation is served exactly, or refused in words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from orchestrator.segmentation.blob_sink import FolderSink
from orchestrator.segmentation.segmenter import segment
from tests.support.backend_cases import BackendCase, try_everywhere
from tests.support.constructs import REFUSED, SERVED, RefusedModel, Served
from wire.errors import InvalidModel


@pytest.mark.parametrize("construct", SERVED, ids=lambda one: one.what)
def test_a_construct_is_exact_wherever_it_is_cut(construct: Served) -> None:
    outcome = try_everywhere(BackendCase(construct.what, construct.make(), construct.feeds()))
    assert (outcome.verdict, outcome.reason) == ("exact", "")
    assert outcome.ways >= 2


@pytest.mark.parametrize("construct", REFUSED, ids=lambda one: one.what)
def test_a_construct_is_refused_with_the_reason(construct: RefusedModel, tmp_path: Path) -> None:
    path = construct.write(tmp_path)
    with pytest.raises(InvalidModel) as caught:
        segment(path, "test", FolderSink(tmp_path / "blobs"))
    assert re.search(construct.words, str(caught.value))
    assert len(str(caught.value)) < 700
