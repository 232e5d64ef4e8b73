"""`crowdpipe demo`: see it work on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crowdpipe.cli.options import Exact, example

if TYPE_CHECKING:
    from crowdpipe.demo.figures import DemoFigures

FAILED = 1


def register(app: typer.Typer) -> None:
    app.command(
        epilog=example(
            "crowdpipe demo",
            "crowdpipe demo --exact --json figures.json",
            "crowdpipe demo --devices 3 --broker mqtt://127.0.0.1:1883   # if one runs there",
        )
    )(demo)


def demo(
    devices: Annotated[int, typer.Option(metavar="N", help="How many agents.")] = 5,
    items: Annotated[int, typer.Option(metavar="N", help="How many items; at most 60.")] = 60,
    exact: Exact = False,
    json_file: Annotated[
        Path | None,
        typer.Option(
            "--json", metavar="FILE", help="Also write all figures to this file, as JSON."
        ),
    ] = None,
    timeline: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.html",
            help="Where to write the timeline.  [default: a new file in the home's demo/]",
        ),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.onnx", help="A model of your own instead, with generated inputs."
        ),
    ] = None,
    max_shape: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=N,…", help="With --model: largest sizes of symbolic dimensions."
        ),
    ] = None,
    broker: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Use this broker, as mqtt://host:port, instead of starting one."
        ),
    ] = None,
) -> None:
    """One real model over five agents on this machine, compared with one process.

    Streaming and barrier runs of real sentences; tables per device and run, and a timeline as a
    picture. Fails if a result is missing or differs by more than 1e-5 (with --exact: by a bit).
    """
    from crowdpipe.cli.console import out
    from crowdpipe.cli.quantities import parse_shape
    from crowdpipe.demo.demonstration import Demonstration, DemoOptions, new_timeline
    from crowdpipe.home import home_folder
    from crowdpipe.serving.signals import Interrupted, ending_signals_raise
    from wire.errors import UserError

    if json_file is not None and not json_file.absolute().parent.is_dir():
        raise UserError(f"there is no folder {json_file.absolute().parent} to write figures into")
    cache = Path.home() / ".cache" / "crowdpipe"
    options = DemoOptions(
        timeline=timeline or new_timeline(home_folder()),
        cache=cache,
        devices=devices,
        items=items,
        exact=exact,
        model=model,
        broker=broker,
        max_shape=parse_shape(max_shape),
    )
    try:
        with ending_signals_raise():
            figures = Demonstration(options, out()).run()
    except Interrupted as asked:
        typer.echo(f"\nStopped ({asked}). Everything that it started has been shut down.", err=True)
        raise typer.Exit(asked.exit_code) from None
    if json_file is not None:
        json_file.write_text(json.dumps(figures.plain(), indent=2) + "\n", encoding="utf-8")
    _show(figures)
    if figures.failures():
        raise typer.Exit(FAILED)


def _show(figures: DemoFigures) -> None:
    from crowdpipe.cli.console import out, say
    from crowdpipe.demo.tables import answer_table, conclusions, device_tables, run_table

    console = out()
    for table in (*device_tables(figures.devices), run_table(figures), answer_table(figures)):
        if table is not None:
            console.print()
            console.print(table)
    console.print()
    for sentence in conclusions(figures):
        console.print(sentence)
    console.print(f"Timeline: {figures.timeline}")
    for failure in figures.failures():
        say(f"failed: {failure}")
