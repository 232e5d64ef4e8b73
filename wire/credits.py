"""The sender's side of parts: at most two in flight to a dependent beyond the credits returned.

Parts that were only paced by the broker's acknowledgements delay a small message on the same link
by seconds; two end to end credits keep that below a tenth (measured: 85 ms against 5.3 s during
32 MiB at 50 Mbit/s). A frame in one part needs no credit. Credits can be lost with a broker:
after a reconnect, or `stall_s` without one, what is not credited is offered again. Pure: the time
comes with each call; whoever calls publishes what is returned, and tells of the connection, since
no credit is missed while there is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from wire.parts import Credit, Part, Transfer

WINDOW = 2
STALL_S = 10.0
MOST_STALLS = 6


@dataclass(slots=True)
class _Sending:
    parts: Iterator[Part]
    in_flight: dict[int, Part] = field(default_factory=dict)
    all_taken: bool = False


@dataclass(slots=True)
class _Lane:
    """Frames to one dependent in order; the window is theirs together, so that the last parts of
    one do not leave it half empty."""

    frames: dict[Transfer, _Sending] = field(default_factory=dict)
    heard_at: float = 0.0
    stalls: int = 0

    @property
    def in_flight(self) -> list[Part]:
        return [part for sending in self.frames.values() for part in sending.in_flight.values()]


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A dependent returned no credit for so long that sending to it was given up."""

    to: str
    transfer: Transfer


class CreditWindow:
    """Paces frames in several parts to each dependent.

    Holds no bytes of its own but the parts in flight: `parts` are taken from their iterator as
    credits come. What waits is bounded by whoever holds the frames. A dependent that returns no
    credit `MOST_STALLS` times in a row is given up, which `expire` tells.
    """

    def __init__(self, window: int = WINDOW, stall_s: float = STALL_S) -> None:
        self.window = window
        self.stall_s = stall_s
        self._lanes: dict[str, _Lane] = {}
        self._connected = True

    def offer(self, to: str, transfer: Transfer, parts: Iterator[Part], now: float) -> list[Part]:
        """Send this frame when its turn has come; the parts to publish now. A transfer that is
        waiting or under way already is not queued again."""
        lane = self._lanes.setdefault(to, _Lane(heard_at=now))
        if transfer in lane.frames:
            return []
        lane.frames[transfer] = _Sending(parts)
        return self._fill(to, lane, now)

    def credited(self, to: str, credit: Credit, now: float) -> list[Part]:
        """A credit came from `to`; the parts to publish now. Old credits change nothing."""
        lane = self._lanes.get(to)
        sending = lane.frames.get(credit.transfer) if lane else None
        if lane is None or sending is None:
            return []
        lane.heard_at, lane.stalls = now, 0
        sending.in_flight.pop(credit.index, None)
        return self._fill(to, lane, now)

    def disconnected(self) -> None:
        """Until `reconnected`, nothing stalls: no credit could come."""
        self._connected = False

    def reconnected(self, now: float) -> list[tuple[str, Part]]:
        """The broker may have lost what was in flight: publish it again."""
        self._connected = True
        again = []
        for to, lane in self._lanes.items():
            lane.heard_at = now
            again += [(to, part) for part in lane.in_flight]
        return again

    def expire(self, now: float) -> tuple[list[tuple[str, Part]], list[GivenUp]]:
        """Parts to publish again where no credit came in time, and dependents given up."""
        again: list[tuple[str, Part]] = []
        given_up: list[GivenUp] = []
        for to, lane in self._stalled(now):
            lane.heard_at, lane.stalls = now, lane.stalls + 1
            if lane.stalls > MOST_STALLS:
                given_up += [GivenUp(to, transfer) for transfer in lane.frames]
                del self._lanes[to]
            else:
                again += [(to, part) for part in lane.in_flight]
        return again, given_up

    def _stalled(self, now: float) -> list[tuple[str, _Lane]]:
        if not self._connected:
            return []
        return [
            (to, lane) for to, lane in self._lanes.items() if lane.heard_at + self.stall_s <= now
        ]

    def forget(self, transfer: Transfer, now: float | None = None) -> list[tuple[str, Part]]:
        """Stop sending this frame to anyone; the parts of others whose turn has come."""
        due: list[tuple[str, Part]] = []
        for to, lane in list(self._lanes.items()):
            if lane.frames.pop(transfer, None) is not None:
                due += [(to, part) for part in self._fill(to, lane, now)]
        return due

    def knows(self, to: str, transfer: Transfer) -> bool:
        """Whether parts of it wait here, or for credits."""
        lane = self._lanes.get(to)
        return lane is not None and transfer in lane.frames

    def wake_at(self) -> float | None:
        """When `expire` has something to do."""
        if not self._connected:
            return None
        return min((lane.heard_at + self.stall_s for lane in self._lanes.values()), default=None)

    def _fill(self, to: str, lane: _Lane, now: float | None) -> list[Part]:
        flying = len(lane.in_flight)
        due: list[Part] = []
        for transfer, sending in list(lane.frames.items()):
            due += self._take(sending, self.window - flying - len(due))
            if sending.all_taken and not sending.in_flight:
                del lane.frames[transfer]
            if flying + len(due) >= self.window:
                break
        if not flying and due and now is not None:
            lane.heard_at, lane.stalls = now, 0  # only now is there a credit to wait for
        if not lane.frames:
            del self._lanes[to]
        return due

    def _take(self, sending: _Sending, room: int) -> list[Part]:
        taken: list[Part] = []
        while len(taken) < room and not sending.all_taken:
            part = next(sending.parts, None)
            if part is None:
                sending.all_taken = True
                break
            if part.count == 1:
                raise ValueError("a frame in one part needs no credit")
            sending.in_flight[part.index] = part
            taken.append(part)
            sending.all_taken = part.index == part.count - 1
        return taken
