"""What is written of a run: JSON, pictures beside the page, and a page that hides nothing."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from benchmarks.bench import Outcome, Picture
from benchmarks.earlier import earlier_run
from benchmarks.machine import machine
from benchmarks.report import Report
from benchmarks.row import Rival, at_least, at_most, measured, skipped
from benchmarks.timeline_picture import timeline_svg
from crowdpipe.demo.timeline import Phase
from crowdpipe.watching.observation import Span
from wire.errors import UserError

ROWS = [
    measured("speed.met", "it is fast", [1.0, 2.0], "ms", at_most(3.0), Rival("other", 4.0)),
    measured("speed.missed", "it is | not", [0.5], "", at_least(0.9), note="a floor"),
    skipped("speed.skipped", "nobody knows", "s", "needs root", at_most(1.0)),
]
OUTCOME = Outcome(ROWS, [Picture("speed.svg", "<svg/>")])


def report() -> Report:
    made = Report(machine(), "tiny", quick=True)
    made.add("speed", OUTCOME)
    return made


def test_the_machine_says_what_a_reader_needs_to_judge():
    told = json.loads(json.dumps(machine()))
    assert told["cores"] >= 1
    assert told["versions"]["onnxruntime"]
    assert len(told["load_average"]) == 3


def test_json_has_the_machine_and_every_row(tmp_path: Path):
    report().write(tmp_path / "figures.json", None, None)
    plain = json.loads((tmp_path / "figures.json").read_text())
    assert [row["met"] for row in plain["rows"]] == [True, False, None]
    assert plain["machine"]["processor"]
    assert (plain["model"], plain["quick"]) == ("tiny", True)


def test_the_page_tells_met_missed_and_unmeasured_rows_alike(tmp_path: Path):
    report().write(None, None, tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text()
    assert "1 meet it, 1 miss it. Not measured, with the reason: 1." in text
    lines = [line for line in text.splitlines() if line.startswith("| it is") or "nobody" in line]
    assert len(lines) == 3
    assert "**missed**" in lines[1]
    assert "needs root" in lines[2]
    assert {line.count("|") for line in lines} == {8}  # text cannot break out of its column


def test_the_page_shows_the_pictures_from_where_it_lies(tmp_path: Path):
    (tmp_path / "docs").mkdir()
    report().write(None, tmp_path / "docs" / "pictures", tmp_path / "docs" / "page.md")
    assert "](pictures/speed.svg)" in (tmp_path / "docs" / "page.md").read_text()
    assert (tmp_path / "docs" / "pictures" / "speed.svg").read_text() == "<svg/>"


def test_a_page_of_two_runs_has_all_subjects_in_order_and_says_which_is_from_when(tmp_path: Path):
    first = report()
    first.add("late", Outcome([measured("late.x", "it came late", [9.0], "s", at_most(1.0))]))
    first.machine = {**first.machine, "commit": "abc1234", "taken": "long ago"}
    first.write(tmp_path / "first.json", tmp_path, None)
    second = Report(
        machine(), "larger", False, ("late", "speed"), (earlier_run(tmp_path / "first.json"),)
    )
    second.add("late", Outcome([measured("late.x", "it came in time", [0.5], "s", at_most(1.0))]))
    second.write(tmp_path / "second.json", tmp_path, tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text()
    assert text.index("it came in time") < text.index("it is fast")
    assert "it came late" not in text
    assert "| speed | model tiny, abc1234, long ago; load average before: " in text
    assert "](./speed.svg)" in text
    assert "2 meet it, 1 miss it" in text
    assert [row["name"] for row in json.loads((tmp_path / "second.json").read_text())["rows"]] == [
        "late.x"
    ]


def test_rows_come_back_as_they_were_written(tmp_path: Path):
    report().write(tmp_path / "figures.json", None, None)
    assert earlier_run(tmp_path / "figures.json").rows == tuple(ROWS)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"rows": [{}], "machine": {}, "model": "m"}'])
def test_what_is_no_report_is_refused(content: str, tmp_path: Path):
    (tmp_path / "figures.json").write_text(content)
    with pytest.raises(UserError, match="is no report"):
        earlier_run(tmp_path / "figures.json")


def test_a_timeline_of_two_phases_is_one_picture_to_one_scale():
    spans = (
        Span("a", "compute", 0, 1, 0.0, 1.0, "r", 0),
        Span("b", "compute", 2, 3, 1.0, 2.0, "r", 0),
    )
    phases = [Phase("streaming", "", 0.0, 2.0, spans), Phase("barrier", "", 0.0, 4.0, spans)]
    root = ElementTree.fromstring(timeline_svg(phases, ["a", "b"], 1))
    panels = root.findall("{http://www.w3.org/2000/svg}svg")
    assert len(panels) == 2
    bars = [
        [bar.attrib["width"] for bar in panel.iter() if bar.attrib.get("class") == "task"]
        for panel in panels
    ]
    assert bars[0] == bars[1]
    assert len(bars[0]) == 2
