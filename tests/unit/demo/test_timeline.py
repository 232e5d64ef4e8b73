import re
import stat
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crowdpipe.demo.colour import item_colour, oklch
from crowdpipe.demo.demonstration import new_timeline
from crowdpipe.demo.timeline import Phase, nice_step, panel, timeline_page
from crowdpipe.watching.observation import Span

DEVICES = ("phone-1", "phone-2")


def phase(*spans: Span, title: str = "Streaming", end_s: float = 11.0) -> Phase:
    return Phase(title, "what it shows", 10.0, end_s, spans)


def task(device: str, item: int, start_s: float, end_s: float) -> Span:
    return Span(device, "compute", 0, 3, start_s, end_s, "run", item)


def bars(svg: str) -> list[ElementTree.Element]:
    found = [e for e in ElementTree.fromstring(svg).iter() if e.get("class") == "task"]
    return sorted(found, key=lambda bar: float(bar.get("x", "0")))


def test_a_bar_stands_in_its_devices_lane_at_its_time() -> None:
    svg = panel(phase(task("phone-1", 0, 10, 10.5), task("phone-2", 0, 10.5, 11)), DEVICES, 2, 1.0)
    first, second = bars(svg)
    assert float(first.get("y", "0")) < float(second.get("y", "0"))
    middle = float(first.get("x", "0")) + float(first.get("width", "0"))
    assert float(second.get("x", "0")) == pytest.approx(middle, abs=1)


def test_hovering_says_who_computed_what_and_how_long() -> None:
    svg = panel(phase(task("phone-2", 1, 10.25, 10.5)), DEVICES, 2, 1.0)
    title = bars(svg)[0][0].text or ""
    assert "phone-2: item 1, segments 0–3" in title
    assert "from 0.250 s, took 250 ms" in title


def test_a_task_too_short_to_draw_is_still_seen() -> None:
    svg = panel(phase(task("phone-1", 0, 10, 10.000001)), DEVICES, 1, 1.0)
    assert float(bars(svg)[0].get("width", "0")) > 0.5


def test_what_lies_outside_of_the_phase_is_not_drawn() -> None:
    svg = panel(phase(task("phone-1", 0, 8, 9), task("phone-1", 1, 12, 13)), DEVICES, 2, 1.0)
    assert not bars(svg)


def test_fetches_and_loads_have_their_own_marks() -> None:
    fetch = Span("phone-1", "fetch", 0, 3, 10.0, 10.2, note="5 bytes")
    load = Span("phone-1", "load", 0, 3, 10.2, 10.3, note="tier 3")
    root = ElementTree.fromstring(panel(phase(fetch, load), DEVICES, 1, 1.0))
    classes = [element.get("class") for element in root.iter()]
    assert classes.count("fetch") == 1
    assert classes.count("load") == 1


def test_phases_of_one_group_share_a_scale() -> None:
    slow = Phase("Barrier", "", 0, 4, (task("phone-1", 0, 0, 2),), "warm")
    fast = Phase("Streaming", "", 0, 2, (task("phone-1", 0, 0, 2),), "warm")
    page = timeline_page("t", "s", [fast, slow], DEVICES, 1)
    widths = re.findall(r'class="task"[^>]* width="([\d.]+)"', page)
    assert widths[0] == widths[1]


def test_the_page_needs_nothing_from_elsewhere_and_escapes_names() -> None:
    page = timeline_page("a <b> & c", "s", [phase(title="<i>")], DEVICES, 1)
    assert "<b>" not in page
    assert "<i>" not in page.replace("<i ", "")
    assert not re.search(r"(src|href)=|url\(|@import", page)


@given(st.floats(1e-4, 1e5))
def test_ticks_are_at_round_numbers_and_not_too_many(length: float) -> None:
    step = nice_step(length / 10)
    assert length / step <= 10.1
    assert re.fullmatch(r"[125]0*e[+-]\d+", f"{step:.0e}")


def test_the_items_colours_differ_from_end_to_end() -> None:
    colours = [item_colour(item, 60) for item in range(60)]
    assert len(set(colours)) > 50
    assert oklch(1.0, 0.0, 0.0) == "#ffffff"
    assert oklch(0.0, 0.0, 0.0) == "#000000"


def test_each_picture_goes_to_a_new_file_of_the_home(tmp_path: Path) -> None:
    home = tmp_path / "home"
    paths = []
    for _ in range(4):
        path = new_timeline(home)
        assert path.parent == home / "demo"
        assert not path.exists()
        path.parent.mkdir(exist_ok=True)
        path.write_text("a picture")
        paths.append(path)
    assert len(set(paths)) == 4
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
