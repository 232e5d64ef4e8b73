"""From what a person names to a model file: a file, a folder with one, or a model on the hub."""

from __future__ import annotations

from pathlib import Path

from crowdpipe.serving.hub import SCHEME, choose_model, fetch_from_hub


def default_cache() -> Path:
    """Where models from the hub are kept; may be emptied at any time."""
    return Path.home() / ".cache" / "crowdpipe" / "hub"


def find_model(given: str, cache: Path | None = None) -> Path:
    """The model's file; what is on the hub is fetched into `cache` first.

    Raises what `fetch_from_hub` raises, and `UserError` or `UnknownModel` for a folder without
    one model. Whether the file exists and is a model is the segmenter's to say.
    """
    if given.startswith(SCHEME):
        return fetch_from_hub(given, cache or default_cache())
    path = Path(given).expanduser()
    if path.is_dir():
        names = sorted(file.relative_to(path).as_posix() for file in path.rglob("*.onnx"))
        return path / choose_model(names, None, str(path))
    return path
