"""`crowdpipe model check` as a person types it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.acceptance.conftest import Crowdpipe
from tests.support.models import mlp, row_feeds, save
from tests.support.refused_models import REFUSED


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save(mlp(), tmp_path / "model.onnx")


def test_a_model_that_holds_is_told_with_its_segments(crowdpipe: Crowdpipe, model: Path) -> None:
    done = crowdpipe("model", "check", model, "--segments", 4)
    assert done.code == 0, done.err
    assert "4 segments" in done.out
    assert "every bit is the whole model's" in done.out
    assert "within the limit of 1.0e-05" in done.out
    assert "batch  each item alone: 'batch' has a bound of 1" in done.out
    assert max(map(len, done.out.splitlines()[1:])) <= 100


def test_a_check_says_how_far_items_together_are_from_the_same_alone(
    crowdpipe: Crowdpipe, model: Path
) -> None:
    done = crowdpipe("model", "check", model, "--segments", 2, "--max-shape", "batch=4")
    assert "batch  items together are off by" in done.out
    found = crowdpipe("model", "check", model, "--max-shape", "batch=4", "--json").json
    assert found["reference"]["batching"]["symbol"] == "batch"


def test_a_check_in_json_holds_everything_that_is_printed(
    crowdpipe: Crowdpipe, model: Path
) -> None:
    found = crowdpipe("model", "check", model, "--segments", 3, "--json").json
    assert (found["holds"], found["exact"], found["fast"]) == (True, True, True)
    assert [segment["index"] for segment in found["segments"]] == [0, 1, 2]
    assert sum(segment["weight_nbytes"] for segment in found["segments"]) >= 3 * 24 * 24 * 4
    assert all(segment["cost"] > 0 for segment in found["segments"])
    assert found["segments"][0]["boundary"] == ["x"]
    assert found["reference"]["spread"] >= 0


def test_real_inputs_are_used(crowdpipe: Crowdpipe, model: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", **{"0/x": row_feeds(3)["x"], "1/x": row_feeds(5)["x"]})
    done = crowdpipe("model", "check", model, "--inputs", tmp_path / "in.npz", "--json")
    assert done.code == 0, done.err
    assert [item["shapes"] for item in done.json["items"]] == [{"x": [3, 24]}, {"x": [5, 24]}]
    assert not done.json["generated"]


def test_bounds_of_dimensions_may_be_given(crowdpipe: Crowdpipe, model: Path) -> None:
    done = crowdpipe("model", "check", model, "--max-shape", "batch=6", "--json")
    assert done.code == 0, done.err
    assert max(item["shapes"]["x"][0] for item in done.json["items"]) == 6


def test_what_is_measured_is_kept_with_the_stored_model(crowdpipe: Crowdpipe, model: Path) -> None:
    crowdpipe("model", "add", model, "--name", "same", "--segments", 3)
    crowdpipe("model", "add", model, "--name", "other", "--segments", 2)
    found = crowdpipe("model", "check", model, "--segments", 3, "--json").json
    assert found["recorded"] == ["same"]
    kept = crowdpipe("model", "show", "same", "--json").json["reference"]
    assert kept == found["reference"]
    other = crowdpipe("model", "show", "other", "--json").json["reference"]
    assert len(other["settings"]) < len(kept["settings"])  # what adding it measured


def test_a_model_is_compared_before_it_is_served(crowdpipe: Crowdpipe, model: Path) -> None:
    told = crowdpipe("model", "add", model, "--name", "mlp", "--segments", 3).err
    assert "Compared: the same bits as the whole model, with graph optimisation off" in told
    found = crowdpipe("model", "add", model, "--name", "mlp", "--segments", 3, "--json").json
    assert 0 <= found["compared"]["difference"] <= found["compared"]["limit"] < 1.01e-5


def test_inputs_to_compare_on_may_be_given(
    crowdpipe: Crowdpipe, model: Path, tmp_path: Path
) -> None:
    np.savez(tmp_path / "in.npz", z=row_feeds(3)["x"])
    add = ("model", "add", model, "--name", "mlp")
    refused = crowdpipe(*add, "--inputs", tmp_path / "in.npz")
    assert refused.code == 2
    assert "item 0 holds z, but the model's inputs are x" in refused.error
    assert crowdpipe("model", "list", "--json").json == []
    np.savez(tmp_path / "in.npz", **row_feeds(3))
    assert crowdpipe(*add, "--inputs", tmp_path / "in.npz").code == 0


def test_a_model_may_be_served_without_being_compared(crowdpipe: Crowdpipe, model: Path) -> None:
    done = crowdpipe("model", "add", model, "--name", "mlp", "--unchecked")
    assert "Not compared with the whole model, as you asked." in done.err
    assert "reference" not in crowdpipe("model", "show", "mlp", "--json").json


def test_a_small_model_is_cut_for_a_check(crowdpipe: Crowdpipe, model: Path) -> None:
    assert len(crowdpipe("model", "check", model, "--json").json["segments"]) == 3


def test_a_model_that_cannot_be_cut_is_refused_with_the_reason(
    crowdpipe: Crowdpipe, tmp_path: Path
) -> None:
    construct = next(one for one in REFUSED if "no kernel" in one.words)
    path = construct.write(tmp_path)
    done = crowdpipe("model", "check", path, "--json")
    assert done.code == 2
    assert done.json["holds"] is False
    assert "no kernel for Tanh" in done.json["refused"]
    assert str(path) in done.error


def test_a_file_that_is_not_there_is_refused(crowdpipe: Crowdpipe, tmp_path: Path) -> None:
    assert "cannot read" in crowdpipe("model", "check", tmp_path / "gone.onnx").error
