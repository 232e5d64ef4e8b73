import io
import json
from dataclasses import replace

from rich.console import Console

from crowdpipe.demo.figures import (
    DemoFigures,
    DeviceFigures,
    ModelFigures,
    NearestSentence,
    PhaseFigures,
    device_figures,
)
from crowdpipe.demo.reference import SingleProcess
from crowdpipe.demo.tables import answer_table, conclusions, device_tables, run_table
from crowdpipe.watching.observation import Observation, ObservedLoad


def phase(name: str, latency_s: float, results: int = 60, diff: float = 3e-7) -> PhaseFigures:
    return PhaseFigures(
        name, latency_s, 0.2, results / latency_s, results, diff, identical=diff == 0
    )


def device(name: str, rise: int) -> DeviceFigures:
    load = ObservedLoad(0, 3, 3, False, 0.5, 17 << 20, 0.2)
    return DeviceFigures(
        name,
        ((0, 3),),
        24 << 20,
        (load,),
        180,
        (54 << 20) + rise,
        54 << 20,
        rise,
        60 << 10,
        6 << 20,
        7 << 20,
        17 << 20,
        0.5,
        0.2,
        1.5,
        3.0,
        0,
        0,
        0,
    )


FIGURES = DemoFigures(
    items=60,
    results=60,
    exact=False,
    broker="Mosquitto",
    model=ModelFigures("minilm", "ab" * 32, 90 << 20, 13),
    max_rel_diff=3e-7,
    cold=phase("cold", 4.0),
    streaming=phase("streaming", 1.0),
    barrier=phase("barrier", 1.6),
    single_process=SingleProcess(0.3, 0.4, 180 << 20, "1.32.0"),
    devices=(device("phone-1", 40 << 20), device("phone-2", 20 << 20)),
    answers=(
        NearestSentence("It rains.", "It pours.", 0.81, True),
        NearestSentence("Buy.", "Sell.", 0.5, False),
    ),
    timeline="/tmp/timeline.html",
    elapsed_s=20.0,
)


def shown(*things: object) -> str:
    console = Console(file=io.StringIO(), width=150)
    for thing in things:
        console.print(thing)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_whole_demonstration_within_the_tolerance_succeeds() -> None:
    assert FIGURES.failures() == []


def test_a_missing_result_is_a_failure_that_names_the_phase() -> None:
    failed = replace(FIGURES, barrier=phase("barrier", 1.6, results=58))
    assert failed.failures() == ["barrier: 2 of 60 results are missing"]


def test_a_difference_above_the_tolerance_is_a_failure() -> None:
    failed = replace(FIGURES, streaming=phase("streaming", 1.0, diff=2e-5))
    assert "streaming: results differ" in failed.failures()[0]
    not_a_number = replace(FIGURES, streaming=phase("streaming", 1.0, diff=float("nan")))
    assert not_a_number.failures()


def test_exact_demands_every_bit() -> None:
    assert len(replace(FIGURES, exact=True).failures()) == 3
    same = {name: phase(name, 1.0, diff=0.0) for name in ("cold", "streaming", "barrier")}
    assert replace(FIGURES, exact=True, **same).failures() == []


def test_the_json_has_the_promised_keys() -> None:
    plain = json.loads(json.dumps(FIGURES.plain()))
    assert {"items", "results", "devices", "max_rel_diff", "exact", "broker", "timeline"} <= set(
        plain
    )
    for mode in ("cold", "streaming", "barrier", "single_process"):
        assert plain[mode]["latency_s"] > 0
    assert plain["devices"][0]["rss_rise_nbytes"] == 40 << 20
    assert plain["succeeded"] is True


def test_a_device_that_was_never_heard_of_still_has_a_row() -> None:
    (figures,) = device_figures(["phone-9"])(Observation())
    assert figures.tasks == 0
    assert "phone-9" in shown(*device_tables([figures]))


def test_the_tables_show_what_a_person_asks_for() -> None:
    text = shown(*device_tables(FIGURES.devices), run_table(FIGURES))
    for wanted in ("phone-1", "0–3", "40.0", "streaming", "60/60", "3.0e-07", "whole model"):
        assert wanted in text


def test_the_tables_fit_into_a_terminal_of_80_columns() -> None:
    many = replace(
        FIGURES.devices[0],
        name="living-room-tablet-2",
        partitions=((0, 3), (5, 5), (8, 9), (12, 12)),
        loads=FIGURES.devices[0].loads * 40,
        tasks=18_000,
        rss_peak_nbytes=1234 << 20,
        received_nbytes=9876 << 20,
    )
    console = Console(file=io.StringIO(), width=80)
    console.print(*device_tables((*FIGURES.devices, many)), run_table(FIGURES))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "…" not in text
    for heading in ("loads by tier", "above runtime", "computing", "first result", "difference"):
        assert heading in text


def test_answers_can_be_judged_by_a_person() -> None:
    assert "It pours." in shown(answer_table(FIGURES))
    assert answer_table(replace(FIGURES, answers=())) is None


def test_the_conclusions_follow_from_the_figures() -> None:
    told = " ".join(conclusions(FIGURES))
    assert "38% less time" in told
    assert "the largest device at 94.0 MiB, which is 40.0 MiB above" in told
    assert "1 of 2 answers" in told
    slower = replace(FIGURES, streaming=phase("streaming", 2.0))
    assert "One process was 5.0 times as fast as the 2 devices" in " ".join(conclusions(slower))
    quicker = replace(FIGURES, streaming=phase("streaming", 0.25))
    assert "The 2 devices were 1.6 times as fast as one process." in conclusions(quicker)
    assert "less time" not in " ".join(conclusions(slower))
