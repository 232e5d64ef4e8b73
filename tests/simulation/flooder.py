"""A client of another user's that asks for far too much, and sends no inputs."""

from __future__ import annotations

from tests.simulation.network import Message
from tests.simulation.world import World
from wire import record
from wire.messages.requests import Request, RequestPlan, Response, Resume, Submit

FLOODER = "clients/bob/s1"


class Flooder:
    """Asks without waiting for answers, and sends no inputs."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.heard: list[Response] = []
        world.broker.connect(FLOODER, self._receive, clean=True)

    def _receive(self, message: Message) -> None:
        if message.kind == "responses":
            self.heard.append(record.decode(Response, message.payload))

    def say(self, request: Request) -> None:
        self.world.broker.publish(FLOODER, f"requests/{FLOODER}", record.encode(request))

    def flood(self, count: int, within_s: float) -> None:
        """Submits mostly, and of every other kind that costs anything."""
        for index in range(count):
            request: Request = Submit(f"f{index}", self.world.manifest.name)
            if index % 10 == 8:
                request = RequestPlan(f"q{index}", self.world.manifest.name)
            elif index % 10 == 9:
                request = Resume("r1")
            self.world.clock.later(
                within_s * index / count, lambda request=request: self.say(request)
            )
