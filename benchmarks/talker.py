"""A helper process that is asked in lines and answers in lines of JSON.

Its first line says that it is ready. It ends when its input does, so it never outlives whoever
asks. Waits have a limit.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import subprocess
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from wire.errors import OperatorError, TimedOut

LIMIT_S = 300.0
END_LIMIT_S = 5.0


class Talker:
    """`python -m MODULE ARGUMENTS…` with `prefix` before it, running inside a `with`."""

    def __init__(self, module: str, arguments: Sequence[str], prefix: Sequence[str] = ()) -> None:
        self._module = module
        self._command = [*prefix, sys.executable, "-m", module, *arguments]
        self._process: subprocess.Popen[str]
        self.said: dict[str, Any] = {}

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        try:
            self.said = self.answer()
        except BaseException:
            self._end()
            raise
        return self

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, line: str, limit_s: float = LIMIT_S) -> dict[str, Any]:
        self.tell(line)
        return self.answer(limit_s)

    def tell(self, line: str) -> None:
        """Without waiting for the answer: `answer` does."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def answer(self, limit_s: float = LIMIT_S) -> dict[str, Any]:
        output = self._process.stdout
        assert output is not None
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            if not selector.select(limit_s):
                raise TimedOut(f"{self._module} was silent for {limit_s:g} s")
        line = output.readline()
        if not line:
            raise self._ended()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def kill(self) -> None:
        """Of no use any more: what it is busy with would disturb the others."""
        self._process.kill()

    def await_end(self, limit_s: float) -> None:
        """Until somebody has killed it; `TimedOut` if nobody does."""
        try:
            self._process.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise TimedOut(f"{self._module} still lives after {limit_s:g} s") from None

    def _ended(self) -> OperatorError:
        return OperatorError(f"{self._module} has ended; what it said of that is above")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end()

    def _end(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):  # it ended with something still unread
                    pipe.close()
        try:
            self._process.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
