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
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from wire.errors import InvalidInput, UserError
from wire.unwritable import FULL, unwritable

Layout = Literal["one", "numbered", "batch"]
Arrays = dict[str, NDArray[Any]]
_NUMBERED = re.compile(r"(-?[0-9]{1,9})/(.+)", re.DOTALL)
_SINGLE_ARRAY = b"\x93NUMPY"
_ZIP = b"PK"
TOLD_ARRAYS = 6
PROBE_NBYTES = 4096  # a file system gives room in such steps
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
    named = set(arrays) <= set(input_names) or not any(map(_NUMBERED.fullmatch, arrays))
    if batch and not named:
        raise InvalidInput(f"{path}: its items are numbered; --batch is for files without numbers")
    if batch:
        return "batch", _split(path, arrays)
    if named:
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
            _check_names(path, members)
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


def _check_names(path: Path, members: Sequence[zipfile.ZipInfo]) -> None:
    names = Counter(map(_key_of, members))
    twice = next((name for name, count in names.items() if count > 1), None)
    if twice is not None:
        raise UserError(f"array {twice!r} is in {path} twice; write it again with numpy.savez")


def _key_of(info: zipfile.ZipInfo) -> str:
    return info.filename.removesuffix(".npy")


def _read_member(
    path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo
) -> tuple[str, NDArray[Any]]:
    key = _key_of(info)
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
        raise InvalidInput(
            f"{path}: with --batch the first axis of every array counts the items, "
            f"so all must agree; found {_listed(counts)}"
        )
    count = next(iter(counts.values())) or 0
    return [{name: array[item] for name, array in arrays.items()} for item in range(count)]


def _listed(counts: Mapping[str, int | None]) -> str:
    told = [f"{name}: {count}" for name, count in islice(counts.items(), TOLD_ARRAYS)]
    if len(counts) > TOLD_ARRAYS:
        told.append(f"and {len(counts) - TOLD_ARRAYS} more")
    return ", ".join(told) or "no array"


def _numbered(path: Path, arrays: Arrays) -> list[Arrays]:
    items: dict[int, Arrays] = {}
    for key, array in arrays.items():
        item, name = _item_and_name(path, key)
        if name in items.setdefault(item, {}):
            raise InvalidInput(f"{path}: {name!r} of item {item} is there twice, one as {key!r}")
        items[item][name] = array
    if sorted(items) != list(range(len(items))):
        missing = next(item for item in range(len(items)) if item not in items)
        raise InvalidInput(f"{path}: items are numbered from 0 without gaps; {missing} is missing")
    return [items[item] for item in range(len(items))]


def _item_and_name(path: Path, key: str) -> tuple[int, str]:
    found = _NUMBERED.fullmatch(key)
    if found is None:
        raise InvalidInput(
            f"{path}: array {key!r} has no item number while others do; "
            "name all of them like '0/input_ids'"
        )
    if found.group(1).startswith("-"):
        raise InvalidInput(f"{path}: array {key!r}: items are numbered from 0")
    return int(found.group(1)), found.group(2)


def check_output(path: Path) -> None:
    """Raises `UserError` if results could not be written to `path`, `DiskFull` if there is no room
    for any: whoever waited for them would have waited for nothing. Leaves nothing behind."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder} to write results into")
    if path.is_dir():
        raise UserError(f"{path} is a folder; name a file in it, as {path / 'out.npz'}")
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is no ordinary file; name another")
    with _replacing(path) as partial:
        partial.write_bytes(b"\0" * PROBE_NBYTES)


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Where to write what shall replace `path`; gone afterwards."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        yield partial
    except OSError as error:
        if error.errno in FULL:
            raise unwritable(path.absolute().parent, error) from None
        raise UserError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def write_items(
    path: Path,
    layout: Layout,
    results: Sequence[Mapping[str, NDArray[Any]]],
    items: Sequence[int] | None = None,
) -> bool:
    """Write results as the inputs were laid out; replaces the file whole or not at all. `items`:
    their numbers, if not from 0.

    False if results of a batch differ in shape, so that they could only be written numbered.
    Raises `UserError`, or `DiskFull`.
    """
    keyed, as_asked = _keyed(layout, results, items or range(len(results)))
    with _replacing(path) as partial:
        with zipfile.ZipFile(partial, "w") as archive:
            for key, array in keyed.items():
                _write_array(archive, key, _as_text(array))
        partial.replace(path)
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
