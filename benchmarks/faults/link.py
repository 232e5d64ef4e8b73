"""Links of single devices, each of which can be cut, silent, slow or lossy.

    python -m benchmarks.faults.link '{"to": ["127.0.0.1", 1883], "names": ["phone-1", …]}'

A relay of TCP in a process of its own, with a port for each device. It reads a line of JSON with
`name` and what its link is from now on, and answers in a line:

- `cut`: connections end, and new ones are closed at once;
- `silent`: they stay, and nothing passes, as when a phone has left the Wi-Fi without a word;
- `nbytes_per_s`: each way passes no more than that;
- `loss`: this share of what passes comes late by `REPEAT_S`, as TCP shows a lost packet.

None of these: it is whole again. What waits is passed on in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from benchmarks.talker import Talker

CHUNK_NBYTES = 16 << 10
REPEAT_S = 0.3  # the kernel's first repeat comes after 0.2 s and what the way takes
LOOK_S = 0.05


class Links(Talker):
    """Such a process, inside a `with`."""

    def __init__(self, to: tuple[str, int], names: Sequence[str]) -> None:
        super().__init__(__name__, [json.dumps({"to": list(to), "names": list(names)})])

    def port(self, name: str) -> int:
        return int(self.said["ports"][name])

    def set(self, name: str, **state: Any) -> None:
        """From now on; whole again without a state."""
        self.ask(json.dumps({"name": name, **state}))


# --- in the process itself --------------------------------------------------------------------


@dataclass(slots=True)
class _Link:
    to: tuple[str, int]
    cut: bool = False
    silent: bool = False
    nbytes_per_s: float = 0.0
    loss: float = 0.0
    random: Random = field(default_factory=lambda: Random(1))
    writers: set[asyncio.StreamWriter] = field(default_factory=set)

    def become(self, plain: dict[str, Any]) -> None:
        self.cut, self.silent = bool(plain.get("cut")), bool(plain.get("silent"))
        self.nbytes_per_s = float(plain.get("nbytes_per_s", 0.0))
        self.loss = float(plain.get("loss", 0.0))
        if self.cut:
            for writer in list(self.writers):
                writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.cut:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection(*self.to)
        except OSError:
            writer.transport.abort()
            return
        self.writers |= {writer, far_writer}
        try:
            await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))
        finally:
            self.writers -= {writer, far_writer}

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK_NBYTES):
                await self._delay(len(data))
                writer.write(data)
                await writer.drain()
        with contextlib.suppress(OSError):
            writer.close()

    async def _delay(self, nbytes: int) -> None:
        if self.nbytes_per_s:
            await asyncio.sleep(nbytes / self.nbytes_per_s)
        if self.loss and self.random.random() < self.loss:
            await asyncio.sleep(REPEAT_S)
        while self.silent:
            await asyncio.sleep(LOOK_S)


async def _run(argument: str) -> None:
    plain = json.loads(argument)
    links = {name: _Link((plain["to"][0], plain["to"][1])) for name in plain["names"]}
    servers = {
        name: await asyncio.start_server(link.serve, "127.0.0.1", 0) for name, link in links.items()
    }
    ports = {name: server.sockets[0].getsockname()[1] for name, server in servers.items()}
    print(json.dumps({"ports": ports}), flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        asked = json.loads(line)
        links[asked["name"]].become(asked)
        print("{}", flush=True)


if __name__ == "__main__":
    asyncio.run(_run(sys.argv[1]))
