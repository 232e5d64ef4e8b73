"""Tables in a terminal of 80 columns: no heading and no number is broken, whatever it costs."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console, RenderableType

from crowdpipe.cli.devices import devices_table
from crowdpipe.cli.tables import plain_table
from crowdpipe.client.fleet import DeviceReport
from wire.ids import PartitionId
from wire.messages.residency import Failure, PartitionResidency, Residency
from wire.messages.state import Capabilities, DeviceState
from wire.messages.telemetry import Telemetry
from wire.record_readers import MAX_INT

MIB = 1 << 20
ABLE = Capabilities(512 * MIB, 4096 * MIB, 256 * MIB, 8, "aarch64", "1.29.0", 26)
TOLD = Telemetry(
    "c",
    60.0,
    183 * MIB,
    200 * MIB,
    80 * MIB,
    12,
    0,
    battery_percent=87,
    battery_charging=True,
    temperature_c=31.4,
)
FAILED = Failure("over_budget", "it needs 24.3 MiB and the budget is 16.0 MiB")


def device(name: str) -> DeviceReport:
    part = PartitionResidency(PartitionId("d" * 32, False, 0, 3), "minilm", "resident", 1, 1)
    failed = PartitionResidency(
        PartitionId("d" * 32, False, 9, 12), "minilm", "failed", 1, 1, failure=FAILED
    )
    return DeviceReport(
        name,
        DeviceState("online", "c", "b", "0.1.0", 1, ABLE),
        TOLD,
        Residency("c", 1, 1, (part, failed), 40, 123 * MIB),
    )


def shown(thing: RenderableType, width: int) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(thing)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(
    "name", ["phone-1", "living-room-tablet-2", "a-name-of-thirty-two-characters-"]
)
def test_devices_are_readable(width: int, name: str) -> None:
    text = shown(devices_table([device(name), DeviceReport("phone-9")]), width)
    assert max(map(len, text.splitlines())) <= width
    for whole in ("battery", "↑87 %", "31", "183 MiB", "512 MiB", "12", "123 MiB", "resident"):
        assert whole in text
    assert "…" not in text


def test_why_a_device_does_not_serve_is_shown_with_what_to_do() -> None:
    theirs = device("phone-1")
    assert theirs.state is not None
    refusing = replace(theirs, state=replace(theirs.state, reason="the orders are forged: type"))
    foreign = replace(refusing, mismatch="the agent speaks wire version 1, the desk 2: update it")
    gone = replace(theirs, state=replace(theirs.state, status="offline", reason="asked to stop"))
    text = shown(devices_table([refusing, foreign, gone]), 300)
    assert "phone-1: the orders are forged: type" in text
    assert "phone-1: the agent speaks wire version 1, the desk 2: update it" in text
    assert "asked to stop" not in text
    assert "phone-1:" not in shown(devices_table([theirs]), 300)


def test_numbers_stay_whole_while_words_give_way() -> None:
    table = plain_table("name", ">amount", "~words")
    table.add_row("phone-1", "123.4 MiB", "one two three four five six seven eight nine ten")
    text = shown(table, 40)
    assert "123.4 MiB" in text
    assert "phone-1" in text
    assert len(text.splitlines()) > 3


def absurd() -> DeviceReport:
    """A device that says what cannot be, at length."""
    far = PartitionId("d" * 32, False, 0, MAX_INT)
    why = Failure("over_budget", "\x1b[2J\n" + "no " * 100_000)
    many = [
        PartitionResidency(far, "m" * 5000, "fetching", MAX_INT, 1),
        PartitionResidency(far, "minilm", "failed", -MAX_INT, -1, failure=why),
        *[PartitionResidency(far, "minilm", "resident", 1, 1) for _ in range(300)],
    ]
    able = Capabilities(MAX_INT, MAX_INT, MAX_INT, MAX_INT, "", "", 26)
    told = Telemetry(
        "c",
        -1e308,
        MAX_INT,
        -MAX_INT,
        MAX_INT,
        -MAX_INT,
        MAX_INT,
        battery_percent=-1e308,
        temperature_c=1e308,
    )
    state = DeviceState("online", "c", "b", "0.1.0", 1, able, reason="\x1b[2J" + "why " * 9000)
    residency = Residency("c", 1, 1, tuple(many), MAX_INT, -MAX_INT)
    return DeviceReport("absurd", state, told, residency)


@pytest.mark.parametrize("width", [80, 150])
def test_a_device_that_says_what_cannot_be_leaves_the_others_readable(width: int) -> None:
    text = shown(devices_table([device("phone-1"), absurd(), device("phone-2")]), width)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) < 55
    for whole in ("battery", "↑87 %", "31", "183 MiB", "512 MiB", "12", "123 MiB"):
        assert whole in text
    assert "\x1b" not in text
    assert "more" in text
