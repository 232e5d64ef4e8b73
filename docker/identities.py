"""Make the users of a system in containers, once: `python identities.py --agents 8 …`.

Writes the file of users that broker and store read, and an address for each user: agents' into
a folder of their own, from which each agent claims one (see `claim.py`). Users that are there
already keep their secrets.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from broker_config.credentials import Credentials
from broker_config.private_file import make_private_folder, write_private
from broker_config.url import BrokerUrl
from wire.errors import CrowdpipeError
from wire.topics import Role


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Make users and their addresses for containers.",
        epilog="example: python identities.py --home /desk --identities /identities --agents 8 "
        "--broker broker:1883 --devices-broker broker:1884",
    )
    parser.add_argument("--home", type=Path, required=True, help="where the file of users goes")
    parser.add_argument(
        "--identities", type=Path, required=True, help="where the agents' addresses go"
    )
    parser.add_argument("--agents", type=int, default=8, help="how many agents there may be (8)")
    parser.add_argument("--broker", default="broker:1883", help="HOST:PORT of the broker")
    parser.add_argument("--devices-broker", help="HOST:PORT for devices, if it is another")
    return parser.parse_args()


def address_of(credentials: Credentials, name: str, role: Role, where: str) -> BrokerUrl:
    host, _, port = where.rpartition(":")
    return BrokerUrl(host, int(port)).login(name, credentials.add(name, role).secret)


def make(options: argparse.Namespace) -> None:
    credentials = Credentials(options.home)
    addresses = make_private_folder(options.home / "addresses")
    for name, role in PEOPLE.items():
        url = address_of(credentials, name, role, options.broker)
        write_private(addresses / name, str(url).encode())
    pool = make_private_folder(options.identities)
    for number in range(1, options.agents + 1):
        name, where = f"agent-{number}", options.devices_broker or options.broker
        url = address_of(credentials, name, "device", where)
        # Rewriting would replace the file that a running agent has locked.
        if not (pool / name).exists():
            write_private(pool / name, str(url).encode())
    print(f"{len(credentials.users())} users in {credentials.path}, {options.agents} for agents")


PEOPLE: dict[str, Role] = {"orchestrator": "orchestrator", "client": "client", "watcher": "watcher"}

if __name__ == "__main__":
    try:
        make(arguments())
    except CrowdpipeError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
