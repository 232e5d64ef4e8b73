"""`crowdpipe up`: serve from this machine until asked to stop."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from bus.program_log import log_to_stderr
from crowdpipe.cli.options import Home, Json, example, home_of

if TYPE_CHECKING:
    from crowdpipe.serving.system import System

BROKER_PORT = 18830  # not 1883, where a Mosquitto that the system starts already listens
STORE_PORT = 18831
EVERYWHERE = "0.0.0.0"
LOG_LEVELS = ("debug", "info", "warning", "error")


def register(app: typer.Typer) -> None:
    app.command(
        epilog=example(
            "crowdpipe up",
            "crowdpipe up --lan   # so that phones can reach it",
        )
    )(up)


def up(
    home: Home = None,
    host: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Address of this machine to listen on; phones must be able to reach it.  "
            "[default: 127.0.0.1]",
            show_default=False,
        ),
    ] = None,
    lan: Annotated[
        bool, typer.Option("--lan", help="Listen on all addresses of this machine.")
    ] = False,
    tls: Annotated[
        bool | None,
        typer.Option(
            "--tls/--without-tls",
            help="Broker and store speak TLS, always where other machines reach them. Without it, "
            "whoever is in that network can read everything, secrets and weights too.",
            show_default=False,
        ),
    ] = None,
    broker_port: Annotated[
        int, typer.Option(metavar="PORT", min=0, max=65535, help="0 picks a free one.")
    ] = BROKER_PORT,
    store_port: Annotated[
        int, typer.Option(metavar="PORT", min=0, max=65535, help="0 picks a free one.")
    ] = STORE_PORT,
    broker: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Use this broker, as mqtt://host:port, instead of starting one."
        ),
    ] = None,
    forget_after: Annotated[
        float,
        typer.Option(
            metavar="DAYS",
            min=0,
            help="Forget phones that were not heard of for so long while this ran; 0 keeps them.",
        ),
    ] = 7.0,
    log: Annotated[str, typer.Option(metavar="LEVEL", help="|".join(LOG_LEVELS))] = "warning",
    as_json: Json = False,
) -> None:
    """Start broker, model store and orchestrator, and serve until Ctrl-C."""
    if log not in LOG_LEVELS:
        raise typer.BadParameter(f"--log is one of {', '.join(LOG_LEVELS)}")
    log_to_stderr(log)
    from crowdpipe.cli.console import say
    from crowdpipe.serving.signals import Interrupted, ending_signals_raise
    from crowdpipe.serving.system import LOOPBACK, System, SystemSettings

    if lan and host is not None:
        raise typer.BadParameter("--lan listens on every address: give it or --host, not both")
    settings = SystemSettings(
        home=home_of(home),
        host=EVERYWHERE if lan else host or LOOPBACK,
        broker_port=broker_port,
        store_port=store_port,
        broker=broker,
        forget_after_days=forget_after,
        tls=tls,
    )
    try:
        with ending_signals_raise(), System(settings) as system:
            _tell(system, as_json)
            system.run()
    except Interrupted as asked:
        say(f"Stopped ({asked}).")


def _tell(system: System, as_json: bool) -> None:
    from crowdpipe.cli.console import print_json
    from crowdpipe.cli.phone import device_add_line
    from crowdpipe.cli.quantities import counted
    from crowdpipe.home import home_folder

    home = system.settings.home
    if as_json:
        print_json(
            {
                "ready": True,
                "home": str(home),
                "broker": system.outside.shown,
                "broker_kind": system.broker.name,
                "broker_told": system.broker.describe(),
                "store": system.store.base,
                "notice": system.orchestrator.notice,
            }
        )
        sys.stdout.flush()
        return
    models = system.store.manifests.names()
    print(f"broker        {system.broker.describe()}", flush=True)
    print(f"model store   {system.store.base}, in {home / 'store'}")
    if system.outside != system.broker.url:
        print(f"elsewhere     {system.outside.shown}")
    if system.certificates is not None:
        print(f"authority     {system.certificates.authority}: {system.certificates.fingerprint}")
    print(f"orchestrator  {counted(len(models), 'model')}; its journal in {system.journal_folder}")
    if system.orchestrator.notice is not None:
        print(f"take note     {system.orchestrator.notice}")
    print()
    print("To add a phone, type here (it prints the line to type on the phone):")
    print(f"  {device_add_line(home, home_folder())}")
    print("To watch what happens: crowdpipe watch")
    print("Ctrl-C stops everything.", flush=True)
