"""`python -m benchmarks` on a small model of one's own: real processes, and rows at the end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.acceptance.conftest import LIMIT_S, ROOT, environment
from tests.support.models import mlp, save


def test_subjects_are_measured_and_written_and_everything_is_ended(tmp_path: Path):
    model, figures = save(mlp(3), tmp_path / "small.onnx"), tmp_path / "figures.json"
    command = [sys.executable, "-m", "benchmarks", "--quick", "--only", "latency,hop"]
    command += ["--model", str(model), "--json", str(figures), "--page", str(tmp_path / "page.md")]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        cwd=ROOT,
        env=environment(tmp_path / "home"),
    )
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in json.loads(figures.read_text())["rows"]}
    assert rows["latency.lone"]["value"] > 0
    assert rows["latency.share_of_one_process"]["met"] in (True, False)
    assert "one partition" in rows["hop.overhead_auto"]["note"]
    assert "a lone item" in done.stdout
    assert "## Latency" in (tmp_path / "page.md").read_text()


def test_an_unknown_subject_is_one_sentence(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--only", "speed"],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        cwd=ROOT,
        env=environment(tmp_path),
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: --only takes some of memory")
