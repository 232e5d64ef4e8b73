"""The demonstration as a person runs it, with the real model."""

from __future__ import annotations

import itertools
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import Ended, ProcessTree, run_crowdpipe
from tests.support.waiting import wait_until

ITEMS = 40
PROCESSES = 8  # crowdpipe up, the broker, five agents, and one to spare for the reference


class Demo:
    """A demonstration that has ended, and its figures."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.file = folder / "figures.json"
        self.timeline = folder / "timeline.html"
        self.ended: Ended = run_crowdpipe(
            folder / "home",
            "demo",
            "--items",
            ITEMS,
            "--json",
            self.file,
            "--timeline",
            self.timeline,
            *arguments,
        )
        self.figures: dict[str, Any] = json.loads(self.file.read_text())


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    return Demo(tmp_path_factory.mktemp("demo"))


def test_the_demo_succeeds_and_says_which_broker_runs(demo: Demo) -> None:
    assert demo.ended.code == 0, demo.ended.err
    assert "broker        Mosquitto at mqtt://" in demo.ended.out


def test_every_item_has_a_result_within_the_tolerance_in_every_mode(demo: Demo) -> None:
    figures = demo.figures
    assert figures["items"] == figures["results"] == ITEMS
    assert figures["max_rel_diff"] <= 1e-5
    for mode in ("cold", "streaming", "barrier"):
        assert figures[mode]["results"] == ITEMS
        assert figures[mode]["latency_s"] > 0
    assert figures["single_process"]["latency_s"] > 0


def test_five_devices_share_the_model_and_none_takes_it_whole(demo: Demo) -> None:
    devices = demo.figures["devices"]
    assert len(devices) == 5
    covered = sorted(tuple(part) for device in devices for part in device["partitions"])
    assert covered[0][0] == 0
    assert covered[-1][1] == demo.figures["model"]["segments"] - 1
    assert all(after[0] == before[1] + 1 for before, after in itertools.pairwise(covered))
    whole = demo.figures["model"]["nbytes"]
    assert all(0 < device["fetched_nbytes"] < whole for device in devices)


def test_each_device_is_measured(demo: Demo) -> None:
    for device in demo.figures["devices"]:
        assert device["tasks"] == 3 * ITEMS  # cold, streaming, barrier
        assert device["rss_floor_nbytes"] < device["rss_peak_nbytes"]
        assert device["rss_peak_nbytes"] < demo.figures["single_process"]["rss_peak_nbytes"]
        assert device["rss_rise_nbytes"] < demo.figures["model"]["nbytes"]
        assert [load["tier"] for load in device["loads"]] == [3]
        for figure in ("received_nbytes", "sent_nbytes", "compute_s", "load_s", "fetch_s"):
            assert device[figure] > 0, figure


def test_the_answers_are_those_of_the_whole_model(demo: Demo) -> None:
    answers = demo.figures["answers"]
    assert len(answers) == ITEMS
    assert all(answer["same_as_whole_model"] for answer in answers)
    assert "the whole model's own" in demo.ended.out


def test_the_timeline_is_drawn_where_the_demo_says(demo: Demo) -> None:
    assert str(demo.timeline) in demo.ended.out
    page = demo.timeline.read_text()
    assert page.count("<svg") == 3
    assert page.count('class="task"') == 3 * ITEMS * 5


def test_nothing_is_left_of_the_home_it_made(demo: Demo) -> None:
    assert not (demo.file.parent / "home").exists()


def test_exact_gives_the_whole_models_bits(tmp_path: Path) -> None:
    demo = Demo(tmp_path, "--exact")
    assert demo.ended.code == 0, demo.ended.err
    assert demo.figures["exact"] is True
    assert demo.figures["max_rel_diff"] == 0
    assert all(demo.figures[mode]["identical"] for mode in ("cold", "streaming", "barrier"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_ended_demo_leaves_no_process_behind(
    process_tree: Callable[..., ProcessTree], number: signal.Signals
) -> None:
    tree = process_tree("demo", "--items", "60")
    wait_until(lambda: tree.look() >= PROCESSES - 1, "the demo's processes")
    tree.process.send_signal(number)
    code = tree.process.wait(30)
    assert code == (-number if number is signal.SIGKILL else 128 + number)
    assert tree.left() == []


def test_a_demo_without_devices_is_refused(tmp_path: Path) -> None:
    ended = run_crowdpipe(tmp_path, "demo", "--devices", 0)
    assert ended.code == 2
    assert "1 to 16" in ended.error
