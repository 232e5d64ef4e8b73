"""`crowdpipe up` as a child process: what the demo and the tests start, as a person would.

Ready once it says so on its output, in JSON. It ends with this process, however that ends.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from broker_config.child_process import Child
from broker_config.private_file import make_private_folder
from wire.errors import OperatorError, TimedOut

START_LIMIT_S = 30.0
STOP_LIMIT_S = 15.0
POLL_S = 0.05
TOLD_NBYTES = 4096
READY = '"ready": true'


class ServedSystem:
    """Broker, store and orchestrator of `home`, started on entering a `with`."""

    def __init__(
        self, home: Path, *flags: str, broker: str | None = None, log: Path | None = None
    ) -> None:
        self._log = log or home / "up.log"
        program = [sys.executable, "-m", "crowdpipe", "up", "--json", "--home", str(home)]
        program += ["--broker-port", "0", "--store-port", "0"]
        program += [*flags, *(["--broker", broker] if broker else [])]
        self._child = Child(program, self._log, dict(os.environ))

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def told(self) -> dict[str, Any]:
        """What it said when it was ready."""
        output = self._child.output(TOLD_NBYTES)
        found: dict[str, Any] = json.loads(output[output.index("{") : output.rindex("}") + 1])
        return found

    def start(self) -> None:
        """Return once everything runs; `OperatorError` has the program's last words if not."""
        make_private_folder(self._log.parent)
        self._child.start()
        deadline = time.monotonic() + START_LIMIT_S
        while not self._is_ready():
            self.check()
            if time.monotonic() > deadline:
                raise TimedOut(f"crowdpipe up was not ready within {START_LIMIT_S:g} s")
            self._child.wait(POLL_S)

    def _is_ready(self) -> bool:
        output = self._child.output(TOLD_NBYTES)
        return READY in output and output.rstrip().endswith("}")

    def check(self) -> None:
        """`OperatorError` if it has ended."""
        if self._child.exit_code is not None:
            lines = self._child.output(TOLD_NBYTES).strip().splitlines() or ["it said nothing"]
            raise OperatorError(lines[-1].removeprefix("error: "))

    def stop(self) -> None:
        self._child.stop(STOP_LIMIT_S)

    def __enter__(self) -> ServedSystem:
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
