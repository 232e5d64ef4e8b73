"""Items in `.npz` files: what `crowdpipe run` reads and writes.

Three layouts. *One*: an array per model input, the file is one item. *Numbered*: keys
`0/input_ids`, `0/attention_mask`, `1/input_ids`, …, items may differ in shape. *Batch*: an array
per model input whose first axis counts items. Results are written in the layout of the inputs.
Whether names, types and shapes are the model's is the client library's to say.
"""

from __future__ import annotations

import math
import re
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from wire.errors import InvalidInput, UserError

Layout = Literal["one", "numbered", "batch"]
Arrays = dict[str, NDArray[Any]]
_NUMBERED = re.compile(r"(\d{1,9})/(.+)", re.DOTALL)
_SINGLE_ARRAY = b"\x93NUMPY"
_ZIP = b"PK"
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


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
    """Every array of an `.npz` file; strings become Python objects, as ONNX Runtime wants them.

    What a header claims is held against the bytes that are there, before anything is allocated.
    """
    try:
        with path.open("rb") as file:
            _check_kind(path, file.read(len(_SINGLE_ARRAY)))
        with zipfile.ZipFile(path) as archive:
            members = [info for info in archive.infolist() if not info.is_dir()]
            return dict(_read_member(path, archive, info) for info in members)
    except FileNotFoundError:
        raise UserError(f"there is no file {path}") from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error, RuntimeError) as error:
        # RuntimeError: an encrypted member, or a compression that this Python has not.
        raise UserError(
            f"{path} is damaged or truncated ({error}); write it again with numpy.savez"
        ) from None


def _check_kind(path: Path, begins: bytes) -> None:
    if begins == _SINGLE_ARRAY:
        raise UserError(f"{path} is a single array; save it with numpy.savez and a name")
    if not begins.startswith(_ZIP):
        what = "is empty" if not begins else "is not an .npz file"
        raise UserError(f"{path} {what}; write one with numpy.savez({str(path)!r}, input=array)")


def _read_member(
    path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo
) -> tuple[str, NDArray[Any]]:
    key = info.filename.removesuffix(".npy")
    with archive.open(info) as member:
        try:
            shape, _, dtype = _HEADERS[np.lib.format.read_magic(member)](member)
        except (ValueError, KeyError):
            raise UserError(
                f"{path} holds {info.filename!r}, which is no array; write it with numpy.savez"
            ) from None
    if dtype.hasobject:
        raise UserError(
            f"array {key!r} of {path} holds Python objects; save numbers as numbers, "
            "and texts with numpy.array(texts, dtype=str)"
        )
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes > info.file_size:
        raise UserError(
            f"array {key!r} of {path} claims {nbytes} bytes, and {info.file_size} are there; "
            "write it again with numpy.savez"
        )
    with archive.open(info) as member:
        return key, _as_strings(np.lib.format.read_array(member, allow_pickle=False))


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


def check_folder(path: Path) -> None:
    """Raises `UserError` if there is no folder to write the file into."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder} to write results into")


def write_items(
    path: Path,
    layout: Layout,
    results: Sequence[Mapping[str, NDArray[Any]]],
    items: Sequence[int] | None = None,
) -> bool:
    """Write results as the inputs were laid out; replaces the file whole or not at all. `items`:
    their numbers, if not from 0.

    False if results of a batch differ in shape, so that they could only be written numbered.
    """
    keyed, as_asked = _keyed(layout, results, items or range(len(results)))
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


def _keyed(
    layout: Layout, results: Sequence[Mapping[str, NDArray[Any]]], items: Sequence[int]
) -> tuple[Arrays, bool]:
    if layout == "one":
        return dict(results[0]), True
    if layout == "batch" and _same_shapes(results):
        names = results[0] if results else {}
        return {name: np.stack([result[name] for result in results]) for name in names}, True
    numbered = {
        f"{item}/{name}": array
        for item, result in zip(items, results, strict=True)
        for name, array in result.items()
    }
    return numbered, layout == "numbered"


def _same_shapes(results: Sequence[Mapping[str, NDArray[Any]]]) -> bool:
    return len({tuple((name, a.shape) for name, a in result.items()) for result in results}) <= 1


def _as_text(array: NDArray[Any]) -> NDArray[Any]:
    return array.astype(str) if array.dtype == object else array
