"""A model file as its author made it: opened, measured and checked, its weights left on disk.

`open_model` refuses, with `InvalidModel` and the reason, what is no ONNX model and what cannot
be served: inputs and outputs that are no tensors, files outside the model's folder, offsets and
lengths that lie. Sparse weights become
dense; every other change is for `normalise`.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor  # type: ignore[import-untyped]  # no stubs
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # no stubs

from orchestrator.segmentation.reading.complaints import telling_part
from orchestrator.segmentation.reading.ports import check_ports
from orchestrator.segmentation.reading.skeleton import read_skeleton
from orchestrator.segmentation.reading.sparse import densify
from orchestrator.segmentation.reading.tensors import (
    element_of,
    external_range,
    is_external,
    tensor_nbytes,
)
from orchestrator.segmentation.reading.walk import all_tensors, copied, sorted_nodes
from wire.elements import Element
from wire.errors import InvalidModel
from wire.manifest import BlobRef

CHUNK_NBYTES = 1 << 20
LFS_POINTER = b"version https://git-lfs.github.com/spec/"
ORT_FORMAT = b"ORTM"  # a flatbuffer's identifier, after its first offset
MAX_SKELETON_NBYTES = 1 << 30  # a graph without its weights; protobuf stops at 2 GiB


@dataclass(frozen=True, slots=True)
class FileRange:
    """Bytes of a file: those of one tensor, checked against the file's size."""

    path: Path
    offset: int
    nbytes: int

    def chunks(self) -> Iterator[bytes]:
        """The bytes, at most `CHUNK_NBYTES` at once. Raises `InvalidModel` if the file shrank."""
        left = self.nbytes
        with self.path.open("rb") as file:
            file.seek(self.offset)
            while left:
                chunk = file.read(min(left, CHUNK_NBYTES))
                if not chunk:
                    raise InvalidModel(f"{self.path.name} became shorter while it was read")
                left -= len(chunk)
                yield chunk


@dataclass(frozen=True, slots=True)
class ModelSource:
    """An opened model: its graph (large tensors external), and where their bytes are."""

    path: Path
    model: onnx.ModelProto
    blob: BlobRef

    def chunks(self, tensor: onnx.TensorProto) -> Iterator[bytes]:
        """The raw little-endian bytes of a tensor, external or not."""
        if is_external(tensor):
            yield from _range_of(tensor, self.path).chunks()
        else:
            yield tensor.raw_data

    def raw(self, tensor: onnx.TensorProto) -> bytes:
        return b"".join(self.chunks(tensor))


def open_model(path: Path) -> ModelSource:
    """The model at `path`, checked. Raises `InvalidModel` with the reason and what to do."""
    path = path.absolute()
    model = _parse(path)
    _check_content(model)
    check_ports(model)
    densify(model)
    for tensor in all_tensors(model):
        _check_tensor(tensor, path)
    _check_structure(model)
    return ModelSource(path, model, _source_blob(model, path))


def external_files(path: Path) -> tuple[str, ...]:
    """The other files that the model at `path` says its weights are in, relative to its folder.
    Nothing of that is checked. Raises `InvalidModel` if it is no model."""
    model = _parse(path.absolute())
    places = {external_range(t).location for t in all_tensors(model) if is_external(t)}
    return tuple(sorted(places - {path.name}))


def _parse(path: Path) -> onnx.ModelProto:
    skeleton = _skeleton_of(path)
    if len(skeleton) > MAX_SKELETON_NBYTES:
        raise InvalidModel(f"the graph of {path.name} is over 1 GiB even without its weights")
    try:
        model: onnx.ModelProto = onnx.ModelProto.FromString(skeleton)
    except DecodeError:
        raise InvalidModel(f"{path.name} is not an ONNX file") from None
    _check_text(model)
    return model


def _check_text(message: Any) -> None:
    """Names must be UTF-8: protobuf's second version does not see to it, and gives bytes."""
    for field, value in message.ListFields():
        single = isinstance(value, str | bytes) or hasattr(value, "ListFields")
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            for inner in (value,) if single else value:
                _check_text(inner)
        elif field.type == FieldDescriptor.TYPE_STRING:
            for text in (value,) if single else value:
                if not isinstance(text, str):
                    raise InvalidModel(f"a name in the model is not UTF-8 text: {text[:60]!r}")


def _skeleton_of(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size == 0:
                raise InvalidModel(f"{path.name} is empty or not a file; give an .onnx file")
            _check_start(file.read(len(LFS_POINTER)), path.name)
            file.seek(0)
            return read_skeleton(file, status.st_size, path.name)
    except OSError as error:
        raise InvalidModel(f"cannot read {path}: {error.strerror}") from None


def _check_start(start: bytes, name: str) -> None:
    if start == LFS_POINTER:
        raise InvalidModel(
            f"{name} only points to the model, which Git LFS keeps; type: git lfs pull"
        )
    if start[4:8] == ORT_FORMAT:
        raise InvalidModel(
            f"{name} is in ONNX Runtime's own format, which cannot be cut; give the .onnx file "
            "that it was made from"
        )


def _check_content(model: onnx.ModelProto) -> None:
    if not model.HasField("graph") or not model.opset_import or model.ir_version < 1:
        raise InvalidModel("not an ONNX model: it has no graph, no opset or no IR version")
    if not model.graph.output:
        raise InvalidModel("the model has no outputs, so there is nothing to compute")


def _check_tensor(tensor: onnx.TensorProto, path: Path) -> None:
    if tensor.HasField("segment"):
        raise InvalidModel(f"weight {tensor.name!r} is stored in segments, which nothing reads")
    if is_external(tensor):
        _range_of(tensor, path)
    elif tensor.HasField("raw_data") and len(tensor.raw_data) != tensor_nbytes(tensor):
        raise InvalidModel(
            f"weight {tensor.name!r} holds {len(tensor.raw_data)} bytes, "
            f"but its shape needs {tensor_nbytes(tensor)}"
        )


def _range_of(tensor: onnx.TensorProto, path: Path) -> FileRange:
    """Where an external tensor's bytes are; every claim checked against the file system."""
    if element_of(tensor) is Element.STRING:
        raise InvalidModel(f"weight {tensor.name!r} is of strings, which cannot be external")
    if tensor.HasField("raw_data"):
        raise InvalidModel(f"weight {tensor.name!r} is both inside the model and external")
    claim = external_range(tensor)
    file = _inside(claim.location, path, tensor.name)
    nbytes = tensor_nbytes(tensor)
    if claim.length is not None and claim.length != nbytes:
        raise InvalidModel(
            f"weight {tensor.name!r} is {claim.length} bytes long, but its shape needs {nbytes}"
        )
    if claim.offset + nbytes > file.stat().st_size:
        raise InvalidModel(
            f"weight {tensor.name!r} lies beyond the end of {claim.location}; "
            "the file is truncated or belongs to another model"
        )
    return FileRange(file, claim.offset, nbytes)


def _inside(location: str, path: Path, name: str) -> Path:
    """The file that `location` names, if it is a plain file in the model's own folder."""
    pure = PurePosixPath(location)
    absolute = pure.is_absolute() or PureWindowsPath(location).anchor
    if not location or absolute or ".." in pure.parts or "\\" in location or "\0" in location:
        raise InvalidModel(
            f"weight {name!r} points to {location[:120]!r}; "
            "weights must be in files inside the model's own folder"
        )
    folder = path.parent.resolve()
    file = path.resolve() if location == path.name else (folder / pure).resolve()
    if location != path.name and not file.is_relative_to(folder):
        raise InvalidModel(f"weight {name!r} is behind a link that leaves the model's folder")
    if not file.is_file():
        raise InvalidModel(f"weight {name!r} is in {location}, which is missing beside the model")
    return file


def _check_structure(model: onnx.ModelProto) -> None:
    """ONNX's own checker, on a copy whose external tensors are emptied (it would open files)."""
    copy = copied(model)
    for tensor in all_tensors(copy):
        if is_external(tensor):
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
            tensor.ClearField("dims")
            tensor.dims.append(0)
    for value in (*copy.graph.input, *copy.graph.output):
        _give_shape(value)
    nodes = sorted_nodes(copy.graph)
    del copy.graph.node[:]
    copy.graph.node.extend(nodes)
    try:
        onnx.checker.check_model(copy)
    except onnx.checker.ValidationError as error:
        raise InvalidModel(f"ONNX's checker refuses the model: {telling_part(error)}") from None


def _give_shape(value: onnx.ValueInfoProto) -> None:
    """The checker wants a shape everywhere; ONNX Runtime does without, and so do many files."""
    if not value.type.WhichOneof("value"):
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    if value.type.HasField("tensor_type"):
        value.type.tensor_type.shape.SetInParent()
    if value.type.HasField("sequence_type"):
        value.type.sequence_type.elem_type.tensor_type.shape.SetInParent()


def _source_blob(model: onnx.ModelProto, path: Path) -> BlobRef:
    """The author's file; with external data, a digest over the digests of all files."""
    places = {external_range(t).location for t in all_tensors(model) if is_external(t)}
    others = sorted(places - {path.name})
    digests = [_sha256_of(path), *(_sha256_of(path.parent / name) for name in others)]
    nbytes = sum((path.parent / name).stat().st_size for name in (path.name, *others))
    if not others:
        return BlobRef(digests[0], nbytes)
    names = ("", *others)
    listing = "".join(f"{d} {n}\n" for d, n in zip(digests, names, strict=True))
    return BlobRef(hashlib.sha256(listing.encode()).hexdigest(), nbytes)


def _sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
