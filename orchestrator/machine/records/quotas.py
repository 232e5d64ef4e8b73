"""How often each party and each user may ask for something, and be told that it may not.

A user's parties together may as much as `user_parties` of them: more sessions help only so far.
"""

from __future__ import annotations

from typing import ClassVar

from orchestrator.machine.records.allowances import Allowances
from orchestrator.machine.records.options import OrchestratorOptions
from wire.topics import user_of

NEVER_PER_S = 1e-9  # whoever sets 0 wants none after the burst


class PartyAllowances:
    """Of a party and of its user at once."""

    def __init__(self, per_s: float, burst: float, parties: int) -> None:
        per_s = max(per_s, NEVER_PER_S)
        self.of_party = Allowances(per_s, burst)
        self.of_user = Allowances(per_s * parties, burst * parties)

    def wait_s(self, party: str, now: float) -> float:
        of_user = self.of_user.wait_s(user_of(party), now)
        return max(of_user, self.of_party.wait_s(party, now))

    def spend(self, party: str, now: float, count: float = 1.0) -> None:
        self.of_party.spend(party, now, count)
        self.of_user.spend(user_of(party), now, count)


class Quotas:
    """`asks` begin something or have much said again; `words` are all other requests."""

    TOLD_EVERY_S: ClassVar[float] = 1.0

    def __init__(self, options: OrchestratorOptions) -> None:
        parties = options.user_parties
        self.asks = PartyAllowances(options.asks_per_s, options.asks_burst, parties)
        self.words = PartyAllowances(options.words_per_s, options.words_burst, parties)
        self._told = Allowances(1.0 / self.TOLD_EVERY_S, 1.0)

    def may_be_told(self, party: str, now: float) -> bool:
        """Whether it was not told for a while that it has to wait; then it is now."""
        may = self._told.wait_s(party, now) <= 0.0
        if may:
            self._told.spend(party, now)
        return may
