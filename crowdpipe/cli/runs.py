"""`crowdpipe runs` and `cancel`: your runs, whichever session began them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from crowdpipe.cli.options import Broker, Home, Json, broker_of, example

if TYPE_CHECKING:
    from wire.messages.progress import ListedRun, RunProgress

Run = Annotated[str, typer.Argument(metavar="RUN", help="The run's id, as `crowdpipe runs` says.")]


def register(app: typer.Typer) -> None:
    app.command(epilog=example("crowdpipe runs"))(runs)
    app.command(epilog=example("crowdpipe cancel 3f9a2c7e51d04b68"))(cancel)


def runs(broker: Broker = None, home: Home = None, as_json: Json = False) -> None:
    """List your runs that go on, or whose results are kept: the newest first."""
    from crowdpipe.cli.console import out, print_json, say
    from crowdpipe.cli.tables import plain_table
    from crowdpipe.client.run_list import list_runs

    listed = list_runs(broker_of(broker, home))
    if as_json:
        print_json(listed.runs)
        return
    if not listed.runs:
        say("You have no runs. Begin one: crowdpipe run NAME --input FILE --output FILE")
        return
    table = plain_table("run", "model", "state", ">done", ">to collect", "client", ">age", "~waits")
    for run in listed.runs:
        table.add_row(*_row(run))
    out().print(table)
    if listed.left_out:
        say(f"{listed.left_out} older ones are not listed.")


def _row(run: ListedRun) -> tuple[str, ...]:
    from crowdpipe.cli.quantities import show_seconds

    told = run.progress
    return (
        told.run,
        told.model,
        told.status,
        done_of(told),
        str(run.kept),
        "here" if told.attended else "away",
        show_seconds(run.age_s),
        told.reason or "–",
    )


def done_of(told: RunProgress) -> str:
    """`3/60`, `3/?` while more inputs come, `3/60, 1 failed`."""
    total = told.count if told.count is not None else "?"
    failed = f", {told.failed} failed" if told.failed else ""
    return f"{told.done + told.failed}/{total}{failed}"


def cancel(run: Run, broker: Broker = None, home: Home = None, as_json: Json = False) -> None:
    """End a run of yours. What it has done can still be collected."""
    from crowdpipe.cli.console import print_json, say
    from crowdpipe.client.run_list import cancel as end

    ended = end(run, broker_of(broker, home))
    if as_json:
        print_json(ended)
    elif ended.progress.status == "cancelled":
        say(f"Run {run} is cancelled: {done_of(ended.progress)} items are over.")
    else:
        say(f"Run {run} is over already: {ended.progress.status}.")
