"""Frames that are to be sent, by reference: what waits for its turn, what is on its way.

A parcel waits, then it is either in a message that the broker has not acknowledged, by itself or
with others for the same reader, or paced in parts by credits, and then it is done. One for which
the broker had no listener is away for a while, and waits again. Each step costs the same however
many others there are.
Holds no frame. Pure, and not safe to use from several threads: its owner has the lock.
"""

from __future__ import annotations

import heapq
import itertools
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from wire.ids import ActivationId
from wire.outbox import Message
from wire.parts import Transfer


class FrameSource(Protocol):
    """A frame that lies somewhere until it is sent, or let go."""

    def measure(self) -> tuple[int, int] | None:
        """Its bytes and its attempt, without reading it; None if it was let go."""

    def load(self) -> bytes | None:
        """The frame; None if it was let go."""


AWAY_S, AWAY_MOST_S = 0.25, 5.0  # until it is tried again: at first, at most


@dataclass(eq=False, slots=True)
class Parcel:
    """A frame for `to`. `transfer` is known once it is on its way; so often it found nobody."""

    to: str
    activation: ActivationId
    source: FrameSource
    transfer: Transfer | None = None
    part_nbytes: int = 0
    message: Message | None = None
    unheard: int = 0
    away: bool = False


class Parcels:
    def __init__(self) -> None:
        self._waiting: OrderedDict[tuple[ActivationId, str], Parcel] = OrderedDict()
        self._by_reader: dict[str, OrderedDict[ActivationId, Parcel]] = {}  # of those that wait
        self._unconfirmed: dict[int, dict[Parcel, None]] = {}  # by message, each in its order
        self._paced: dict[tuple[str, Transfer], Parcel] = {}
        self._away: dict[tuple[ActivationId, str], Parcel] = {}
        self._due: list[tuple[float, int, Parcel]] = []  # a heap; may hold some that came back
        self._order = itertools.count()
        self._by_run: dict[str, dict[ActivationId, set[Parcel]]] = {}

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def wait(self, parcel: Parcel) -> None:
        """At the end of the queue; of a frame that waits already the newer source counts."""
        key = (parcel.activation, parcel.to)
        away = self._away.get(key)
        if away is not None:
            self._drop(away)
        earlier = self._waiting.get(key)
        if earlier is not None:
            earlier.source = parcel.source
            return
        self._waiting[key] = parcel
        self._by_reader.setdefault(parcel.to, OrderedDict())[parcel.activation] = parcel
        self._know(parcel)

    def next(self) -> Parcel | None:
        """The oldest that waits, which then does no more."""
        parcel = next(iter(self._waiting.values()), None)
        if parcel is not None:
            self._drop(parcel)
        return parcel

    def oldest_for(self, to: str) -> Parcel | None:
        """The oldest that waits for this reader, where it is."""
        return next(iter(self._by_reader.get(to, {}).values()), None)

    def take(self, parcel: Parcel) -> bool:
        """It waits no more; False if it did not, since it was forgotten meanwhile."""
        if self._waiting.get((parcel.activation, parcel.to)) is not parcel:
            return False
        self._drop(parcel)
        return True

    def sent(self, parcels: Sequence[Parcel], message: Message) -> None:
        """They are all in this message, which the broker has not acknowledged."""
        self._unconfirmed[id(message)] = dict.fromkeys(parcels)
        for parcel in parcels:
            parcel.message = message
            self._know(parcel)

    def confirmed(self, message: Message) -> None:
        for parcel in self._unconfirmed.pop(id(message), ()):
            self._unknow(parcel)

    def heard_by_nobody(self, message: Message, now: float) -> list[Parcel]:
        """The broker has them, and nobody to give them to: they are away for a while, longer each
        time. Of a frame that was sent twice, one goes again: the other is not among these."""
        away = []
        for parcel in self._unconfirmed.pop(id(message), ()):
            parcel.message = None
            key = (parcel.activation, parcel.to)
            if key in self._waiting or key in self._away:
                self._unknow(parcel)
                continue
            parcel.away, self._away[key] = True, parcel
            parcel.unheard += 1
            due_at = now + min(AWAY_MOST_S, AWAY_S * 2 ** (parcel.unheard - 1))
            heapq.heappush(self._due, (due_at, next(self._order), parcel))
            away.append(parcel)
        return away

    def come_back(self, now: float) -> None:
        """Those that were away for long enough wait again."""
        while self._due and self._due[0][0] <= now:
            parcel = heapq.heappop(self._due)[2]
            if parcel.away:
                self._drop(parcel)
                self.wait(parcel)

    @property
    def back_at(self) -> float | None:
        """When the next that is away comes back."""
        while self._due and not self._due[0][2].away:
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def give_up(self, parcel: Parcel) -> None:
        self._drop(parcel)

    def paced(self, parcel: Parcel, transfer: Transfer) -> None:
        """It goes in parts, as credits come."""
        parcel.transfer = transfer
        self._paced[parcel.to, transfer] = parcel
        self._know(parcel)

    def is_paced(self, to: str, transfer: Transfer) -> bool:
        return (to, transfer) in self._paced

    def done(self, to: str, transfer: Transfer) -> None:
        parcel = self._paced.pop((to, transfer), None)
        if parcel is not None:
            self._unknow(parcel)

    def wait_again(self, largest_part_nbytes: int) -> list[Transfer]:
        """Before all others, what the broker has not acknowledged, and what is in larger parts
        than it takes now; the latter's transfers, which are over."""
        oversize = [each for each in self._paced.values() if each.part_nbytes > largest_part_nbytes]
        transfers = [each.transfer for each in oversize if each.transfer is not None]
        unconfirmed = (each for parcels in self._unconfirmed.values() for each in parcels)
        again = [*unconfirmed, *oversize]
        for parcel in again:
            self._drop(parcel)
        for parcel in reversed(again):
            fresh = Parcel(parcel.to, parcel.activation, parcel.source)
            self.wait(fresh)
            self._waiting.move_to_end((fresh.activation, fresh.to), last=False)
            self._by_reader[fresh.to].move_to_end(fresh.activation, last=False)
        return transfers

    def forget(self, activation: ActivationId) -> list[Transfer]:
        """To anyone. What goes in parts has a transfer, which is over."""
        known = self._by_run.get(activation.run, {}).get(activation, set())
        return self._forget(tuple(known))

    def forget_run(self, run: str) -> list[Transfer]:
        known = self._by_run.get(run, {}).values()
        return self._forget(tuple(parcel for parcels in known for parcel in parcels))

    def _forget(self, parcels: Iterable[Parcel]) -> list[Transfer]:
        over = []
        for parcel in parcels:
            if parcel.transfer is not None:
                over.append(parcel.transfer)
            self._drop(parcel)
        return over

    def _drop(self, parcel: Parcel) -> None:
        if parcel.away:
            parcel.away = False
            del self._away[parcel.activation, parcel.to]
        elif parcel.message is not None:
            self._leave_message(parcel, id(parcel.message))
        elif parcel.transfer is not None:
            self._paced.pop((parcel.to, parcel.transfer), None)
        else:
            self._wait_no_more(parcel)
        self._unknow(parcel)

    def _leave_message(self, parcel: Parcel, message: int) -> None:
        others = self._unconfirmed.get(message, {})
        others.pop(parcel, None)
        if not others:
            self._unconfirmed.pop(message, None)

    def _wait_no_more(self, parcel: Parcel) -> None:
        del self._waiting[parcel.activation, parcel.to]
        others = self._by_reader[parcel.to]
        del others[parcel.activation]
        if not others:
            del self._by_reader[parcel.to]

    def _know(self, parcel: Parcel) -> None:
        of_run = self._by_run.setdefault(parcel.activation.run, {})
        of_run.setdefault(parcel.activation, set()).add(parcel)

    def _unknow(self, parcel: Parcel) -> None:
        of_run = self._by_run[parcel.activation.run]
        known = of_run[parcel.activation]
        known.discard(parcel)
        if not known:
            del of_run[parcel.activation]
        if not of_run:
            del self._by_run[parcel.activation.run]
