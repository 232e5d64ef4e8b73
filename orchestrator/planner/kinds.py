"""Devices that are alike in all that a plan looks at, which a search need not tell apart.

Twenty phones of one model are one kind, of which a plan uses some. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from orchestrator.planner.offers import Offer


@dataclass(frozen=True, slots=True)
class Kind:
    """`offer` is that of each of `devices`, which are in the order of their names."""

    offer: Offer
    devices: tuple[str, ...]


def kinds_of(offers: Iterable[Offer]) -> list[Kind]:
    """In the order of their first devices' names, so that every replay decides alike."""
    alike: dict[Offer, list[str]] = {}
    for offer in sorted(offers, key=lambda each: each.device):
        alike.setdefault(replace(offer, device=""), []).append(offer.device)
    return [Kind(offer, tuple(devices)) for offer, devices in alike.items()]
