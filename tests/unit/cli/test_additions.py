"""Adding a model: nothing is replaced unasked, and nothing is left of what failed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from crowdpipe.serving.additions import adding
from crowdpipe.serving.models import CutWishes, add_model
from crowdpipe.serving.stores import ServedStore, open_store
from tests.support.models import mlp, save
from wire.errors import DiskFull, UserError
from wire.manifest import BlobRef


def add(
    home: Path, seed: int = 0, segments: int = 3, batch: int = 1, *, replacing: bool = False
) -> str:
    file = save(mlp(3, seed), home / "model.onnx")
    with open_store(home) as store, adding(store, replacing=replacing) as additions:
        add_model(additions, file, "m", CutWishes(None, segments, {"batch": batch}))
        return store.get("m").digest


def kept(home: Path) -> dict[str, bytes]:
    folder = home / "store"
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.parametrize(
    "other", [{"seed": 1}, {"segments": 2}, {"batch": 3}], ids=["model", "cut", "bounds"]
)
def test_another_model_or_cut_under_a_used_name_is_refused_and_leaves_nothing(
    tmp_path: Path, other: dict[str, int]
):
    add(tmp_path)
    before = kept(tmp_path)
    with pytest.raises(UserError, match=r"a model 'm' already.*there: 3 segments.*--replace"):
        add(tmp_path, **other)  # type: ignore[arg-type]  # parametrised
    assert kept(tmp_path) == before


def test_another_model_replaces_one_where_that_is_asked_for(tmp_path: Path):
    first = add(tmp_path)
    assert add(tmp_path, seed=1, replacing=True) != first


def test_the_same_model_in_the_same_cut_is_no_replacement(tmp_path: Path):
    assert add(tmp_path) == add(tmp_path)


class FullAfter:
    """Blobs on a disk that takes so many more."""

    def __init__(self, store: ServedStore, count: int) -> None:
        self._blobs, self._left = store.blobs, count

    def put(self, chunks: Iterable[bytes], digest: str | None = None) -> BlobRef:
        if not self._left:
            raise DiskFull("no room left")
        self._left -= 1
        return self._blobs.put(chunks, digest)


@pytest.mark.parametrize("count", [1, 4])
def test_a_model_that_does_not_fit_leaves_nothing_of_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
):
    add(tmp_path)
    before = kept(tmp_path)
    file = save(mlp(6, 9), tmp_path / "other.onnx")
    with open_store(tmp_path) as store, pytest.raises(DiskFull):  # noqa: SIM117, PT012
        with adding(store) as additions:
            monkeypatch.setattr(additions.blobs, "put", FullAfter(additions, count).put)
            add_model(additions, file, "other", CutWishes(segments=6))
    assert kept(tmp_path) == before
