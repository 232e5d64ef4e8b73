"""Where a segmenter's content goes: something that takes bytes and answers with their digest."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from wire.manifest import BlobRef

Sink = Callable[[Iterable[bytes]], BlobRef]


class FolderSink:
    """Stores each blob in a folder as a file named by its digest, whole or not at all."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder

    def __call__(self, chunks: Iterable[bytes]) -> BlobRef:
        digest, nbytes = hashlib.sha256(), 0
        with tempfile.NamedTemporaryFile(
            dir=self._folder, prefix=".partial-", delete=False
        ) as file:
            partial = Path(file.name)
            try:
                for chunk in chunks:
                    file.write(chunk)
                    digest.update(chunk)
                    nbytes += len(chunk)
            except BaseException:
                partial.unlink()
                raise
        partial.replace(self._folder / digest.hexdigest())
        return BlobRef(digest.hexdigest(), nbytes)
