"""A client in a process of its own, which submits a run that is to go on without it.

    python -m benchmarks.faults.client BROKER MODEL PARTITIONS ITEMS.npz

It says the run's id once all inputs are with the orchestrator, and stays until its input ends.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.talker import Talker
from crowdpipe.client.session import Session
from crowdpipe.items_file import read_items
from wire.broker_url import BrokerUrl, parse_url


class Client(Talker):
    """Such a process, inside a `with`: its run has begun."""

    def __init__(self, url: BrokerUrl, model: str, partitions: int, items: Path) -> None:
        super().__init__(__name__, [str(url), model, str(partitions), str(items)])

    @property
    def run(self) -> str:
        return str(self.said["run"])


def main(arguments: Sequence[str]) -> None:
    url, model, partitions, path = arguments
    _, items = read_items(Path(path), ())
    with Session(model, parse_url(url), exact=True, partitions=int(partitions)) as session:
        print(json.dumps({"run": session.submit(items)}), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1:])
