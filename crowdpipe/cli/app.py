"""The commands, put together."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from crowdpipe.cli import (
    agent,
    backup,
    collect,
    demo,
    device,
    devices,
    model,
    plan,
    run,
    runs,
    up,
    user,
    watch,
)

EXIT_CODES = """\b
Exit codes:
  0  done; for up, agent and what watches also: ended by Ctrl-C
  1  results differ from the whole model's (demo, model check), or a bug in crowdpipe
  2  the request cannot be served as it was made (the message says what to change)
  3  something in this setup is missing or broken (broker, store, devices)
  4  another program broke the protocol
  130, 143  interrupted before it was done, by Ctrl-C or a request to end
\b
Example:
  crowdpipe up
"""


def build() -> typer.Typer:
    app = typer.Typer(
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=False,
        no_args_is_help=True,
        epilog=EXIT_CODES,
    )
    app.callback()(root)
    for module in (up, agent, plan, run, runs, collect, devices, watch, backup, demo):
        module.register(app)
    for group in (model, device, user):
        app.add_typer(group.build())
    return app


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(version("crowdpipe"))
        raise typer.Exit


def root(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Run one ONNX model, unmodified, across a crowd of phones."""
    if debug:
        os.environ["CROWDPIPE_DEBUG"] = "1"
