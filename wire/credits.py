"""The sender's side of parts: at most two in flight to a dependent beyond the credits returned.

Parts that were only paced by the broker's acknowledgements delay a small message on the same link
by seconds; two end to end credits keep that below a tenth (measured: 85 ms against 5.3 s during
32 MiB at 50 Mbit/s). A frame in one part needs no credit. Credits can be lost with a broker:
after a reconnect, or `stall_s` without one, what is not credited is offered again. Pure: the time
comes with each call; whoever calls publishes what is returned, and tells of the connection, since
no credit is missed while there is none.
"""

from __future__ import annotations

from collections import OrderedDict
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
    all_taken: bool = False  # no part is left in `parts`


@dataclass(slots=True)
class _Lane:
    """Frames to one dependent in order; the window is theirs together, so that the last parts of
    one do not leave it half empty. Those `begun` are before those `waiting`, and at most one more
    than the window: only the last of them may have parts that were not taken yet."""

    begun: dict[Transfer, _Sending] = field(default_factory=dict)
    waiting: OrderedDict[Transfer, _Sending] = field(default_factory=OrderedDict)
    in_flight: int = 0  # parts, of all that is begun together
    heard_at: float = 0.0
    stalls: int = 0

    def __contains__(self, transfer: Transfer) -> bool:
        return transfer in self.begun or transfer in self.waiting

    def parts_in_flight(self) -> list[Part]:
        return [part for sending in self.begun.values() for part in sending.in_flight.values()]

    def current(self) -> Transfer | None:
        """The frame whose parts are to be taken next."""
        for transfer, sending in self.begun.items():
            if not sending.all_taken:
                return transfer
        if not self.waiting:
            return None
        transfer, sending = self.waiting.popitem(last=False)
        self.begun[transfer] = sending
        return transfer

    def credited(self, transfer: Transfer, index: int) -> None:
        """A part arrived; its frame is done once no other is left."""
        sending = self.begun.get(transfer)
        if sending is None:
            return
        if sending.in_flight.pop(index, None) is not None:
            self.in_flight -= 1
        if sending.all_taken and not sending.in_flight:
            del self.begun[transfer]

    def forget(self, transfer: Transfer) -> None:
        self.waiting.pop(transfer, None)
        sending = self.begun.pop(transfer, None)
        if sending is not None:
            self.in_flight -= len(sending.in_flight)


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
        # The dependent that was heard of longest ago is first, so it is the first to stall.
        self._lanes: OrderedDict[str, _Lane] = OrderedDict()
        self._readers: dict[Transfer, dict[str, None]] = {}  # in which lanes a frame is
        self._connected = True

    def offer(self, to: str, transfer: Transfer, parts: Iterator[Part], now: float) -> list[Part]:
        """Send this frame when its turn has come; the parts to publish now. A transfer that is
        waiting or under way already is not queued again."""
        lane = self._lanes.get(to)
        if lane is None:
            lane = self._lanes[to] = _Lane(heard_at=now)
        if transfer in lane:
            return []
        lane.waiting[transfer] = _Sending(parts)
        self._readers.setdefault(transfer, {})[to] = None
        return self._fill(to, lane, now)

    def credited(self, to: str, credit: Credit, now: float) -> list[Part]:
        """A credit came from `to`; the parts to publish now. Old credits change nothing."""
        lane = self._lanes.get(to)
        if lane is None or credit.transfer not in lane:
            return []
        self._heard(to, lane, now)
        lane.credited(credit.transfer, credit.index)
        if credit.transfer not in lane:
            self._left(to, credit.transfer)
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
            again += [(to, part) for part in lane.parts_in_flight()]
        return again

    def expire(self, now: float) -> tuple[list[tuple[str, Part]], list[GivenUp]]:
        """Parts to publish again where no credit came in time, and dependents given up."""
        again: list[tuple[str, Part]] = []
        given_up: list[GivenUp] = []
        while (due := self.wake_at()) is not None and due <= now:
            to, lane = next(iter(self._lanes.items()))
            stalls = lane.stalls + 1
            if stalls > MOST_STALLS:
                given_up += self._give_up(to, lane)
            else:
                self._heard(to, lane, now, stalls)
                again += [(to, part) for part in lane.parts_in_flight()]
        return again, given_up

    def _give_up(self, to: str, lane: _Lane) -> list[GivenUp]:
        del self._lanes[to]
        transfers = [*lane.begun, *lane.waiting]
        for transfer in transfers:
            self._left(to, transfer)
        return [GivenUp(to, transfer) for transfer in transfers]

    def forget(self, transfer: Transfer, now: float | None = None) -> list[tuple[str, Part]]:
        """Stop sending this frame to anyone; the parts of others whose turn has come."""
        due: list[tuple[str, Part]] = []
        for to in self._readers.pop(transfer, ()):
            lane = self._lanes[to]
            lane.forget(transfer)
            due += [(to, part) for part in self._fill(to, lane, now)]
        return due

    def knows(self, to: str, transfer: Transfer) -> bool:
        """Whether parts of it wait here, or for credits."""
        lane = self._lanes.get(to)
        return lane is not None and transfer in lane

    def wake_at(self) -> float | None:
        """When `expire` has something to do."""
        oldest = next(iter(self._lanes.values()), None) if self._connected else None
        return None if oldest is None else oldest.heard_at + self.stall_s

    def validate(self) -> None:
        """Raise `AssertionError` if an invariant does not hold: for tests."""
        heard = [lane.heard_at for lane in self._lanes.values()]
        assert heard == sorted(heard), "the first lane is the first to stall"
        readers: dict[Transfer, set[str]] = {}
        for to, lane in self._lanes.items():
            sent = list(lane.begun.values())
            assert lane.in_flight == sum(len(each.in_flight) for each in sent) <= self.window
            assert all(each.all_taken and each.in_flight for each in sent[:-1])
            assert sent, "a lane without frames is gone"
            for transfer in (*lane.begun, *lane.waiting):
                readers.setdefault(transfer, set()).add(to)
        assert readers == {transfer: set(tos) for transfer, tos in self._readers.items()}

    def _heard(self, to: str, lane: _Lane, now: float, stalls: int = 0) -> None:
        lane.heard_at, lane.stalls = now, stalls
        self._lanes.move_to_end(to)

    def _left(self, to: str, transfer: Transfer) -> None:
        """It is in this lane no more."""
        others = self._readers.get(transfer, {})
        others.pop(to, None)
        if not others:
            self._readers.pop(transfer, None)

    def _fill(self, to: str, lane: _Lane, now: float | None) -> list[Part]:
        idle = not lane.in_flight
        due: list[Part] = []
        while lane.in_flight < self.window and (transfer := lane.current()) is not None:
            sending = lane.begun[transfer]
            due += self._take(lane, sending)
            if sending.all_taken and not sending.in_flight:  # it had no parts at all
                del lane.begun[transfer]
                self._left(to, transfer)
        if idle and due and now is not None:
            self._heard(to, lane, now)  # only now is there a credit to wait for
        if not lane.begun:
            del self._lanes[to]
        return due

    def _take(self, lane: _Lane, sending: _Sending) -> list[Part]:
        taken: list[Part] = []
        while lane.in_flight < self.window and not sending.all_taken:
            part = next(sending.parts, None)
            if part is None:
                sending.all_taken = True
                break
            if part.count == 1:
                raise ValueError("a frame in one part needs no credit")
            sending.in_flight[part.index] = part
            lane.in_flight += 1
            taken.append(part)
            sending.all_taken = part.index == part.count - 1
        return taken
