"""A real sentence encoder, cut by default, answers as the whole does: bit for bit when exact."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from examples.minilm import build_minilm
from examples.sentences import SENTENCES, THEMES, nearest, tokenise
from orchestrator.segmentation.checking.verify import (
    compare,
    identical,
    open_session,
    run_chain,
    run_whole,
)
from orchestrator.segmentation.segmenter import segment
from orchestrator.segmentation.writing.blob_sink import FolderSink
from tests.support.backend_cases import try_ways, ways_to_cut
from wire.manifest import Manifest

MIB = 1 << 20
MEASURE = """
import resource, sys
from pathlib import Path
from orchestrator.segmentation.writing.blob_sink import FolderSink
from orchestrator.segmentation.segmenter import segment

def peak_kib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

before = peak_kib()
segment(Path(sys.argv[1]), "minilm", FolderSink(Path(sys.argv[2])))
print(peak_kib() - before)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("minilm")


@pytest.fixture(scope="module")
def model(folder: Path) -> Path:
    return build_minilm(folder / "minilm.onnx")


@pytest.fixture(scope="module")
def manifest(model: Path, folder: Path) -> Manifest:
    return segment(model, "minilm", FolderSink(folder / "blobs"))


def test_minilm_is_cut_finely_and_at_narrow_places(manifest: Manifest) -> None:
    assert 10 <= len(manifest.segments) <= 16
    hidden = 512 * 384 * 4
    assert all(cut.bound_nbytes < 1.01 * hidden for cut in manifest.cuts[1:-1])
    heavy = [s for s in manifest.segments if s.weight_nbytes > 16 * MIB]
    assert [s.row_tables for s in heavy] == [("words",)]
    costs = [s.cost for s in manifest.segments if s.cost > 1e6]
    assert max(costs) < 1.5 * min(costs)


def test_minilm_in_segments_gives_the_bits_of_the_whole(
    model: Path, folder: Path, manifest: Manifest
) -> None:
    for feeds in tokenise(SENTENCES[::20]):
        whole = run_whole(model, feeds, exact=True)
        assert identical(run_chain(folder / "blobs", manifest, feeds, exact=True), whole)


def test_minilm_is_exact_in_twenty_random_ways(model: Path, folder: Path) -> None:
    feeds = tokenise(SENTENCES[:1])[0]
    outcome = try_ways(model, feeds, folder / "ways", ways_to_cut(model))
    assert (outcome.verdict, outcome.reason, outcome.ways) == ("exact", "", 20)


def test_minilm_in_segments_is_close_in_fast_mode(
    model: Path, folder: Path, manifest: Manifest
) -> None:
    feeds = tokenise(SENTENCES[:1])[0]
    chain = run_chain(folder / "blobs", manifest, feeds, exact=False)
    assert compare(chain, run_whole(model, feeds, exact=False)) <= 1e-5


def test_cutting_minilm_takes_less_memory_than_its_weights(model: Path, folder: Path) -> None:
    command = [sys.executable, "-c", MEASURE, str(model), str(folder / "again")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    assert int(done.stdout) < 48 * 1024


def test_nearest_sentences_are_of_one_theme(model: Path) -> None:
    session = open_session(model, exact=False)
    rows = [session.run(None, feeds)[0] for feeds in tokenise(SENTENCES)]
    embeddings = np.concatenate(rows)
    assert np.allclose(np.linalg.norm(embeddings, axis=1), 1.0, atol=1e-5)
    themes = [theme for theme, sentences in THEMES.items() for _ in sentences]
    hits = sum(themes[i] == themes[j] for i, j in enumerate(nearest(embeddings)))
    assert len(SENTENCES) == 60
    assert hits >= 55


def test_padding_changes_no_embedding(model: Path) -> None:
    session = open_session(model, exact=False)
    feeds = tokenise(SENTENCES[:1])[0]
    padded = {name: np.pad(array, [(0, 0), (0, 9)]) for name, array in feeds.items()}
    plain, longer = (session.run(None, each)[0] for each in (feeds, padded))
    assert np.allclose(plain, longer, atol=1e-5)
