"""`crowdpipe agent`: one edge agent on this machine, as `crowdpipe-agent` is on a phone."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from crowdpipe.cli.options import Home, example, home_of

BROKER_VARIABLE = "CROWDPIPE_AGENT_BROKER"
KEY_VARIABLE = "CROWDPIPE_AGENT_DESK_KEY"
CACHE_VARIABLE = "CROWDPIPE_AGENT_CACHE"


def register(app: typer.Typer) -> None:
    app.command(epilog=example("crowdpipe agent --name laptop --memory 256MiB"))(agent)


def agent(
    name: Annotated[str, typer.Option(metavar="NAME", help="What this device is called.")],
    broker: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="As `crowdpipe device add` printed it; else the one in the home."
        ),
    ] = None,
    memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="What partitions may take, as 256MiB.")
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Where segments are kept; else in the home, if one is named."
        ),
    ] = None,
    log: Annotated[str, typer.Option(metavar="LEVEL", help="debug|info|warning|error")] = "info",
    home: Home = None,
    desk_key: Annotated[
        str | None,
        typer.Option(
            "--desk-key",
            metavar="KEY",
            help="Obey the desk of this key alone; with no --broker, the home's.",
        ),
    ] = None,
) -> None:
    """Serve parts of models from this machine until Ctrl-C."""
    from crowdpipe.home import desk_key_of

    # In the environment, not in the arguments: those every user of the machine can read.
    os.environ[BROKER_VARIABLE] = broker or _own_url(home_of(home), name)
    if desk_key is None and broker is None and not os.environ.get(KEY_VARIABLE):
        desk_key = desk_key_of(home_of(home))
    flags = ["--name", name, "--log", log]
    flags += ["--memory", memory] if memory else []
    flags += ["--desk-key", desk_key] if desk_key else []
    folder = cache or _folder_in(home, name)
    flags += ["--cache", str(folder)] if folder else []
    sys.stdout.flush()
    sys.stderr.flush()
    # In the place of this program, which takes 18 MB more than an agent alone (measured).
    os.execv(sys.executable, [sys.executable, "-m", "edge_agent", *flags])


def _folder_in(home: Path | None, name: str) -> Path | None:
    """Under the home folder, if one is named and no other place is; else the agent decides."""
    if home is None or os.environ.get(CACHE_VARIABLE):
        return None
    return home.expanduser() / "agents" / name


def _own_url(home: Path, name: str) -> str:
    from crowdpipe.serving.users import add_user
    from wire.errors import BrokerUnreachable

    url = add_user(home, name, "device")
    if url is None:
        raise BrokerUnreachable(
            f"nothing is served from {home}: start `crowdpipe up` first, or give --broker URL"
        )
    return str(url)
