"""The models that can be served, by name and by digest: several names may stand for one digest.

Records only. What follows when one comes or goes is decided in `runs.models`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from wire.manifest import Manifest


class Models(Mapping[str, Manifest]):
    """By name. `by_digest`: exactly the same; of those with one digest, that told last."""

    def __init__(self) -> None:
        self.by_digest: dict[str, Manifest] = {}
        self._by_name: dict[str, Manifest] = {}
        self._names: dict[str, set[str]] = {}  # by digest; none is empty

    def __getitem__(self, name: str) -> Manifest:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def add(self, manifest: Manifest) -> None:
        self.remove(manifest.name)
        self._by_name[manifest.name] = self.by_digest[manifest.digest] = manifest
        self._names.setdefault(manifest.digest, set()).add(manifest.name)

    def remove(self, name: str) -> Manifest | None:
        """What had the name; its digest goes with the last name that stands for it."""
        manifest = self._by_name.pop(name, None)
        if manifest is None:
            return None
        names = self._names[manifest.digest]
        names.discard(name)
        if not names:
            del self._names[manifest.digest], self.by_digest[manifest.digest]
        return manifest
