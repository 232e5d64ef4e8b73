"""Run the store alone: `python -m model_store --folder F --credentials FILE`."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from pathlib import Path

from model_store.access import UsersFile
from model_store.server import StoreServer
from wire.errors import CrowdpipeError, OperatorError
from wire.users import read_users


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m model_store",
        description="Keep models' bytes by digest and serve them to devices over HTTP.",
        epilog="example: python -m model_store --folder ~/.crowdpipe/store "
        "--host 0.0.0.0 --port 8080 --credentials ~/.crowdpipe/credentials.json",
    )
    parser.add_argument("--folder", type=Path, required=True, help="where the bytes are kept")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, default=8080, help="port; 0 takes a free one (8080)")
    parser.add_argument(
        "--credentials", type=Path, required=True, help="the file of users, as `crowdpipe up` makes"
    )
    parser.add_argument(
        "--certificate",
        type=Path,
        metavar="FILE",
        help="speak HTTPS, with this chain and key; without it, whoever is in the network can read "
        "everything",
    )
    parser.add_argument(
        "--sweep", action="store_true", help="first delete blobs that no model uses"
    )
    return parser.parse_args()


def serve(options: argparse.Namespace) -> None:
    check_credentials(options.credentials)
    server = StoreServer(
        options.folder,
        options.host,
        options.port,
        authorise=UsersFile(options.credentials).authorise,
        certificate=options.certificate,
    )
    if options.sweep:
        server.blobs.forget_unfinished()
        print(f"deleted {len(server.manifests.sweep())} blobs that no model uses", flush=True)
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    with server:
        print(f"model store at {server.base}, in {options.folder}", flush=True)
        ended.wait()


def check_credentials(path: Path) -> None:
    try:
        read_users(path.read_bytes())
    except OSError as error:
        raise OperatorError(
            f"cannot read the file of users: {error}; `crowdpipe up` makes one, in its home folder"
        ) from None


def main() -> int:
    try:
        serve(arguments())
    except CrowdpipeError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
