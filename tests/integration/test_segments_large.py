"""Adding a model takes memory for a segment, not for the model.

Here with 96 MB; set CROWDPIPE_TEST_LARGE_NBYTES (3000000000, say) to run it with more.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from orchestrator.segmentation.checking.verify import identical, run_chain, run_whole
from orchestrator.segmentation.options import MAX_SEGMENT_NBYTES
from orchestrator.segmentation.segmenter import segment
from orchestrator.segmentation.writing.blob_sink import FolderSink
from tests.support.large_model import write_large_model
from tests.support.models import floats
from wire.manifest import Manifest
from wire.record import decode

NBYTES = int(os.environ.get("CROWDPIPE_TEST_LARGE_NBYTES", str(96 << 20)))
SLACK_NBYTES = 24 << 20  # allocator, protobufs, and the runtime that is asked about kernels
LIMIT_S = 600
ADD = """
import sys
from pathlib import Path

import numpy, onnx, onnxruntime  # what any use of them takes is not of this model's making
from crowdpipe.serving.models import Comparing, CutWishes, add_model
from crowdpipe.serving.stores import open_store
import orchestrator.segmentation.segmenter
from wire.record import encode

def peak_kib():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))

ALONE = Comparing(skipped=True)  # what comparing takes is ONNX Runtime's, for the whole
small, large, home = map(Path, sys.argv[1:])
with open_store(home) as store:
    add_model(store, small, "small", CutWishes(), comparing=ALONE)
    before = peak_kib()
    manifest = add_model(store, large, "large", CutWishes(), comparing=ALONE).manifest
Path(sys.argv[3], "manifest").write_bytes(encode(manifest))
print((peak_kib() - before) * 1024)
"""


@pytest.mark.timeout(2 * LIMIT_S)
def test_adding_a_large_model_takes_memory_for_one_segment(tmp_path: Path) -> None:
    for name, nbytes in (("small", 1 << 20), ("large", NBYTES)):
        (tmp_path / name).mkdir()
        write_large_model(tmp_path / name, nbytes, width=256 if name == "small" else 1024)
    models = [tmp_path / name / "model.onnx" for name in ("small", "large")]
    command = [sys.executable, "-c", ADD, *map(str, models), str(tmp_path / "home")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr
    manifest: Manifest = decode(
        Manifest, (tmp_path / "home" / "manifest").read_bytes(), limit=32 << 20
    )
    largest = max(segment.weight_nbytes for segment in manifest.segments)
    rise = int(done.stdout)
    print(f"{manifest.nbytes} bytes in {len(manifest.segments)} segments: {rise} bytes of memory")
    assert manifest.nbytes >= 0.95 * NBYTES
    assert largest <= MAX_SEGMENT_NBYTES
    assert rise <= 1.5 * largest + SLACK_NBYTES
    shutil.rmtree(tmp_path / "home")


def test_segments_of_weights_beside_the_model_are_exact(tmp_path: Path) -> None:
    path = write_large_model(tmp_path, 24 << 20)
    manifest = segment(path, "beside", FolderSink(tmp_path / "blobs"))
    assert len(manifest.segments) > 1
    feeds = {"h0": floats(np.random.default_rng(1), 3, 1024)}
    whole = run_whole(path, feeds, exact=True)
    assert identical(run_chain(tmp_path / "blobs", manifest, feeds, exact=True), whole)
