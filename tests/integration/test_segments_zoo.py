"""Models that others made, as packages carry them, stay exact wherever they are cut.

A voice detector (If inside If, LSTM, weights in bodies), sentence encoders (shape arithmetic, and
one quantised), a text detector, reader and turner (branches over images), a classifier of bytes, a
decoder of names, a detector of waves in an EEG, a language model (tied weights, shapes made under
way), and a classifier of DistilBERT's size.

Some are cut in a few random ways here, and of the language model only a part. With
`CROWDPIPE_ZOO=all` in the environment each is cut in twenty, and the two large ones whole (some
twenty minutes, 4 GB of disk).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from examples.download import fetch
from examples.gguf import GgufFile
from examples.smollm2 import SMOLLM2, WEIGHTS
from orchestrator.segmentation.checking.check import check
from orchestrator.segmentation.checking.verify import compare, identical, run_chain, run_whole
from orchestrator.segmentation.options import SegmentOptions
from orchestrator.segmentation.segmenter import segment
from orchestrator.segmentation.writing.blob_sink import FolderSink
from tests.support.backend_cases import try_ways, ways_to_cut
from tests.support.device_chain import cache_of, run_on_device
from tests.support.zoo import ALL, ZOO, text
from wire.manifest import Manifest


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A model's file, made once."""
    folder = tmp_path_factory.mktemp("zoo")
    paths: dict[str, Path] = {}

    def path_of(name: str) -> Path:
        if name not in paths:
            paths[name] = ZOO[name].make(folder)
        return paths[name]

    return path_of


Made = Callable[[str], Path]


def cut(path: Path, folder: Path, segments: int | None) -> Manifest:
    return segment(path, "zoo", FolderSink(folder), options=SegmentOptions(segments=segments))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ZOO)
def test_a_model_from_the_zoo_stays_exact(name: str, made: Made, tmp_path: Path) -> None:
    path, feeds = made(name), ZOO[name].feeds()
    whole = run_whole(path, feeds, exact=True)
    for segments in ZOO[name].wishes:
        manifest = cut(path, tmp_path, segments)
        assert segments is None or len(manifest.segments) == segments
        assert identical(run_chain(tmp_path, manifest, feeds, exact=True), whole)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ZOO)
def test_a_model_from_the_zoo_is_close_in_fast_mode(name: str, made: Made, tmp_path: Path) -> None:
    path, feeds = made(name), ZOO[name].feeds()
    chain = run_chain(tmp_path, cut(path, tmp_path, None), feeds, exact=False)
    assert compare(chain, run_whole(path, feeds, exact=False)) <= 1e-5


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ZOO)
def test_a_model_from_the_zoo_stays_exact_when_a_device_joins_its_segments(
    name: str, made: Made, tmp_path: Path
) -> None:
    path, feeds = made(name), ZOO[name].feeds()
    manifest = cut(path, tmp_path / "blobs", None)
    cache = cache_of(tmp_path / "blobs", tmp_path / "cache")
    got = run_on_device(cache, manifest, feeds, exact=True, streamed=False, joined=True)
    assert identical(got, run_whole(path, feeds, exact=True))


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ZOO)
def test_a_model_from_the_zoo_stays_exact_in_random_ways(
    name: str, made: Made, tmp_path: Path
) -> None:
    """In twenty ways, or in all where there are few places."""
    exhibit, path = ZOO[name], made(name)
    ways = ways_to_cut(path)[: exhibit.ways]
    outcome = try_ways(path, exhibit.feeds(), tmp_path, ways)
    assert (outcome.verdict, outcome.reason) == ("exact", "")
    assert outcome.ways == exhibit.ways or exhibit.few_places


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", [name for name in ZOO if ZOO[name].checked])
def test_a_check_of_a_model_from_the_zoo_holds_on_made_up_inputs(
    name: str, made: Made, tmp_path: Path
) -> None:
    figures = check(made(name), "zoo", tmp_path)
    assert figures.exact_holds
    assert figures.fast_holds
    assert len(figures.items) == 3


@pytest.mark.skipif(not ALL, reason="540 MB; set CROWDPIPE_ZOO=all")
@pytest.mark.timeout(900)
def test_the_language_model_is_the_published_one(made: Made) -> None:
    """It goes on as a person would who knows the answer."""
    table = GgufFile(fetch(SMOLLM2) / WEIGHTS).facts["tokenizer.ggml.tokens"]
    logits = run_whole(made("language.onnx"), text(), exact=False)["logits"]
    assert table[int(logits[0, -1].argmax())] == "ĠParis"
