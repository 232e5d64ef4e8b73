"""`crowdpipe backup` and `crowdpipe restore`: a home in one file, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from crowdpipe.cli.options import Home, Json, example, home_of

NOT_IN_IT = "models (give --models), what phones keep, and the broker's log"


def register(app: typer.Typer) -> None:
    app.command(epilog=example("crowdpipe backup monday.tar"))(backup)
    app.command(epilog=example("crowdpipe restore monday.tar --home /srv/crowdpipe"))(restore)


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Is made; must not be there yet.")],
    models: Annotated[bool, typer.Option("--models", help="With the models in the store.")] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Write users, secrets and the journal (runs, inputs, results) into one file.

    Works while `crowdpipe up` runs. Whoever has the file has the secrets: keep it as safe.
    """
    from crowdpipe.cli.console import print_json, say
    from crowdpipe.cli.quantities import counted, show_nbytes
    from crowdpipe.serving.backup import back_up

    made = back_up(home_of(home), file, models=models)
    if as_json:
        print_json({"file": str(file), "nbytes": file.stat().st_size, "models": made.models})
        return
    what = ["users", "journal" if made.with_journal else "no journal (there is none yet)"]
    what += [counted(len(made.models), "model")] if models else []
    say(f"{file}: {', '.join(what)}; {show_nbytes(file.stat().st_size)}. It contains secrets.")
    if not models:
        say(f"Not in it: {NOT_IN_IT}.")


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="As `crowdpipe backup` made it.")],
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Keep users and journal that are there aside."),
    ] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Make a home of a backup. Stop `crowdpipe up` first, and start it afterwards.

    Runs go on from where the backup was made; phones connect with the secrets in it.
    """
    from crowdpipe.cli.console import print_json, say
    from crowdpipe.serving.restore import restore as restored

    folder = home_of(home)
    head = restored(file, folder, replace=replace)
    if as_json:
        print_json({"home": str(folder), "made_at": head.made_at, "models": head.models})
        return
    say(f"{folder} is as it was at {head.made_at}. Start it with `crowdpipe up`.")
