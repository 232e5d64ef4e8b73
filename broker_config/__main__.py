"""Run Mosquitto alone, with our configuration: `python -m broker_config --home H`.

Looks at the file of users once a second and takes changes over, so that another program may add
users while this one runs.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from pathlib import Path

from broker_config.credentials import Credentials
from broker_config.mosquitto import MosquittoBroker
from wire.errors import BrokerUnreachable, CrowdpipeError, InvalidName
from wire.topics import ORCHESTRATOR, Role

LOOK_EVERY_S = 1.0
ROLES: dict[str, Role] = {
    "device": "device",
    "client": "client",
    "watcher": "watcher",
    "orchestrator": "orchestrator",
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m broker_config",
        description="Run Mosquitto with generated credentials and the access list.",
        epilog="example: python -m broker_config --home ~/.crowdpipe --host 0.0.0.0 --port 1883 "
        "--user phone-1:device --user ann:client",
    )
    parser.add_argument("--home", type=Path, required=True, help="where credentials are kept")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, default=1883, help="port; 0 takes a free one (1883)")
    parser.add_argument(
        "--device-port",
        type=int,
        help="a second port for devices alone, where none can take another's client id",
    )
    parser.add_argument(
        "--certificate",
        type=Path,
        metavar="FILE",
        help="speak TLS, with this chain and key; without it, whoever is in the network can read "
        "everything",
    )
    parser.add_argument(
        "--user",
        action="append",
        default=[],
        metavar="NAME:ROLE",
        help="add this user first; roles: " + ", ".join(ROLES),
    )
    return parser.parse_args()


def add_user(credentials: Credentials, text: str) -> None:
    name, _, role = text.partition(":")
    if role not in ROLES:
        raise InvalidName(f"user {text!r}: write NAME:ROLE with a role of {', '.join(ROLES)}")
    credentials.add(name, ROLES[role])


def serve(options: argparse.Namespace) -> None:
    credentials = Credentials(options.home)
    credentials.add(ORCHESTRATOR, "orchestrator")
    for text in options.user:
        add_user(credentials, text)
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    broker = MosquittoBroker(
        options.home,
        credentials,
        options.host,
        options.port,
        device_port=options.device_port,
        certificate=options.certificate,
    )
    with broker:
        print(f"{broker.describe()}; users in {credentials.path}", flush=True)
        known = credentials.users()
        while not ended.wait(LOOK_EVERY_S):
            if not broker.running:
                raise BrokerUnreachable(f"Mosquitto ended unexpectedly; see {broker.log}")
            if credentials.users() != known:
                known = credentials.users()
                broker.reload()


def main() -> int:
    try:
        serve(arguments())
    except CrowdpipeError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
