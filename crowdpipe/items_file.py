"""Items in `.npz` files: what `crowdpipe run` reads and writes.

Three layouts. *One*: an array per model input, the file is one item. *Numbered*: keys
`0/input_ids`, `0/attention_mask`, `1/input_ids`, …, items may differ in shape. *Batch*: an array
per model input whose first axis counts items. Results are written in the layout of the inputs.
Whether names, types and shapes are the model's is the client library's to say.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from wire.errors import InvalidInput, UserError

Layout = Literal["one", "numbered", "batch"]
Arrays = dict[str, NDArray[Any]]
_NUMBERED = re.compile(r"(\d{1,9})/(.+)", re.DOTALL)


def read_items(
    path: Path, input_names: Sequence[str], batch: bool = False
) -> tuple[Layout, list[Arrays]]:
    """The items of a file in order, and its layout. Nothing in it is unpickled.

    Raises `UserError` if the file cannot be read, `InvalidInput` if its keys fit no layout.
    """
    return split_items(path, read_arrays(path), input_names, batch)


def split_items(
    path: Path, arrays: Arrays, input_names: Sequence[str], batch: bool = False
) -> tuple[Layout, list[Arrays]]:
    """As `read_items`, for arrays that were read from `path` already."""
    if batch:
        return "batch", _split(path, arrays)
    if set(arrays) <= set(input_names) or not any(map(_NUMBERED.fullmatch, arrays)):
        return "one", [arrays]
    return "numbered", _numbered(path, arrays)


def read_arrays(path: Path) -> Arrays:
    """Every array of an `.npz` file; strings become Python objects, as ONNX Runtime wants them."""
    try:
        archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise UserError(f"{path} is a single array; save it with numpy.savez and a name")
        with archive:
            return {key: _as_strings(archive[key]) for key in archive.files}
    except FileNotFoundError:
        raise UserError(f"there is no file {path}") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise UserError(f"{path} is not an .npz file of plain arrays: {error}") from None


def _as_strings(array: NDArray[Any]) -> NDArray[Any]:
    return array.astype(object) if array.dtype.kind == "U" else array


def _split(path: Path, arrays: Arrays) -> list[Arrays]:
    counts = {name: array.shape[0] if array.ndim else None for name, array in arrays.items()}
    if len(set(counts.values())) != 1 or None in counts.values():
        told = ", ".join(f"{name}: {count}" for name, count in counts.items())
        raise InvalidInput(
            f"{path}: with --batch the first axis of every array counts the items, "
            f"so all must agree; found {told or 'no array'}"
        )
    count = next(iter(counts.values())) or 0
    return [{name: array[item] for name, array in arrays.items()} for item in range(count)]


def _numbered(path: Path, arrays: Arrays) -> list[Arrays]:
    items: dict[int, Arrays] = {}
    for key, array in arrays.items():
        found = _NUMBERED.fullmatch(key)
        if found is None:
            raise InvalidInput(
                f"{path}: array {key!r} has no item number while others do; "
                "name all of them like '0/input_ids'"
            )
        items.setdefault(int(found.group(1)), {})[found.group(2)] = array
    if sorted(items) != list(range(len(items))):
        missing = next(item for item in range(len(items)) if item not in items)
        raise InvalidInput(f"{path}: items are numbered from 0 without gaps; {missing} is missing")
    return [items[item] for item in range(len(items))]


def write_items(path: Path, layout: Layout, results: Sequence[Mapping[str, NDArray[Any]]]) -> bool:
    """Write results as the inputs were laid out; replaces the file whole or not at all.

    False if results of a batch differ in shape, so that they could only be written numbered.
    """
    keyed, as_asked = _keyed(layout, results)
    partial = path.with_name(f".{path.name}.partial")
    try:
        with zipfile.ZipFile(partial, "w") as archive:
            for key, array in keyed.items():
                _write_array(archive, key, _as_text(array))
        partial.replace(path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        partial.unlink(missing_ok=True)
    return as_asked


def _write_array(archive: zipfile.ZipFile, key: str, array: NDArray[Any]) -> None:
    """As numpy.savez does, which takes names as keyword arguments and fails on some (`file`)."""
    with archive.open(f"{key}.npy", "w", force_zip64=True) as member:
        np.lib.format.write_array(member, array, allow_pickle=False)


def _keyed(layout: Layout, results: Sequence[Mapping[str, NDArray[Any]]]) -> tuple[Arrays, bool]:
    if layout == "one":
        return dict(results[0]), True
    if layout == "batch" and _same_shapes(results):
        names = results[0] if results else {}
        return {name: np.stack([result[name] for result in results]) for name in names}, True
    numbered = {
        f"{item}/{name}": array
        for item, result in enumerate(results)
        for name, array in result.items()
    }
    return numbered, layout == "numbered"


def _same_shapes(results: Sequence[Mapping[str, NDArray[Any]]]) -> bool:
    return len({tuple((name, a.shape) for name, a in result.items()) for result in results}) <= 1


def _as_text(array: NDArray[Any]) -> NDArray[Any]:
    return array.astype(str) if array.dtype == object else array
