"""That an item ends the agents that run it: whose boots ended in the midst of it, and since when
it is kept from others because of that."""

from __future__ import annotations

from dataclasses import dataclass, field

Death = tuple[str, str]  # a device, and the boot of its agent that ended


@dataclass(slots=True)
class Suspicion:
    """Never without a death. A death is proven once another boot of the device was seen; until
    then only its connection is known to have ended, and it may come back."""

    deaths: dict[Death, bool] = field(default_factory=dict)  # whether proven
    alone: Death | None = None  # one of them: nothing else of its plan was under way then
    since: float = float("-inf")  # set aside for the last time
    others: int = 0  # items that had left its plan then

    @property
    def proven(self) -> int:
        return sum(self.deaths.values())

    def names(self) -> str:
        return ", ".join(dict.fromkeys(device for device, _ in self.deaths))
