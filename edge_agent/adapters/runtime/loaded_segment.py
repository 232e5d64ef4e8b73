"""One session in memory, of a segment or of several that were joined: what it takes and makes, the
tables that are read by row for it, and where its weights lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edge_agent.adapters.runtime.mapped_file import MappedFile
from edge_agent.adapters.runtime.onnx_runtime import SegmentSession
from edge_agent.adapters.runtime.row_source import RowSource
from wire.errors import Malformed


class LoadedSegment:
    """`session` is None where rows are all that is made."""

    def __init__(
        self,
        inputs: Sequence[str],
        outputs: Sequence[str],
        session: SegmentSession | None,
        rows: Sequence[RowSource],
        weight_files: Sequence[MappedFile],
    ) -> None:
        self._inputs, self._outputs = tuple(inputs), tuple(outputs)
        self._session = session
        self._takes = session.inputs if session else ()
        self._rows = rows
        self._weights = weight_files

    @property
    def computes(self) -> bool:
        return self._session is not None

    def run(self, values: dict[str, Any]) -> dict[str, Any]:
        """OrtValues by name in and out. Raises `ComputeFailed`, `LoadFailed` if a table was cut
        short, or `Malformed` if `values` lacks an input."""
        for name in self._inputs:
            if name not in values:
                raise Malformed(f"the frame lacks {name!r}, which the partition needs")
        made = {source.output: source.rows(values[source.indices]) for source in self._rows}
        if self._session is not None:
            feeds = {name: made[name] if name in made else values[name] for name in self._takes}
            made |= self._session.run(feeds)
        return {name: made[name] for name in self._outputs}

    def give_back_weights(self) -> None:
        """They leave this process's memory until the next run."""
        for file in self._weights:
            file.give_back()

    def close(self) -> None:
        for file in self._weights:  # before the session, which unmaps them
            file.forget()
        for source in self._rows:
            source.close()
        self._session = None
