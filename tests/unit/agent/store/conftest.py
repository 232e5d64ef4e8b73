"""Fixtures of the tests that fetch blobs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.blob_store import BlobStore, Fetching


@pytest.fixture
def store() -> Iterator[BlobStore]:
    store = BlobStore()
    yield store
    store.close()


@pytest.fixture
def fetching(tmp_path: Path) -> Iterator[Fetching]:
    fetching = Fetching(tmp_path)
    yield fetching
    fetching.fetcher.close()
