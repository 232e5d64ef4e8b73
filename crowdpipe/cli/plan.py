"""`crowdpipe plan`: who would serve what, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from crowdpipe.cli.options import Broker, Exact, Home, Json, broker_of, example

if TYPE_CHECKING:
    from wire.messages.requests import Planned, PlannedPartition

MOST_LEFT_OUT = 40  # lines; --json has them all


def register(app: typer.Typer) -> None:
    app.command(epilog=example("crowdpipe plan minilm", "crowdpipe plan minilm --partitions 3"))(
        plan
    )


def plan(
    model: Annotated[str, typer.Argument(metavar="NAME", help="The model's name.")],
    partitions: Annotated[
        int | None,
        typer.Option(metavar="N", help="Number of partitions.  [default: the planner decides]"),
    ] = None,
    items: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Number of items to plan for.")
    ] = None,
    exact: Exact = False,
    broker: Broker = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Say which device would serve which segments, and why. Changes nothing."""
    from crowdpipe.cli.console import out, print_json
    from crowdpipe.cli.excerpts import show_list
    from crowdpipe.cli.quantities import show_nbytes, show_seconds
    from crowdpipe.cli.tables import plain_table, show_range
    from crowdpipe.client.fleet import plan as ask

    planned = ask(model, broker_of(broker, home), exact=exact, partitions=partitions, items=items)
    if as_json:
        print_json(planned)
        return
    table = plain_table(
        ">segments", "device", ">tier", ">memory", ">of", ">to fetch", ">input", ">compute"
    )
    for row in planned.partitions:
        table.add_row(
            show_range(row.first, row.last),
            row.device,
            str(row.tier),
            show_nbytes(row.need_nbytes),
            show_nbytes(row.budget_nbytes),
            show_nbytes(row.missing_nbytes),
            show_nbytes(row.boundary_nbytes),
            show_seconds(row.compute_s),
        )
    console = out()
    console.print(table)
    console.print()
    for row in planned.partitions:
        where = f"{show_range(row.first, row.last)} on {row.device}"
        how = ", segment by segment" if row.streamed else ""
        console.print(f"{where}{how}: {row.reason}, {_basis(row)}")
    not_used = [f"not used: {device}, {why}" for device, why in sorted(planned.left_out.items())]
    for line in show_list(not_used, MOST_LEFT_OUT):
        console.print(line)
    console.print(_estimate(planned))


def _estimate(planned: Planned) -> str:
    """Of all items, and of one device alone where one could: whether several are worth it."""
    from crowdpipe.cli.quantities import show_rate, show_seconds

    items, batch_s = planned.items, planned.batch_s
    said = f"estimate: {items} items in about {show_seconds(batch_s)}"
    if not planned.lone_device or not batch_s or not planned.lone_s:
        return said
    together = f"{len({row.device for row in planned.partitions})} devices"
    rates = show_rate(items / batch_s), show_rate(items / planned.lone_s)
    return f"{said}; {together}: {rates[0]}, {planned.lone_device} alone: {rates[1]}"


def _basis(row: PlannedPartition) -> str:
    """Whether devices have run its segments, or their cost is estimated from the graph."""
    count = row.last - row.first + 1
    if row.measured == count:
        return "as measured"
    known = f"; {row.measured} of its {count} segments were measured" if row.measured else ""
    return f"as estimated{known}"
