"""`crowdpipe devices`: what every device is and does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from crowdpipe.cli.options import Broker, Home, Json, broker_of, example

if TYPE_CHECKING:
    from rich.table import Table

    from crowdpipe.client.fleet import DeviceReport
    from wire.messages.residency import PartitionResidency, Residency
    from wire.messages.telemetry import Telemetry

EVERY_S = 2.0
MOST_QUEUED = 999_999  # more than that no device has read
MOST_NAMED = 32  # characters
MOST_PARTITIONS = 4
MOST_SAID = 240  # characters of why a device does not serve


def register(app: typer.Typer) -> None:
    app.command(epilog=example("crowdpipe devices", "crowdpipe devices --watch"))(devices)


def devices(
    watch: Annotated[bool, typer.Option("--watch", help="Refresh until Ctrl-C.")] = False,
    broker: Broker = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """What each device reported last: state, battery, memory, what it serves.

    Partitions may take as much memory as "for models" says; the agent's whole process, with Python
    and ONNX Runtime, has what "process" says. ↑: charging. Below stands why
    a device that is there serves nobody, and what to do.
    """
    from crowdpipe.cli.console import out, print_json, say
    from crowdpipe.client.fleet import devices as ask

    if watch and as_json:
        raise typer.BadParameter("--watch and --json cannot be combined; leave one of them out")
    url = broker_of(broker, home)
    if watch:
        _watch(lambda: devices_table(ask(url)))
        return
    found = ask(url)
    if as_json:
        print_json(found)
    elif found:
        out().print(devices_table(found))
    else:
        say("No device has connected yet. Add one: crowdpipe device add NAME")


def _watch(look: Callable[[], Table]) -> None:
    from rich.live import Live

    from crowdpipe.cli.console import out
    from crowdpipe.serving.signals import Interrupted, ending_signals_raise

    try:
        with ending_signals_raise(), Live(look(), console=out(), auto_refresh=False) as live:
            while True:
                time.sleep(EVERY_S)
                live.update(look(), refresh=True)
    except Interrupted:
        return


def devices_table(found: list[DeviceReport]) -> Table:
    from rich.text import Text

    from crowdpipe.cli.tables import plain_table

    table = plain_table(
        "device",
        "state",
        ">battery",
        ">°C",
        ">for models",
        ">process",
        ">queue",
        ">cached",
        "~serves",
    )
    for device in found:
        table.add_row(*_row(device))
    table.caption = Text(_troubles(found)) if any(map(_trouble, found)) else None
    table.caption_justify = "left"
    return table


def _row(device: DeviceReport) -> tuple[str, ...]:
    from crowdpipe.cli.quantities import possible_nbytes, show_nbytes

    state, residency = device.state, device.residency
    here = state is not None and state.status != "offline"
    told = device.telemetry if here else None  # what it said before it went is no news
    able = state.capabilities if state else None
    budget = possible_nbytes(able.memory_budget_nbytes if able else None)
    return (
        device.name,
        _status(device),
        _battery(told),
        f"{told.temperature_c:.0f}" if told and told.temperature_c is not None else "–",
        show_nbytes(budget) if budget is None else f"≤ {show_nbytes(budget)}",
        show_nbytes(possible_nbytes(told.rss_nbytes if told else None)),
        str(told.queue_depth) if told and 0 <= told.queue_depth <= MOST_QUEUED else "–",
        show_nbytes(possible_nbytes(residency.cached_nbytes if residency else None)),
        _serves(residency) if residency and here else "–",
    )


def _status(device: DeviceReport) -> str:
    status = device.state.status if device.state else "–"
    return f"{status}; another agent uses this name too" if device.contested else status


def _trouble(device: DeviceReport) -> str | None:
    """Why it serves nobody, where a person has to do something about it."""
    state = device.state
    if device.mismatch or state is None or state.status != "online":
        return device.mismatch
    return state.reason


def _troubles(found: list[DeviceReport]) -> str:
    """A line for each of the first few."""
    from crowdpipe.cli.excerpts import show_list, show_text

    told = [(device.name, _trouble(device)) for device in found]
    lines = [f"{name}: {show_text(why, MOST_SAID)}" for name, why in told if why]
    return "\n".join(show_list(lines))


def _battery(told: Telemetry | None) -> str:
    if told is None or told.battery_percent is None:
        return "–"
    return f"{'↑' if told.battery_charging else ''}{told.battery_percent:.0f} %"


def _serves(residency: Residency) -> str:
    """The first partitions with their status, and a count of the others."""
    from crowdpipe.cli.excerpts import show_list

    return (
        ", ".join(show_list(list(map(_served, residency.partitions)), MOST_PARTITIONS)) or "nothing"
    )


def _served(entry: PartitionResidency) -> str:
    """Where it is in its model and how far it got; of a failed one also why."""
    from crowdpipe.cli.excerpts import show_text
    from crowdpipe.cli.tables import show_range

    where = show_range(entry.partition.first, entry.partition.last)
    text = (
        f"{show_text(entry.model_name, MOST_NAMED)} {show_text(where, MOST_NAMED)} {entry.status}"
    )
    if entry.status == "fetching" and 0 <= entry.fetched_nbytes <= entry.total_nbytes:
        text += f" {entry.fetched_nbytes * 100 // max(1, entry.total_nbytes)} %"
    if entry.failure is not None:
        text += f": {show_text(entry.failure.reason)}"
    return text
