"""A slow link in userspace: relays TCP connections with a rate and a delay, and counts bytes.

    python -m benchmarks.relay '{"nbytes_per_s": 6e6, "delay_s": 0.01, "routes": [[["127.0.0.1",
        0], ["127.0.0.1", 8080]]]}'

Each route has an address to listen at and one to connect to. Both directions have the rate, which
all connections share, and each byte comes `delay_s` later than it could. A rate of 0 is no limit.
In a process of its own, so that nobody's interpreter lock slows the link. Needs no rights; what it
cannot do is lose or reorder packets.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.talker import Talker

CHUNK_NBYTES = 16 << 10
BURST_S = 0.02
QUEUED_CHUNKS = 256  # read ahead of the link: beyond it the sender is not read from
Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Route:
    """Port 0 to listen at takes a free one."""

    listen: Address
    to: Address


class Relay(Talker):
    """Runs inside a `with`."""

    def __init__(
        self, routes: Sequence[Route], nbytes_per_s: float = 0.0, delay_s: float = 0.0
    ) -> None:
        plain = {
            "routes": [[list(route.listen), list(route.to)] for route in routes],
            "nbytes_per_s": nbytes_per_s,
            "delay_s": delay_s,
        }
        super().__init__(__name__, [json.dumps(plain)])

    @property
    def port(self) -> int:
        """Where the first route listens."""
        return int(self.said["ports"][0])

    def delivered_nbytes(self) -> int:
        """What came from the far sides so far: downloads."""
        return int(self.ask("count")["down"])


# --- in the process itself --------------------------------------------------------------------


class Direction:
    """One direction of the link: when a chunk is through, if it begins after the one before.

    A link that was not used for a moment makes up for `BURST_S` of it: timers wake late, and
    without that each late waking would be lost for good.
    """

    def __init__(self, nbytes_per_s: float) -> None:
        self._nbytes_per_s = nbytes_per_s
        self._free_at = 0.0
        self.nbytes = 0

    def through_at(self, nbytes: int, now: float) -> float:
        self._free_at = max(self._free_at, now - BURST_S)
        if self._nbytes_per_s:
            self._free_at += nbytes / self._nbytes_per_s
        self.nbytes += nbytes
        return max(self._free_at, now)


class _Link:
    def __init__(self, nbytes_per_s: float, delay_s: float) -> None:
        self._delay_s = delay_s
        self.up, self.down = Direction(nbytes_per_s), Direction(nbytes_per_s)

    async def open(self, listen: Address, to: Address) -> asyncio.Server:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._serve(reader, writer, to)

        return await asyncio.start_server(serve, *listen)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, to: Address
    ) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(*to)
        except OSError:
            writer.close()
            return
        for each in (writer, far_writer):
            link = each.get_extra_info("socket")
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.gather(
            self._pump(reader, far_writer, self.up), self._pump(far_reader, writer, self.down)
        )

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Direction
    ) -> None:
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(QUEUED_CHUNKS)
        deliver = asyncio.create_task(self._deliver(queue, writer))
        clock = asyncio.get_running_loop().time
        try:
            while data := await reader.read(CHUNK_NBYTES):
                through_at = way.through_at(len(data), clock())
                await queue.put((through_at + self._delay_s, data))
                # The link takes no more than it moves: the sender sees its rate, not our queue.
                await asyncio.sleep(max(0.0, through_at - clock()))
        except OSError:
            pass  # one end vanished: the other is told by the end of its stream
        await queue.put((0.0, b""))
        await deliver

    async def _deliver(
        self, queue: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter
    ) -> None:
        clock = asyncio.get_running_loop().time
        try:
            while True:
                at, data = await queue.get()
                if not data:
                    break
                await asyncio.sleep(max(0.0, at - clock()))
                writer.write(data)
                await writer.drain()
        except OSError:
            while (await queue.get())[1]:  # so that the reader is never stuck before a full queue
                pass
        writer.close()


async def _run(argument: str) -> None:
    plain = json.loads(argument)
    link = _Link(plain["nbytes_per_s"], plain["delay_s"])
    servers = [await link.open(tuple(a), tuple(b)) for a, b in plain["routes"]]
    ports = [server.sockets[0].getsockname()[1] for server in servers]
    print(json.dumps({"ports": ports}), flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps({"up": link.up.nbytes, "down": link.down.nbytes}), flush=True)


if __name__ == "__main__":
    asyncio.run(_run(sys.argv[1]))
