"""Agents as child processes on this machine, each with its own identity, cache and budget.

For trying things out: on a phone the agent is started there. They end with this process,
however it ends.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from broker_config.child_process import Child
from wire.broker_url import BrokerUrl
from wire.errors import OperatorError

OWN_SETTINGS = "CROWDPIPE_AGENT_"
TOLD_NBYTES = 2048
STOP_LIMIT_S = 10.0


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """One agent: its name is the user's in `broker`. `prefix` is a command that replaces itself
    by what follows it, such as one that enters a network namespace first."""

    name: str
    broker: BrokerUrl
    memory_nbytes: int
    prefix: tuple[str, ...] = ()


class LocalAgents:
    """Started on entering a `with`, stopped on leaving it."""

    def __init__(self, specs: Sequence[AgentSpec], folder: Path, log: str = "info") -> None:
        self._folder = folder
        self._children = {spec.name: self._child(spec, log) for spec in specs}

    def _child(self, spec: AgentSpec, log: str) -> Child:
        folder = self._folder / spec.name
        folder.mkdir(parents=True, exist_ok=True)
        program = [*spec.prefix, sys.executable, "-m", "edge_agent", "--name", spec.name]
        program += ["--cache", str(folder / "cache"), "--memory", str(spec.memory_nbytes)]
        program += ["--threads", "1", "--log", log]
        return Child(program, folder / "agent.log", _environment(spec.broker))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._children)

    @property
    def pids(self) -> dict[str, int]:
        return {name: child.pid for name, child in self._children.items()}

    def start(self) -> None:
        for child in self._children.values():
            child.start()

    def check(self) -> None:
        """`OperatorError` with an agent's last words if one has ended."""
        for name, child in self._children.items():
            if child.exit_code is not None:
                lines = child.output(TOLD_NBYTES).strip().splitlines() or ["it said nothing"]
                raise OperatorError(
                    f"agent {name} ended (code {child.exit_code}): {lines[-1]}; "
                    f"its whole output is in {self._folder / name / 'agent.log'}"
                )

    def stop(self) -> None:
        """Ask all to end, then wait for each, and kill what does not."""
        for child in self._children.values():
            if child.exit_code is None:
                child.signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_LIMIT_S
        for child in self._children.values():
            # An agent takes a second request as impatience and leaves without a farewell.
            if not child.wait(max(0.0, deadline - time.monotonic())):
                child.stop()

    def __enter__(self) -> LocalAgents:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


def _environment(broker: BrokerUrl) -> dict[str, str]:
    """This process' environment without settings for other agents. The address holds a secret,
    and every user of the machine can read arguments: so it goes here."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(OWN_SETTINGS)}
    return kept | {f"{OWN_SETTINGS}BROKER": str(broker), f"{OWN_SETTINGS}CONFIG": os.devnull}
