"""`crowdpipe run`: inputs from a file through a served model, results into a file."""

from __future__ import annotations

import time
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crowdpipe.cli.options import Broker, Exact, Home, Json, Timeout, broker_of, example

if TYPE_CHECKING:
    from crowdpipe.cli.run_view import RunView
    from crowdpipe.client.session import Session
    from crowdpipe.items_file import Arrays, Layout

LAYOUTS = """\b
The input file (numpy.savez) has one of three layouts:
  an array per model input            the file is one item
  0/input_ids, 1/input_ids, …         items by number; their shapes may differ
  an array per input, with --batch    the first axis counts the items
Results have the layout of the inputs, with the names of the model's outputs. Nothing is
written if an item fails: the error says which.
"""


def register(app: typer.Typer) -> None:
    app.command(
        epilog=LAYOUTS
        + example(
            "crowdpipe run minilm --input in.npz --output out.npz",
            "crowdpipe run minilm --input in.npz --detach",
        )
    )(run)


def run(
    model: Annotated[str, typer.Argument(metavar="NAME", help="The model's name.")],
    inputs: Annotated[Path, typer.Option("--input", metavar="FILE.npz", help="Read items here.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE.npz", help="Write results here."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Let the results replace the input file.")
    ] = False,
    batch: Annotated[
        bool,
        typer.Option("--batch", help="Every array is a batch: its first axis counts the items."),
    ] = False,
    exact: Exact = False,
    barrier: Annotated[
        bool,
        typer.Option(
            "--barrier",
            help="Each partition waits for all outputs of the one before it (for comparison).",
        ),
    ] = False,
    batch_size: Annotated[
        str,
        typer.Option(
            "--batch-size",
            metavar="auto|N",
            help="Devices may compute N waiting items in one call; last bits may change.",
        ),
    ] = "1",
    detach: Annotated[
        bool,
        typer.Option("--detach", help="End once all items are submitted; collect results later."),
    ] = False,
    keep: Annotated[
        float,
        typer.Option("--keep", metavar="HOURS", min=0.01, help="With --detach: keep results."),
    ] = 24.0,
    timeout: Timeout = 300.0,
    broker: Broker = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Run a model over the items of a file."""
    from crowdpipe.cli.console import print_json, say
    from crowdpipe.cli.quantities import counted, show_seconds
    from crowdpipe.cli.run_view import RunView
    from crowdpipe.client.batch_size import batch_number
    from crowdpipe.client.session import Session
    from crowdpipe.items_file import check_output, read_arrays, split_items
    from crowdpipe.serving.signals import Interrupted, ending_signals_raise
    from wire.errors import UserError

    if (output is None) != detach:
        raise UserError("give either --output FILE.npz, or --detach to collect results later")
    if output is not None:
        _check_other(inputs, output, force)
        check_output(output)
    if exact and batch_number(batch_size) != 1:
        raise UserError("--exact computes each item alone: leave out --batch-size, or --exact")
    arrays = read_arrays(inputs)
    view = RunView("running")
    try:
        with (
            ending_signals_raise(),  # so that the session says that the run is cancelled
            Session(
                model,
                broker_of(broker, home),
                exact=exact,
                batch_size=batch_size,
                timeout_s=timeout,
                on_wait=view.wait,
                on_news=view.happen,
            ) as session,
        ):
            names = [spec.name for spec in session.get_inputs()]
            layout, items = split_items(inputs, arrays, names, batch)
            if batch:
                say(without_first_axis(arrays, len(items)))
            if output is None:
                _detach(session, items, barrier, keep, as_json=as_json)
                return
            begun = time.perf_counter()
            results = _results(session, items, barrier, view)
            elapsed_s = time.perf_counter() - begun
    except Interrupted as asked:
        say(f"The run is cancelled ({asked}).")
        raise typer.Exit(asked.exit_code) from None
    if not _write(output, layout, results):
        say("The results differ in shape, so they are numbered: 0/NAME, 1/NAME, …")
    if as_json:
        print_json({"items": len(items), "elapsed_s": elapsed_s, "output": str(output)})
    else:
        say(f"{counted(len(items), 'item')} in {show_seconds(elapsed_s)}; results in {output}")


def _check_other(inputs: Path, output: Path, force: bool) -> None:
    from wire.errors import UserError

    same = inputs.exists() and output.exists() and inputs.samefile(output)
    if same and not force:
        raise UserError(
            f"the results would replace the inputs in {inputs}; name another --output, or give "
            "--force"
        )


def _write(output: Path, layout: Layout, results: list[Arrays]) -> bool:
    """As `write_items`. What was computed is not lost to a disk that has become full meanwhile:
    it goes to the folder for temporary files then, which the error says."""
    from crowdpipe.items_file import write_items
    from wire.errors import CrowdpipeError

    try:
        return write_items(output, layout, results)
    except CrowdpipeError as error:
        kept = _keep_elsewhere(layout, results)
        told = f"the results are in {kept}"
        if kept is None:
            told = "the results are lost; with --detach they are kept until they are collected"
        raise type(error)(f"{error} ({told})") from None


def _keep_elsewhere(layout: Layout, results: list[Arrays]) -> Path | None:
    """Where they are now; None if there is no room either."""
    import tempfile

    from crowdpipe.items_file import write_items
    from wire.errors import CrowdpipeError

    try:
        kept = Path(tempfile.mkdtemp(prefix="crowdpipe-run-")) / "out.npz"
        write_items(kept, layout, results)
    except (CrowdpipeError, OSError):
        return None
    return kept


def without_first_axis(arrays: Arrays, count: int) -> str:
    """What `--batch` made of the arrays, since a model may want a batch axis of its own."""
    from crowdpipe.cli.quantities import counted
    from crowdpipe.items_file import TOLD_ARRAYS

    shown = islice(arrays.items(), TOLD_ARRAYS)
    shapes = [f"{name} {list(array.shape[1:])}" for name, array in shown]
    shapes += ["…"] if len(arrays) > TOLD_ARRAYS else []
    what = f"--batch took the first axis off: {counted(count, 'item')}"
    return f"{what}, each with {', '.join(shapes)}"


def _detach(
    session: Session, items: list[Arrays], barrier: bool, keep_h: float, *, as_json: bool
) -> None:
    from crowdpipe.cli.console import print_json, say

    run = session.submit(items, barrier=barrier, keep_s=keep_h * 3600)
    if as_json:
        print_json({"run": run, "items": len(items)})
        return
    print(run)
    say(f"It goes on without you; its results are kept for {keep_h:g} h after the last of them:")
    say(f"  crowdpipe collect {run} -o out.npz")


def _results(session: Session, items: list[Arrays], barrier: bool, view: RunView) -> list[Arrays]:
    from crowdpipe.item_error import of_item
    from wire.errors import CrowdpipeError

    names = [spec.name for spec in session.get_outputs()]
    results: list[Arrays] = [{} for _ in items]
    with view.of(len(items)):
        outcomes = session.run_many(items, ordered=False, barrier=barrier, return_errors=True)
        for done, (item, outcome) in enumerate(outcomes, 1):
            if isinstance(outcome, CrowdpipeError):
                raise of_item(outcome, item, len(items))
            results[item] = dict(zip(names, outcome, strict=True))
            view.so_far(done)
    return results
