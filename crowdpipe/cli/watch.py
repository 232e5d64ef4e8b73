"""`crowdpipe watch`: what any MQTT client sees under `crowdpipe/#`, as it happens."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import threading
from typing import Annotated

import typer

from crowdpipe.cli.excerpts import show_text
from crowdpipe.cli.options import Broker, Home, Json, broker_of, example, home_of
from wire.authority import is_fingerprint
from wire.broker_url import BrokerUrl

MOST_CHARACTERS = 4000
_DIGEST = re.compile(r"\b([0-9a-f]{8})[0-9a-f]{56}\b")


def register(app: typer.Typer) -> None:
    app.command(epilog=example("crowdpipe watch", "crowdpipe watch --line"))(watch)


def watch(
    line: Annotated[
        bool, typer.Option("--line", help="Print how to do the same with mosquitto_sub, and exit.")
    ] = False,
    broker: Broker = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Print every message about devices, models and runs until Ctrl-C.

    Retained messages come first; digests and long messages are shortened. With --json each line is
    an object, whole.
    """
    from crowdpipe.serving.signals import Interrupted, ending_signals_raise
    from crowdpipe.watching.login import WATCHER, login_of
    from crowdpipe.watching.watcher import Watcher

    url = login_of(home_of(home), broker_of(broker, home), WATCHER)
    if line:
        print(sub_line(url))
        return
    enough = threading.Event()
    show = _print_json if as_json else _print

    def hear(topic: str, payload: bytes) -> None:
        try:
            show(topic, payload)
        except BrokenPipeError:  # as in `crowdpipe watch | head`
            enough.set()

    try:
        with ending_signals_raise(), Watcher(url, hear=hear):
            enough.wait()
    except Interrupted:
        return
    raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def sub_line(url: BrokerUrl) -> str:
    """The same with Mosquitto's own client. Holds the secret."""
    words = ["mosquitto_sub", "-h", url.host, "-p", str(url.port)]
    words += ["-u", url.user] if url.user else []
    words += ["-P", url.secret] if url.secret else []
    if url.tls and url.authority is not None and not is_fingerprint(url.authority):
        words += ["--cafile", url.authority]
    return shlex.join([*words, "-t", "crowdpipe/#", "-v"])


def _print(topic: str, payload: bytes) -> None:
    print(show_text(topic), shortened(payload.decode(errors="replace")), flush=True)


def shortened(text: str) -> str:
    """With the first digits of each digest, which are enough for people, and the beginning of what
    is long."""
    return show_text(_DIGEST.sub(r"\1…", text), MOST_CHARACTERS)


def _print_json(topic: str, payload: bytes) -> None:
    try:
        message = json.loads(payload) if payload else None
    except ValueError:
        message = payload.decode(errors="replace")
    print(json.dumps({"topic": topic, "message": message}, ensure_ascii=False), flush=True)
