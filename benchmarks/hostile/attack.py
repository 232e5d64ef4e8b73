"""An outsider, a device and a client, who send malformed messages at a rate, in a process of
their own.

    python -m benchmarks.hostile.attack '{"device": URL, "client": URL, "store": [HOST, PORT],
        "model": DIGEST, "segments": N, "devices": [NAME, …]}'

It reads a line, does what it says, and answers in a line. `prepare COUNT SEED WHERE` makes that
many messages: for those whom they harm (`here`), or as many bytes for a topic to which nobody
listens (`nowhere`). `send SECONDS` sends them, evenly.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from random import Random
from typing import Any

from benchmarks.crowd import packets
from benchmarks.hostile.knocks import Knocks
from benchmarks.hostile.malformations import malformed
from benchmarks.hostile.samples import RUN, TOPICS, Message, Target, of_client, of_device
from benchmarks.hostile.speaker import Speaker
from benchmarks.talker import Talker
from wire.broker_url import BrokerUrl, parse_url

TICK_S = 0.05
KNOCKS = 1 / 20  # of all messages are an outsider's
NOWHERE = "nobody-here"
SESSIONS = ("one", "two", "three")


class Attack(Talker):
    """Such a process, inside a `with`."""

    def __init__(
        self, device: BrokerUrl, client: BrokerUrl, store: tuple[str, int], target: Target
    ) -> None:
        plain = {
            "device": str(device),
            "client": str(client),
            "store": list(store),
            "model": target.model,
            "segments": target.segments,
            "devices": list(target.devices),
        }
        super().__init__(__name__, [json.dumps(plain)])

    def prepare(self, count: int, seed: int, *, harmful: bool) -> None:
        self.ask(f"prepare {count} {seed} {'here' if harmful else 'nowhere'}")

    def begin(self, seconds: float) -> None:
        """`answer` has what became of it."""
        self.tell(f"send {seconds}")


# --- in the process itself --------------------------------------------------------------------

Prepared = tuple[Speaker, bytes] | None
"""A packet and who sends it; None: a knock."""


class Attackers:
    def __init__(self, plain: dict[str, Any]) -> None:
        device, client = parse_url(plain["device"]), parse_url(plain["client"])
        target = Target(plain["model"], plain["segments"], tuple(plain["devices"]))
        self._run = RUN
        self._device = Speaker(device)
        self._client = Speaker(client, (TOPICS.subscription("run"),), self._learn)
        self._knocks = Knocks(client, (plain["store"][0], plain["store"][1]), device)
        self._device_says = of_device(device.user or "", target)
        self._client_says = [
            each for name in SESSIONS for each in of_client(client.user or "", name, target)
        ]
        self._nowhere = TOPICS.data(NOWHERE, device.user or "")
        self._prepared: list[Prepared] = []
        self._random = Random(0)

    def _learn(self, packet: packets.Packet) -> None:
        """Of another's run, as any client may."""
        try:
            told = json.loads(packet.payload)
        except ValueError:
            return
        if told["status"] == "running":
            self._run = told["run"]

    def prepare(self, count: int, seed: int, harmful: bool) -> None:
        self._random = random = Random(seed)
        make = self._harmful if harmful else self._harmless
        self._prepared = [make(random) for _ in range(count)]

    def _harmful(self, random: Random) -> Prepared:
        if random.random() < KNOCKS:
            return None
        speaker, messages = self._chosen(random)
        return speaker, speaker.packet_of(malformed(messages, random))

    def _harmless(self, random: Random) -> Prepared:
        said = malformed(self._chosen(random)[1], random)
        said = replace(said, topic=self._nowhere, retain=False)
        return self._device, self._device.packet_of(said)

    def _chosen(self, random: Random) -> tuple[Speaker, Sequence[Message]]:
        if random.random() < 0.5:
            return self._device, self._device_says
        return self._client, self._client_says

    def send(self, seconds: float) -> dict[str, int]:
        """All that is prepared; what became of it."""
        begun, count = time.monotonic(), len(self._prepared)
        pending, sent = iter(self._prepared), 0
        while sent < count:
            passed = time.monotonic() - begun
            due = min(count, int(count * (passed + TICK_S) / seconds) + 1)
            self._say(list(islice(pending, due - sent)))
            sent = due
            for speaker in (self._device, self._client):
                speaker.hear()
            time.sleep(max(0.0, TICK_S - (time.monotonic() - begun - passed)))
        self._prepared = []
        self._knocks.close()
        return self._told(count)

    def _say(self, batch: Sequence[Prepared]) -> None:
        run = self._run.encode()
        for speaker in (self._device, self._client):
            mine = [each[1] for each in batch if each is not None and each[0] is speaker]
            if mine:
                speaker.say(b"".join(mine).replace(RUN.encode(), run))
        for each in batch:
            if each is None:
                self._knocks.knock(self._random)

    def _told(self, count: int) -> dict[str, int]:
        """Since it was told last."""
        speakers, knocks = (self._device, self._client), self._knocks
        told = {
            "sent": count,
            "denied": sum(each.denied for each in speakers),
            "closed": sum(each.closed for each in speakers),
            "refused": knocks.refused,
        }
        for each in speakers:
            each.denied = each.closed = 0
        knocks.refused = 0
        return told


def main(argument: str) -> None:
    attackers = Attackers(json.loads(argument))
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        what, *words = line.split()
        told: dict[str, Any] = {}
        if what == "prepare":
            attackers.prepare(int(words[0]), int(words[1]), words[2] == "here")
        else:
            told = attackers.send(float(words[0]))
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
