"""How fast devices are on one model, as one frozen value: what offers have beside capacities.

Taken from `estimates` at one moment, so that a search in another thread reads nothing that changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from orchestrator.planner.offers import Offer
from wire.messages.state import Capabilities
from wire.messages.telemetry import Telemetry

LINK_NBYTES_PER_S = 2e7  # a phone on Wi-Fi that it shares with few
LINK_RTT_S = 0.02


Fact = tuple[str, Capabilities, Telemetry | None, int, frozenset[str]]


class DeviceFacts(NamedTuple):
    """What one device told of itself. `budget_nbytes` is less than it told, if it once refused as
    too much what it had told. `cached`: digests on its disk."""

    device: str
    capabilities: Capabilities
    telemetry: Telemetry | None
    budget_nbytes: int
    cached: frozenset[str]


@dataclass(frozen=True, slots=True)
class Rates:
    """Multiply-adds, bytes and seconds. `on_model`: of devices that have run it; others are as much
    faster or slower than at any work as `ratio` says, and who was never seen at work is as fast
    as it tells, or `usual`."""

    usual: float
    ratio: float = 1.0
    on_model: Mapping[str, float] = field(default_factory=dict)
    at_work: Mapping[str, float] = field(default_factory=dict)
    fetches: Mapping[str, float] = field(default_factory=dict)
    hops: Mapping[str, float] = field(default_factory=dict)
    usual_hop_s: float = 0.0

    def cost_per_s(self, device: str, telemetry: Telemetry | None) -> float:
        known = self.on_model.get(device)
        if known is not None:
            return known
        told = telemetry.cost_per_s if telemetry is not None else None
        return (self.at_work.get(device) or told or self.usual) * self.ratio

    def link_nbytes_per_s(self, device: str, telemetry: Telemetry | None) -> float:
        told = telemetry.link_nbytes_per_s if telemetry is not None else None
        return told or self.fetches.get(device) or LINK_NBYTES_PER_S


def offer_of(facts: DeviceFacts, rates: Rates) -> Offer:
    """What the device brings to the model."""
    name, able, telemetry = facts.device, facts.capabilities, facts.telemetry
    return Offer(
        budget_nbytes=facts.budget_nbytes,
        hold_nbytes=able.hold_nbytes,
        disk_nbytes=able.disk_budget_nbytes,
        max_opset=able.max_opset,
        cost_per_s=rates.cost_per_s(name, telemetry),
        link_nbytes_per_s=rates.link_nbytes_per_s(name, telemetry),
        device=name,
        rtt_s=rtt_s(telemetry),
        hop_s=rates.hops.get(name, rates.usual_hop_s),
        told_nbytes=able.memory_budget_nbytes,
    )


def offers_of(fleet: Iterable[DeviceFacts], rates: Rates) -> list[Offer]:
    """By name, so that every replay decides alike."""
    return [offer_of(facts, rates) for facts in sorted(fleet, key=lambda each: each.device)]


def rtt_s(telemetry: Telemetry | None) -> float:
    told = telemetry.link_rtt_s if telemetry is not None else None
    return LINK_RTT_S if told is None else told
