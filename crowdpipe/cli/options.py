"""Options that several commands share, so that they mean and say the same everywhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from crowdpipe.home import BROKER_VARIABLE, broker_url, home_folder
from wire.broker_url import BrokerUrl, parse_url
from wire.errors import UserError

Home = Annotated[
    Path | None,
    typer.Option(
        "--home",
        metavar="FOLDER",
        envvar="CROWDPIPE_HOME",
        help="Where users, models and the journal are kept.  [default: ~/.crowdpipe]",
        show_default=False,
        show_envvar=False,
    ),
]
Broker = Annotated[
    str | None,
    typer.Option(
        "--broker",
        metavar="URL",
        envvar="CROWDPIPE_BROKER",
        help="The broker, as mqtt://name:secret@host:port; else the one that runs in the home.",
        show_default=False,
        show_envvar=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout, and nothing else there.")]
Exact = Annotated[
    bool,
    typer.Option("--exact", help="Graph optimisation off: bit for bit the whole model's results."),
]
Timeout = Annotated[
    float,
    typer.Option("--timeout", metavar="SECONDS", min=0.1, help="Give up after this long."),
]


def example(*lines: str) -> str:
    """An epilog that shows how a command is typed."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)


def home_of(given: Path | None) -> Path:
    """The home folder: as given, else where the environment or the default says."""
    return (given or home_folder()).expanduser()


def desk_home_of(given: Path | None) -> Path:
    """The home folder, for what is kept where `crowdpipe up` runs: models and users.

    Raises `UserError` where a broker elsewhere is named and the home is none: there, a home made
    by this would be one that nobody serves.
    """
    from broker_config.credentials import FILE_NAME  # not on Windows, where clients work

    home = home_of(given)
    elsewhere = os.environ.get(BROKER_VARIABLE)
    if elsewhere and not (home / FILE_NAME).exists():
        raise UserError(
            f"models and users are kept by the desk that serves {parse_url(elsewhere).shown}: type "
            f"this there (or unset {BROKER_VARIABLE} for a home of your own in {home})"
        )
    return home


def broker_of(given: str | None, home: Path | None) -> BrokerUrl:
    """The broker to use: as named (option or environment), else the one served from the home."""
    return broker_url(given, home_of(home))
