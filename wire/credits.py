"""The sender's side of parts: at most two in flight to a dependent beyond the credits returned.

Parts that were only paced by the broker's acknowledgements delay a small message on the same link
by seconds; two end to end credits keep that below a tenth (measured: 85 ms against 5.3 s during
32 MiB at 50 Mbit/s). A frame in one part needs no credit. Credits can be lost with a broker:
after a reconnect, or `stall_s` without one, what is not credited is offered again. Pure: the time
comes with each call; whoever calls publishes what is returned.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from wire.errors import Malformed
from wire.parts import Credit, Part, Transfer

WINDOW = 2
STALL_S = 10.0
MOST_STALLS = 6


@dataclass(slots=True)
class _Sending:
    parts: Iterator[Part]
    in_flight: dict[int, Part] = field(default_factory=dict)


@dataclass(slots=True)
class _Lane:
    """Frames to one dependent, the first under way, the others waiting for it."""

    frames: deque[tuple[Transfer, _Sending]] = field(default_factory=deque)
    heard_at: float = 0.0
    stalls: int = 0


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A dependent returned no credit for so long that sending to it was given up."""

    to: str
    transfer: Transfer


class CreditWindow:
    """Paces frames in several parts, one frame at a time per dependent.

    Holds no bytes of its own but the parts in flight: `parts` are taken from their iterator as
    credits come. What waits is bounded by whoever holds the frames.
    """

    def __init__(self, window: int = WINDOW, stall_s: float = STALL_S) -> None:
        self.window = window
        self.stall_s = stall_s
        self._lanes: dict[str, _Lane] = {}

    def offer(self, to: str, transfer: Transfer, parts: Iterator[Part], now: float) -> list[Part]:
        """Send this frame when its turn has come; the parts to publish now. A transfer that is
        waiting or under way already is not queued again."""
        lane = self._lanes.setdefault(to, _Lane(heard_at=now))
        if any(known == transfer for known, _ in lane.frames):
            return []
        if not lane.frames:
            lane.heard_at, lane.stalls = now, 0
        lane.frames.append((transfer, _Sending(parts)))
        return self._fill(to, lane) if len(lane.frames) == 1 else []

    def credited(self, to: str, credit: Credit, now: float) -> list[Part]:
        """A credit came from `to`; the parts to publish now. Old credits change nothing."""
        lane = self._lanes.get(to)
        if lane is None or not lane.frames or lane.frames[0][0] != credit.transfer:
            return []
        lane.heard_at, lane.stalls = now, 0
        lane.frames[0][1].in_flight.pop(credit.index, None)
        return self._fill(to, lane)

    def reconnected(self, now: float) -> list[tuple[str, Part]]:
        """The broker may have lost what was in flight: publish it again."""
        again = []
        for to, lane in self._lanes.items():
            lane.heard_at = now
            again += [(to, part) for part in _in_flight(lane)]
        return again

    def expire(self, now: float) -> tuple[list[tuple[str, Part]], list[GivenUp]]:
        """Parts to publish again where no credit came in time, and dependents given up."""
        again: list[tuple[str, Part]] = []
        given_up: list[GivenUp] = []
        for to, lane in list(self._lanes.items()):
            if lane.heard_at + self.stall_s > now:
                continue
            lane.heard_at, lane.stalls = now, lane.stalls + 1
            if lane.stalls > MOST_STALLS:
                given_up += [GivenUp(to, transfer) for transfer, _ in lane.frames]
                del self._lanes[to]
            else:
                again += [(to, part) for part in _in_flight(lane)]
        return again, given_up

    def forget(self, transfer: Transfer) -> list[tuple[str, Part]]:
        """Stop sending this frame to anyone; the parts of others whose turn has come."""
        now_due: list[tuple[str, Part]] = []
        for to, lane in list(self._lanes.items()):
            was_first = lane.frames[0][0] == transfer
            lane.frames = deque(entry for entry in lane.frames if entry[0] != transfer)
            if not lane.frames:
                del self._lanes[to]
            elif was_first:
                now_due += [(to, part) for part in self._fill(to, lane)]
        return now_due

    def wake_at(self) -> float | None:
        """When `expire` has something to do."""
        return min((lane.heard_at + self.stall_s for lane in self._lanes.values()), default=None)

    def _fill(self, to: str, lane: _Lane) -> list[Part]:
        due: list[Part] = []
        while lane.frames:
            sending = lane.frames[0][1]
            due += self._take(sending)
            if sending.in_flight:
                return due
            lane.frames.popleft()
        del self._lanes[to]
        return due

    def _take(self, sending: _Sending) -> list[Part]:
        taken = []
        while len(sending.in_flight) < self.window:
            part = next(sending.parts, None)
            if part is None:
                break
            if part.count == 1:
                raise Malformed("a frame in one part needs no credit")
            sending.in_flight[part.index] = part
            taken.append(part)
        return taken


def _in_flight(lane: _Lane) -> list[Part]:
    return list(lane.frames[0][1].in_flight.values()) if lane.frames else []
