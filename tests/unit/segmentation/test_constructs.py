"""Each construct of the table in the documentation is served exactly, or refused in words."""

from __future__ import annotations

import platform
import re
from pathlib import Path

import pytest

from orchestrator.segmentation.segmenter import segment
from orchestrator.segmentation.writing.blob_sink import FolderSink
from tests.support.backend_cases import BackendCase, try_everywhere
from tests.support.constructs import SERVED, Served
from tests.support.model_table import PAGE, rewritten
from tests.support.refused_models import REFUSED, RefusedModel
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


@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"),
    reason="the page counts the places where float16 models are cut on x86-64",
)
def test_the_table_in_the_documentation_is_up_to_date() -> None:
    page = PAGE.read_text()
    assert rewritten(page) == page, "type: python -m tests.support.model_table"
