"""`crowdpipe collect`: the results of a run that another session began, into a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crowdpipe.cli.options import Broker, Home, Json, Timeout, broker_of, example
from crowdpipe.cli.runs import Run

if TYPE_CHECKING:
    from crowdpipe.cli.run_view import RunView
    from crowdpipe.client.collection import Collection
    from crowdpipe.items_file import Arrays, Layout
    from wire.broker_url import BrokerUrl
    from wire.errors import CrowdpipeError
    from wire.messages.progress import RunProgress

SHOWN_FAILURES = 10
NEVER_SENT = "never came: the client that began the run went before it had sent them"
GIVEN_BEFORE = "were given to another client before and are not in this file"


def register(app: typer.Typer) -> None:
    app.command(epilog=example("crowdpipe collect 3f9a2c7e51d04b68 -o out.npz"))(collect)


def collect(
    run: Run,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE.npz", help="Write results here.")
    ],
    batch: Annotated[
        bool,
        typer.Option("--batch", help="Write one array per output, if all items have a result."),
    ] = False,
    timeout: Timeout = 300.0,
    broker: Broker = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Wait for a run of yours, and write the results that nobody had yet.

    They are kept until they are written: whoever is interrupted may collect again.
    """
    from crowdpipe.cli.console import print_json, say
    from crowdpipe.client.run_list import find_run
    from crowdpipe.items_file import check_output
    from crowdpipe.serving.signals import Interrupted, ending_signals_raise

    check_output(output)
    url = broker_of(broker, home)
    found = find_run(run, url).progress
    try:
        with ending_signals_raise():
            done, failed = _collect(found, url, timeout, output, batch)
    except Interrupted as asked:
        say(f"Stopped ({asked}). The results are kept: crowdpipe collect {run} -o {output}")
        raise typer.Exit(asked.exit_code) from None
    if as_json:
        print_json({"items": done, "failed": sorted(failed), "output": str(output)})
    _report(output, done, failed)


def _collect(
    found: RunProgress, url: BrokerUrl, timeout_s: float, output: Path, batch: bool
) -> tuple[int, dict[int, CrowdpipeError]]:
    """How many results were written, and the errors of other items."""
    from crowdpipe.cli.console import say
    from crowdpipe.cli.run_view import RunView
    from crowdpipe.client.session import Session
    from crowdpipe.items_file import write_items

    view = RunView("collecting")
    with Session(
        found.model, url, timeout_s=timeout_s, on_wait=view.wait, on_news=view.happen
    ) as session:
        names = [spec.name for spec in session.get_outputs()]
        with session.collect(found.run) as results:
            done, failed = _take(results, names, view)
            for what in absent(found.count, results.had, len(results)):
                say(what)
            if done:
                why = lacking(found.count, list(done), len(failed))
                layout = layout_of(len(done), batch) if why is None else "numbered"
                with _kept(found.run):
                    as_asked = write_items(output, layout, list(done.values()), list(done))
                if batch and (why or not as_asked):
                    why = why or "The results differ in shape"
                    say(f"{why}, so results are numbered: 0/NAME, …")
    return len(done), failed


@contextmanager
def _kept(run: str) -> Iterator[None]:
    """A file that cannot be written costs nothing: nothing is acknowledged before."""
    from wire.errors import CrowdpipeError

    try:
        yield
    except CrowdpipeError as error:
        told = f"the results are kept: crowdpipe collect {run} -o FILE.npz"
        raise type(error)(f"{error} ({told})") from None


def lacking(count: int | None, done: list[int], failed: int) -> str | None:
    """Why these results (items, ascending) are not those of a whole run; None if they are."""
    if failed:
        return f"{failed} of the items failed"
    if count is None:
        return "How many items the run has was not known when this began"
    if done != list(range(count)):
        return f"{len(done)} of the run's {count} items were still to be collected"
    return None


def absent(count: int | None, had: int, came: int) -> list[str]:
    """What of the run is not in the file, and why: a sentence each."""
    total = max(count or 0, had + came)
    never = total - had - came
    told = [f"{had} of {total} {GIVEN_BEFORE}"] if had else []
    return [*told, f"{never} of {total} {NEVER_SENT}"] if never else told


def layout_of(count: int, batch: bool) -> Layout:
    """Of all items of a run."""
    if batch:
        return "batch"
    return "one" if count == 1 else "numbered"


def _take(
    results: Collection, names: list[str], view: RunView
) -> tuple[dict[int, Arrays], dict[int, CrowdpipeError]]:
    from wire.errors import CrowdpipeError

    done: dict[int, Arrays] = {}
    failed: dict[int, CrowdpipeError] = {}
    with view.of(len(results)):
        for count, (item, outputs) in enumerate(results, 1):
            if isinstance(outputs, CrowdpipeError):
                failed[item] = outputs
            else:
                done[item] = dict(zip(names, outputs, strict=True))
            view.so_far(count)
    return dict(sorted(done.items())), dict(sorted(failed.items()))


def _report(output: Path, done: int, failed: dict[int, CrowdpipeError]) -> None:
    """Raises the first item's error, if there is one, after all were told."""
    from crowdpipe.cli.console import say
    from crowdpipe.cli.quantities import counted
    from crowdpipe.item_error import of_item

    say(f"{counted(done, 'result')} in {output}" if done else "There is no result to collect.")
    errors = [of_item(error, item, 2) for item, error in failed.items()]
    for error in errors[:SHOWN_FAILURES]:
        say(f"error: {error}")
    if len(errors) > SHOWN_FAILURES:
        say(f"and {len(errors) - SHOWN_FAILURES} more items failed")
    if errors:
        raise typer.Exit(errors[0].exit_code)
