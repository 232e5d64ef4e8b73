"""From measured sizes to rows: growth within rounds, and what was too slow says so."""

from __future__ import annotations

import pytest

from benchmarks.crowd.crowd import TooSlow
from benchmarks.crowd.figures import device_picture, device_rows, run_rows
from benchmarks.crowd.live import KNOWN, Heard, Live
from benchmarks.crowd.live_rows import live_rows
from benchmarks.crowd.meter import Cost
from benchmarks.crowd.process import CrowdProcess, Taken
from benchmarks.crowd.sizes import ITEMS, Limits, Size, measure
from benchmarks.row import Row

SLOW = "10,000 devices and 0 idle runs to start: it took more than 5 s"
MB = 1_000_000


def taken(result_us: float, *, wall_s: float = 1.0, memory_nbytes: int = 0) -> Taken:
    """A round in which an item costs `result_us`, and a telemetry message a tenth of it."""
    result_ns = round(1e3 * result_us)
    costs = {
        "result": Cost(ITEMS * result_ns, ITEMS),
        "telemetry": Cost(result_ns, 10),
        "state": Cost(4000, 2),
    }
    return Taken(costs, wall_s, 2 * MB, memory_nbytes)


def size(devices: int, *rounds_us: float, runs: int = 0) -> Size:
    start = taken(1.0, memory_nbytes=30 * MB)
    rounds = [taken(each) for each in rounds_us]
    return Size(devices, runs, 10 * MB, start, taken(1.0), taken(1.0), rounds, taken(5.0))


def by_name(rows: object) -> dict[str, Row]:
    return {row.name.removeprefix("growth."): row for row in rows}  # type: ignore[attr-defined] # an iterator


def test_an_items_growth_is_taken_within_rounds():
    rows = by_name(device_rows([size(10, 10.0, 20.0, 40.0), size(10_000, 12.0, 26.0, 48.0)]))
    growth = rows["item_devices_growth"]
    assert growth.value == pytest.approx(1.2)
    assert growth.met
    assert growth.rival is not None
    assert growth.rival.value == 1000.0
    assert rows["item_10_devices"].value == pytest.approx(20.0)
    assert rows["telemetry_devices"].value == pytest.approx(2.6)
    assert rows["memory_per_device"].value == pytest.approx(2.0)
    assert rows["longest_devices"].value == pytest.approx(2.0)


def test_rounds_that_only_one_size_had_the_time_for_are_not_compared():
    rows = by_name(device_rows([size(10, 10.0, 10.0, 99.0), size(10_000, 20.0, 20.0)]))
    assert rows["item_devices_growth"].value == pytest.approx(2.0)
    assert rows["item_devices_growth"].met is False


def test_what_was_too_slow_says_why_and_how_far_it_went():
    sizes = [size(10, 10.0), size(1_000, 50.0), Size(10_000, 0, why=SLOW)]
    rows = by_name(device_rows(sizes))
    assert rows["item_devices_growth"].value is None
    assert rows["item_devices_growth"].note == f"{SLOW}; 1,000 devices: 5.0 times"
    assert rows["memory_per_device"].note == SLOW
    assert rows["memory_per_device"].value is None
    assert "<polyline" in device_picture(sizes).text


def test_a_size_of_which_nothing_was_measured_still_has_every_row():
    everything = by_name(device_rows([size(10, 10.0), size(10_000, 10.0)]))
    nothing = by_name(device_rows([Size(10, 0, why="w"), Size(10_000, 0, why="w")]))
    assert list(nothing) == list(everything)
    assert all(row.value is None and row.note for row in nothing.values())


def test_runs_have_rows_of_their_own():
    rows = by_name(run_rows([size(10, 10.0, runs=1), size(10, 11.0, runs=100)]))
    assert rows["item_runs_growth"].value == pytest.approx(1.1)
    assert rows["memory_per_run"].value == pytest.approx(200.0)


def test_shares_of_a_core_are_told_in_percent_and_by_message():
    live = Live(50, 1.0, MB, [0.01], Heard([0.1], [0.05]), 4.0, MB + 5 * KNOWN, Heard([0.3], [0.1]))
    rows = by_name(live_rows(live))
    assert rows["mqtt_telemetry_core"].value == pytest.approx(30.0)
    assert rows["mqtt_telemetry_core"].met is False
    assert rows["mqtt_telemetry"].value == pytest.approx(300.0)
    assert rows["mqtt_start"].met
    assert rows["mqtt_memory_per_device"].value == pytest.approx(0.005)


def test_real_connections_that_failed_say_what_they_were_at():
    rows = by_name(live_rows(Live(50, why="starting the broker: no Mosquitto")))
    assert all(row.value is None and "Mosquitto" in row.note for row in rows.values())


def test_crowds_of_two_sizes_take_turns_in_processes_of_their_own():
    sizes, said = [Size(5, 0), Size(6, 2)], list[str]()
    measure(sizes, Limits(20.0, 60.0, 20.0, 20.0, 2), said.append)
    assert not said
    assert all(len(each.items_us()) == 2 and each.comings is not None for each in sizes)
    assert all(each.start is not None and each.first is not None for each in sizes)


def test_a_process_that_does_not_answer_in_time_is_given_up():
    with CrowdProcess(5, 0) as crowd, pytest.raises(TooSlow, match=r"more than -1 s"):
        crowd.take("start", 0, -1.0)
