"""The command line from an empty home to results, as a person types it."""

from __future__ import annotations

import json
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from tests.acceptance.conftest import (
    Ended,
    ProcessTree,
    run_crowdpipe,
)
from tests.support.models import mlp, save
from tests.support.waiting import wait_until
from wire.signed_orders import KEY_NBYTES, read_key

ROWS = 6


class Desk:
    """A home that is served, one agent beside it, and a model in it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.up = ProcessTree(home, "up", "--broker-port", 0, "--store-port", 0)
        wait_until((home / "up.json").exists, "crowdpipe up")
        self.agent = ProcessTree(
            home, "agent", "--name", "desk", "--memory", "16MiB", "--cache", home / "cache"
        )
        wait_until(lambda: self.says("devices").startswith("desk"), "the agent to come online")
        self.file = save(mlp(4), home / "tiny.onnx")
        self.added = self.do("model", "add", self.file, "--name", "tiny", "--segments", 4, "--json")

    def do(self, *arguments: object) -> Ended:
        ended = run_crowdpipe(self.home, *arguments)
        assert ended.code == 0, ended.err
        return ended

    def says(self, *arguments: object) -> str:
        """The last line of a table."""
        lines = run_crowdpipe(self.home, *arguments).out.strip().splitlines()
        return lines[-1] if lines else ""

    def close(self) -> None:
        for tree in (self.agent, self.up):
            tree.look()
            tree.process.terminate()
            tree.process.wait(20)
            assert tree.left() == []


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    made = Desk(tmp_path_factory.mktemp("desk") / "home")
    yield made
    made.close()


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    return np.random.default_rng(5).normal(size=(ROWS, 1, 24)).astype(np.float32)


def whole(row: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(mlp(4).SerializeToString())
    result: np.ndarray = session.run(None, {"x": row})[0]
    return result


def run(desk: Desk, folder: Path, arrays: dict[str, np.ndarray], *more: object) -> dict[str, Any]:
    np.savez(folder / "in.npz", **arrays)
    files = ("--input", folder / "in.npz", "--output", folder / "out.npz")
    desk.do("run", "tiny", *files, *more)
    with np.load(folder / "out.npz") as archive:
        return dict(archive)


def test_the_home_is_its_owners_alone(desk: Desk) -> None:
    assert stat.S_IMODE(desk.home.stat().st_mode) == 0o700
    for name in ("up.json", "credentials.json"):
        assert stat.S_IMODE((desk.home / name).stat().st_mode) == 0o600


def test_an_added_model_is_listed_and_shown(desk: Desk) -> None:
    assert desk.added.json["segments"] == 4
    assert [model["name"] for model in desk.do("model", "list", "--json").json] == ["tiny"]
    assert len(desk.do("model", "show", "tiny", "--json").json["segments"]) == 4
    assert "x: float[batch, 24]" in desk.do("model", "list").out


def test_a_plan_says_who_and_why(desk: Desk) -> None:
    planned = desk.do("plan", "tiny", "--json").json
    assert {row["device"] for row in planned["partitions"]} == {"desk"}
    assert all(row["reason"] for row in planned["partitions"])
    assert "desk" in desk.do("plan", "tiny").out


def test_one_item_gives_its_outputs_by_name(desk: Desk, tmp_path: Path, rows: np.ndarray) -> None:
    results = run(desk, tmp_path, {"x": rows[0]})
    assert list(results) == ["y"]
    np.testing.assert_allclose(results["y"], whole(rows[0]), atol=1e-5)


@pytest.mark.parametrize("more", [(), ("--exact",), ("--barrier",)], ids=str)
def test_numbered_items_give_numbered_results(
    desk: Desk, tmp_path: Path, rows: np.ndarray, more: tuple[str, ...]
) -> None:
    results = run(desk, tmp_path, {f"{item}/x": row for item, row in enumerate(rows)}, *more)
    assert list(results) == [f"{item}/y" for item in range(ROWS)]
    for item, row in enumerate(rows):
        np.testing.assert_allclose(results[f"{item}/y"], whole(row), atol=1e-5)


def test_a_batch_gives_a_batch(desk: Desk, tmp_path: Path, rows: np.ndarray) -> None:
    results = run(desk, tmp_path, {"x": rows}, "--batch")
    assert results["y"].shape == (ROWS, 1, 24)
    np.testing.assert_allclose(results["y"][3], whole(rows[3]), atol=1e-5)


@pytest.mark.parametrize("size", ["auto", 3])
def test_items_that_wait_together_may_be_computed_together(
    desk: Desk, tmp_path: Path, rows: np.ndarray, size: object
) -> None:
    more = ("--name", "batched", "--max-shape", "batch=4", "--replace")
    desk.do("model", "add", desk.file, *more)
    items = np.concatenate([rows, rows + 1])
    np.savez(tmp_path / "in.npz", x=items)
    files = ("--input", tmp_path / "in.npz", "--output", tmp_path / "out.npz")
    desk.do("run", "batched", *files, "--batch", "--batch-size", size)
    with np.load(tmp_path / "out.npz") as archive:
        for made, row in zip(archive["y"], items, strict=True):
            np.testing.assert_allclose(made, whole(row), atol=1e-5)
    desk.do("model", "remove", "batched")


def test_a_detached_run_is_listed_collected_and_gone(
    desk: Desk, tmp_path: Path, rows: np.ndarray
) -> None:
    np.savez(tmp_path / "in.npz", x=rows)
    begun = desk.do("run", "tiny", "--input", tmp_path / "in.npz", "--batch", "--detach")
    name = begun.out.strip()
    assert "--batch took the first axis off: 6 items, each with x [1, 24]" in begun.err
    assert f"crowdpipe collect {name}" in begun.err
    (listed,) = desk.do("runs", "--json").json
    assert (listed["progress"]["run"], listed["progress"]["count"]) == (name, ROWS)
    told = desk.do("collect", name, "-o", tmp_path / "out.npz", "--batch")
    assert "6 results in" in told.err
    with np.load(tmp_path / "out.npz") as found:
        np.testing.assert_allclose(found["y"][3], whole(rows[3]), atol=1e-5)
    assert desk.do("runs", "--json").json == []
    for command in (("collect", name, "-o", tmp_path / "again.npz"), ("cancel", name)):
        ended = run_crowdpipe(desk.home, *command)
        assert (ended.code, name in ended.error) == (2, True)


def test_a_run_needs_a_file_for_its_results_or_to_be_collected(desk: Desk, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=np.ones((1, 24), np.float32))
    ended = run_crowdpipe(desk.home, "run", "tiny", "--input", tmp_path / "in.npz")
    assert (ended.code, "--detach" in ended.error) == (2, True)


def test_devices_say_what_they_serve(desk: Desk) -> None:
    told = desk.do("devices", "--json").json
    assert [device["name"] for device in told] == ["desk"]
    assert told[0]["state"]["status"] == "online"
    assert told[0]["telemetry"]["rss_nbytes"] > 0


def test_json_on_stdout_is_json_and_nothing_else(desk: Desk) -> None:
    for command in (("devices",), ("plan", "tiny"), ("model", "list"), ("device", "add", "p-1")):
        json.loads(desk.do(*command, "--json").out)


def test_watching_prints_what_any_mqtt_client_would_see(desk: Desk) -> None:
    line = shlex.split(desk.do("watch", "--line").out)
    assert line[0] == "mosquitto_sub"
    assert line[-3:] == ["-t", "crowdpipe/#", "-v"]
    watching = ProcessTree(desk.home, "watch", "--json")
    out = watching.process.stdout
    assert out is not None
    try:
        topics = {json.loads(out.readline())["topic"] for _ in range(4)}
    finally:
        watching.process.terminate()
        watching.process.wait(10)
    assert "crowdpipe/v1/devices/desk/state" in topics


def test_an_added_phone_is_let_in_and_a_removed_one_is_not(desk: Desk, tmp_path: Path) -> None:
    line = shlex.split(desk.do("device", "add", "pixel-7").out)
    assert line[:2] == ["crowdpipe-agent", "--broker"]
    assert line[3] == "--desk-key"
    assert len(read_key(line[4])) == KEY_NBYTES
    broker = line[2]
    told = ("--name", "pixel-7", *line[1:])
    phone = ProcessTree(desk.home, "agent", *told, "--cache", tmp_path / "phone")
    try:
        wait_until(lambda: states(desk).get("pixel-7") == "online", "the phone")
        desk.do("device", "remove", "pixel-7")
        wait_until(lambda: "pixel-7" not in states(desk), "the phone to be forgotten")
    finally:
        phone.process.kill()
        phone.process.wait(10)
    assert run_crowdpipe(desk.home, "devices", "--broker", broker).code == 3


def test_forgetting_says_what_it_does_not_know_and_what_comes_back(desk: Desk) -> None:
    asked = run_crowdpipe(desk.home, "device", "forget", "nonesuch")
    assert (asked.code, "no device 'nonesuch'" in asked.error) == (2, True)
    asked = desk.do("device", "forget", "desk")
    assert "online" in asked.err
    assert "comes back" in asked.err
    wait_until(lambda: states(desk).get("desk") == "online", "the agent to come back")


def test_an_added_user_runs_models_and_a_removed_one_does_not(desk: Desk) -> None:
    line = desk.do("user", "add", "ann").out.strip()
    assert line.startswith("export CROWDPIPE_BROKER=mqtt://ann:")
    assert desk.do("user", "add", "ann").out.strip() == line
    assert desk.do("user", "list").out.split() == ["ann"]
    broker = line.partition("=")[2]
    given, made = desk.home / "ann.npz", desk.home / "made.npz"
    np.savez(given, x=np.ones((1, 24), np.float32))
    run = ("run", "tiny", "--input", given, "--output", made, "--broker", broker)
    assert run_crowdpipe(desk.home, *run).code == 0
    desk.do("user", "remove", "ann")
    wait_until(lambda: run_crowdpipe(desk.home, *run).code == 3, "ann to be let in no more")
    assert run_crowdpipe(desk.home, "user", "remove", "ann").code == 2
    assert run_crowdpipe(desk.home, "user", "remove", "local").code == 2


def states(desk: Desk) -> dict[str, str]:
    told = desk.do("devices", "--json").json
    return {device["name"]: device["state"]["status"] for device in told if "state" in device}


def test_a_removed_model_is_gone(desk: Desk) -> None:
    desk.do("model", "add", desk.file, "--name", "twin")
    desk.do("model", "remove", "twin")
    assert run_crowdpipe(desk.home, "plan", "twin").code == 2
    assert run_crowdpipe(desk.home, "model", "show", "tiny").code == 0


def test_a_model_added_while_nothing_runs_is_served_later(tmp_path: Path) -> None:
    home = tmp_path / "home"
    file = save(mlp(3), tmp_path / "early.onnx")
    assert run_crowdpipe(home, "model", "add", file, "--name", "early").code == 0
    up = ProcessTree(home, "up", "--broker-port", 0, "--store-port", 0)
    try:
        wait_until((home / "up.json").exists, "crowdpipe up")
        assert "no device" in run_crowdpipe(home, "plan", "early").error
    finally:
        up.look()
        up.process.terminate()
        assert up.process.wait(20) == 0
    assert up.left() == []
    assert not (home / "up.json").exists()
