"""Loads segments of one partition, from what this device prepared of them if there is room.

The first load of a segment prepares it: ONNX Runtime writes the graph as it would run it, and its
packed weights, which every later load maps. Without room on disk for that, or where ONNX Runtime
cannot, the segment is loaded as its author made it. Budgets of memory are kept in
`loaded_partition`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from edge_agent.adapters.device.memory import trim
from edge_agent.adapters.device.runtime_version import can_prepare, runtime_version
from edge_agent.adapters.runtime.joined_graph import GraphPart, joined_graph
from edge_agent.adapters.runtime.loaded_segment import LoadedSegment
from edge_agent.adapters.runtime.mapped_file import MappedFile, bring_in
from edge_agent.adapters.runtime.onnx_runtime import SegmentSession, save_prepared
from edge_agent.adapters.runtime.row_graph import RowGraph, without_row_reads
from edge_agent.adapters.runtime.row_source import RowSource
from edge_agent.adapters.store.cache import BlobCache
from edge_agent.adapters.store.prepared import WEIGHTS, Prepared
from wire.errors import LoadFailed, OverBudget
from wire.memory import prepared_need
from wire.messages.assignment import SegmentRef

_log = logging.getLogger("crowdpipe.agent.executor")


class SegmentLoader:
    """`room_nbytes` bounds what may be prepared on disk; None says that it need not be bounded.
    `prepare_s` are the seconds that went into preparing so far."""

    def __init__(
        self,
        cache: BlobCache,
        *,
        exact: bool,
        streamed: bool,
        threads: int,
        room_nbytes: int | None,
    ) -> None:
        self._cache = cache
        self._exact, self._streamed, self._threads = exact, streamed, threads
        self._room_nbytes = room_nbytes
        self.prepare_s = 0.0

    def has_prepared(self, refs: Sequence[SegmentRef]) -> bool:
        """All of them: then `load` may be called from several threads."""
        find = self._cache.prepared.find
        return all(find(ref.graph.digest, self._exact) is not None for ref in refs)

    def load(self, ref: SegmentRef) -> LoadedSegment:
        """Raises `LoadFailed`, `OverBudget`, `BlobMissing` or `BlobCorrupt`."""
        for blob in ref.blobs:
            self._cache.check(blob.digest)
        graph = self._row_graph(ref)
        rows: list[RowSource] = []
        try:
            for read in graph.reads if graph else ():
                rows.append(RowSource(read, self._blob_of(ref, read.table.blob)))
            return self._with_session(ref, graph, rows)
        except BaseException:
            for source in rows:
                source.close()
            raise

    def _row_graph(self, ref: SegmentRef) -> RowGraph | None:
        if not ref.row_tables:
            return None
        return without_row_reads(self._cache.path(ref.graph.digest).read_bytes(), ref.row_tables)

    def _blob_of(self, ref: SegmentRef, digest: str) -> Path:
        """Only a blob of this segment, whose digest was checked, may be read."""
        if digest not in {blob.digest for blob in ref.weights}:
            raise LoadFailed(f"the graph reads rows of {digest[:12]}, which is not the segment's")
        return self._cache.path(digest)

    def _with_session(
        self, ref: SegmentRef, graph: RowGraph | None, rows: list[RowSource]
    ) -> LoadedSegment:
        if graph is not None and not graph.graph:
            return LoadedSegment(ref.inputs, ref.outputs, None, rows, ())
        takes = (*ref.inputs, *(graph.added if graph else ()))
        makes = [name for name in ref.outputs if name not in {source.output for source in rows}]
        for _ in range(2):  # what has rotted on disk is made anew, once
            prepared = self._prepared(ref, graph)
            if prepared is None:
                break
            bring_in(prepared.weights)
            try:
                session = self._session(prepared.graph, takes, makes, optimised=True)
            except LoadFailed as error:
                _log.warning("what was prepared of segment %d is dropped: %s", ref.index, error)
                self._cache.prepared.drop(ref.graph.digest, self._exact)
            else:
                files = [MappedFile(prepared.weights)]
                return LoadedSegment(ref.inputs, ref.outputs, session, rows, files)
        with self._source(ref, graph) as source:
            session = self._session(source, takes, makes, optimised=False)
        return LoadedSegment(ref.inputs, ref.outputs, session, rows, self._weight_files(ref))

    def _session(
        self, graph: Path, takes: tuple[str, ...], makes: list[str], *, optimised: bool
    ) -> SegmentSession:
        return SegmentSession(
            graph,
            takes,
            makes,
            exact=self._exact,
            threads=self._threads,
            prepacked=self._exact or optimised or not self._streamed,
            optimised=optimised,
        )

    def _weight_files(self, ref: SegmentRef) -> list[MappedFile]:
        return [MappedFile(self._cache.path(blob.digest)) for blob in ref.weights]

    @contextmanager
    def _source(self, ref: SegmentRef, graph: RowGraph | None) -> Iterator[Path]:
        """The author's graph; without row reads, a file beside the blobs while it is loaded."""
        if graph is None:
            yield self._cache.path(ref.graph.digest)
            return
        with self._scratch(ref, graph.graph) as path:
            yield path

    @contextmanager
    def _scratch(self, ref: SegmentRef, graph: bytes) -> Iterator[Path]:
        path = self._cache.scratch_path(ref.graph.digest)
        try:
            path.write_bytes(graph)
            yield path
        except OSError as error:
            raise LoadFailed(f"a graph cannot be written to be loaded: {error}") from None
        finally:
            path.unlink(missing_ok=True)

    # --- joining ------------------------------------------------------------------------------

    def load_joined(self, refs: Sequence[SegmentRef], wanted: Collection[str]) -> LoadedSegment:
        """Several, all of them prepared, as one session that makes those of `wanted` that they
        make. Raises `LoadFailed` if that cannot be, or what `load` raises."""
        for ref in refs:
            for blob in ref.blobs:
                self._cache.check(blob.digest)
        graphs = [(ref, self._row_graph(ref)) for ref in refs]
        rows: list[RowSource] = []
        try:
            for ref, graph in graphs:
                for read in graph.reads if graph else ():
                    rows.append(RowSource(read, self._blob_of(ref, read.table.blob)))
            return self._joined_session(_with_graphs(graphs), refs, rows, wanted)
        except BaseException:
            for source in rows:
                source.close()
            raise

    def _joined_session(
        self,
        graphs: Sequence[tuple[SegmentRef, tuple[str, ...]]],
        refs: Sequence[SegmentRef],
        rows: list[RowSource],
        wanted: Collection[str],
    ) -> LoadedSegment:
        read = {source.output for source in rows}
        made = [name for ref in refs for name in ref.outputs]
        outputs = [name for name in made if name in wanted]
        makes = [name for name in outputs if name not in read]
        own = set(made) - read
        takes = tuple(dict.fromkeys(n for _, names in graphs for n in names if n not in own))
        inputs = dict.fromkeys(name for name in takes if name not in read)
        inputs |= dict.fromkeys(source.indices for source in rows)
        if not makes:
            return LoadedSegment(tuple(inputs), outputs, None, rows, ())
        found = [self._found(ref) for ref, _ in graphs]
        parts = [self._part(ref, files) for (ref, _), files in zip(graphs, found, strict=True)]
        for files in found:
            bring_in(files.weights)
        with self._scratch(graphs[0][0], joined_graph(parts, takes, makes)) as path:
            session = self._session(path, takes, makes, optimised=True)
        weights = [MappedFile(files.weights) for files in found]
        return LoadedSegment(tuple(inputs), outputs, session, rows, weights)

    def _found(self, ref: SegmentRef) -> Prepared:
        found = self._cache.prepared.find(ref.graph.digest, self._exact)
        if found is None:
            raise LoadFailed(f"segment {ref.index} is not prepared")
        return found

    def _part(self, ref: SegmentRef, files: Prepared) -> GraphPart:
        """ONNX Runtime takes weights from below the graph's own folder only: the cache's, where
        scratch files lie."""
        folder = files.graph.parent.relative_to(self._cache.folder).as_posix()
        try:
            return GraphPart(ref.index, files.graph.read_bytes(), f"{folder}/")
        except OSError as error:
            raise LoadFailed(f"segment {ref.index} cannot be read: {error}") from None

    # --- preparing ----------------------------------------------------------------------------

    def _prepared(self, ref: SegmentRef, graph: RowGraph | None) -> Prepared | None:
        found = self._cache.prepared.find(ref.graph.digest, self._exact)
        if found is not None:
            return found
        made = self._prepare(ref, graph) if self._may_prepare(ref) else None
        if made is None and self._exact and self._streamed:
            raise OverBudget(
                f"segment {ref.index} can only be streamed exactly from a packed copy, for which "
                f"there is no room on disk: give the cache {prepared_need(ref)} bytes more"
            )
        return made

    def _may_prepare(self, ref: SegmentRef) -> bool:
        if not can_prepare(runtime_version()):
            return False
        return self._room_nbytes is None or prepared_need(ref) <= self._room_nbytes

    def _prepare(self, ref: SegmentRef, graph: RowGraph | None) -> Prepared | None:
        began_s = time.monotonic()
        try:
            with self._source(ref, graph) as source:
                made = self._cache.prepared.make(
                    ref.graph.digest, self._exact, lambda files: self._write(source, files)
                )
        except (LoadFailed, OSError) as error:
            _log.info("segment %d stays as it is: %s", ref.index, error)
            return None
        finally:
            trim()
            self.prepare_s += time.monotonic() - began_s
        if self._room_nbytes is not None:
            entry = self._cache.prepared.entry(ref.graph.digest, self._exact)
            self._room_nbytes -= self._cache.prepared.nbytes_of(entry)
        return made

    def _write(self, source: Path, files: Prepared) -> None:
        save_prepared(source, files.graph, WEIGHTS, exact=self._exact)


def _with_graphs(
    graphs: Sequence[tuple[SegmentRef, RowGraph | None]],
) -> list[tuple[SegmentRef, tuple[str, ...]]]:
    """Those with more than row reads, and all that their graphs take."""
    return [
        (ref, (*ref.inputs, *(graph.added if graph else ())))
        for ref, graph in graphs
        if graph is None or graph.graph
    ]
