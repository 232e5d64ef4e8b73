"""Where the results of `crowdpipe run` go, and what becomes of them if they cannot go there."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from crowdpipe import items_file
from crowdpipe.cli.app import build
from crowdpipe.cli.run import _write
from crowdpipe.items_file import read_arrays
from wire.errors import CrowdpipeError, DiskFull, UserError

NOWHERE = "mqtt://me:x@127.0.0.1:1"
RESULTS = [{"y": np.arange(3.0)}]


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    np.savez(tmp_path / "in.npz", x=np.zeros(2))
    return tmp_path / "in.npz"


def refused(*arguments: object) -> CrowdpipeError:
    """What `crowdpipe run` raises; a broker would be met only later."""
    command = ["run", "minilm", "--broker", NOWHERE, *map(str, arguments)]
    error = CliRunner().invoke(build(), command).exception
    assert isinstance(error, CrowdpipeError)
    return error


@pytest.mark.parametrize("output", [".", "gone/out.npz"])
def test_an_output_that_cannot_be_written_is_refused_before_anything_is_sent(
    inputs: Path, output: str
):
    error = refused("--input", inputs, "-o", inputs.parent / output)
    assert isinstance(error, UserError)
    assert "folder" in str(error)


def test_results_do_not_replace_their_inputs_unless_forced(inputs: Path):
    other = inputs.parent / "other.npz"
    other.symlink_to(inputs)
    for output in (inputs, other, inputs.parent / "." / "in.npz"):
        error = refused("--input", inputs, "-o", output)
        assert isinstance(error, UserError)
        assert "--force" in str(error)
    assert "broker" in str(refused("--input", inputs, "-o", inputs, "--force"))
    assert read_arrays(inputs).keys() == {"x"}


def test_results_that_cannot_be_written_where_asked_are_kept_where_the_error_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    elsewhere = tmp_path / "temporary"
    elsewhere.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(elsewhere))
    with pytest.raises(UserError, match="results are in") as told:
        _write(tmp_path / "gone" / "out.npz", "one", RESULTS)
    found = re.search(r"results are in (.*)\)", str(told.value))
    assert found is not None
    np.testing.assert_array_equal(read_arrays(Path(found.group(1)))["y"], RESULTS[0]["y"])


def test_results_that_can_be_kept_nowhere_are_said_to_be_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def full(*_: object) -> bool:
        raise DiskFull("no room")

    monkeypatch.setattr(items_file, "write_items", full)
    with pytest.raises(DiskFull, match=r"no room \(the results are lost; with --detach"):
        _write(tmp_path / "out.npz", "one", RESULTS)
