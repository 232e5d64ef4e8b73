"""The agents of a system in which each may end, stand still, come back or be somebody else."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from broker_config.child_process import Child
from wire.broker_url import BrokerUrl

MEMORY_NBYTES = 1 << 30
END_LIMIT_S = 10.0


class Agents:
    """`login` says how an agent of a name reaches the broker."""

    def __init__(self, folder: Path, login: Callable[[str], BrokerUrl]) -> None:
        self._folder = folder
        self._login = login
        self._children: dict[str, Child] = {}

    def start(self, name: str, place: str = "") -> None:
        """`place`: a folder of its own, for a second agent of the name."""
        folder = self._folder / (place or name)
        folder.mkdir(parents=True, exist_ok=True)
        program = [sys.executable, "-m", "edge_agent", "--name", name, "--threads", "1"]
        program += ["--cache", str(folder / "cache"), "--memory", str(MEMORY_NBYTES)]
        settings = {
            "CROWDPIPE_AGENT_BROKER": str(self._login(name)),
            "CROWDPIPE_AGENT_CONFIG": os.devnull,
        }
        level = os.environ.get("CROWDPIPE_LOG", "warning")
        child = Child([*program, "--log", level], folder / "agent.log", {**os.environ, **settings})
        self._children[place or name] = child
        child.start()

    def signal(self, name: str, number: int) -> None:
        self._children[name].signal(number)

    def kill(self, name: str) -> None:
        end(self._children[name])

    def leave(self, name: str) -> None:
        """With a farewell, and until it is gone."""
        child = self._children[name]
        child.signal(signal.SIGTERM)
        if not child.wait(END_LIMIT_S):
            end(child)

    def empty(self, name: str) -> None:
        """It has ended, and what it had on its disk is gone."""
        shutil.rmtree(self._folder / name / "cache", ignore_errors=True)

    def mend(self, names: tuple[str, ...]) -> None:
        """Exactly these run, each once."""
        for place in [place for place in self._children if place not in names]:
            end(self._children.pop(place))
        for name in names:
            child = self._children.get(name)
            if child is None or child.exit_code is not None:
                self.start(name)

    def stop(self) -> None:
        for child in self._children.values():
            if child.exit_code is None:
                child.signal(signal.SIGCONT)
                child.signal(signal.SIGTERM)
        limit = time.monotonic() + END_LIMIT_S
        for child in self._children.values():
            if not child.wait(max(0.0, limit - time.monotonic())):
                end(child)


def end(child: Child) -> None:
    """As a crash or the system's memory killer ends it, and until it is gone."""
    if child.exit_code is None:
        child.signal(signal.SIGKILL)
        child.wait(END_LIMIT_S)
