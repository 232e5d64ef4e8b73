"""Rows of a table, read from its blob as they are needed.

The semantics are those of ONNX's Gather along axis 0: negative indices count from the end, and
an index outside the table is an error. Which tables are read so is decided elsewhere.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from edge_agent.adapters.runtime.outside_table import outside
from edge_agent.adapters.runtime.row_graph import RowRead
from wire.errors import LoadFailed


class RowSource:
    """One table. Keeps its blob open until `close`."""

    def __init__(self, read: RowRead, blob: Path) -> None:
        """Raises `LoadFailed` if the table is not all in the blob."""
        self.indices, self.output = read.indices, read.output
        self._table = read.table
        end = read.table.offset + read.table.rows * read.table.row_nbytes
        try:
            self._file: IO[bytes] = blob.open("rb", buffering=0)
        except OSError as error:
            raise LoadFailed(f"the table for {read.output!r} cannot be read: {error}") from None
        if os.fstat(self._file.fileno()).st_size < end:
            self.close()
            raise LoadFailed(f"the table for {read.output!r} ends beyond its blob")
        with suppress(OSError, AttributeError):  # a hint: rows are far apart, read no more
            os.posix_fadvise(self._file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)

    def rows(self, indices: Any) -> Any:
        """The rows that an OrtValue of int32 or int64 names, as an OrtValue of its shape and then
        a row's. Raises `ComputeFailed` for an index outside the table."""
        import onnxruntime

        wanted = [int(index) for index in indices.numpy().reshape(-1)]
        places = [self._place_of(index) for index in wanted]
        shape = [*indices.shape(), *self._table.row_dims]
        value = onnxruntime.OrtValue.ortvalue_from_shape_and_type(shape, int(self._table.kind))
        if places:
            self._fill(value.data_ptr(), places)
        return value

    def _place_of(self, index: int) -> int:
        rows = self._table.rows
        if not -rows <= index < rows:
            raise outside(index, rows, self.output)
        row = index + rows if index < 0 else index
        return self._table.offset + row * self._table.row_nbytes

    def _fill(self, address: int, places: list[int]) -> None:
        nbytes = self._table.row_nbytes
        target = memoryview((ctypes.c_char * (nbytes * len(places))).from_address(address))
        target = target.cast("B")
        for at, place in enumerate(places):
            data = os.pread(self._file.fileno(), nbytes, place)
            if len(data) != nbytes:
                raise LoadFailed(f"the table for {self.output!r} was cut short on disk")
            target[at * nbytes : (at + 1) * nbytes] = data

    def close(self) -> None:
        self._file.close()
