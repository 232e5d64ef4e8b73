"""Fleets in which no two devices are alike, and a model of the shape of DistilBERT for them."""

from __future__ import annotations

import random

from orchestrator.planner.offers import Offer
from tests.support.tiny_manifest import MB, tiny_manifest

LAYER = ((9.4 * MB, 3.04e8, 394_000), (9.4 * MB, 3.02e8, 394_000), (10.2 * MB, 3.3e8, 1_967_000))
"""Weights, multiply-adds, and the bytes that cross the cut after it, of each third of a layer."""
SHAPE = (
    (1.6 * MB, 1e5, 395_000),
    (11.8 * MB, 3.3e8, 394_000),
    *(LAYER * 6)[:16],
    (11.8 * MB, 3.03e8, 8),
)
MODEL = tiny_manifest(
    "unlike",
    weights=[int(weights) for weights, _, _ in SHAPE],
    costs=[cost for _, cost, _ in SHAPE],
    cuts=[2048, *(nbytes for _, _, nbytes in SHAPE)],
)
KINDS = ("speed", "link", "memory", "streamed", "near")
"""What most tells the devices apart; `near` is on fast links, where plans have many ranges."""
ROOMY = 1 << 34
MIB = 1 << 20


def unlike(kind: str, seed: int, count: int = 16) -> list[Offer]:
    chance = random.Random(f"{kind} {seed}")
    return [_offer(kind, chance, f"d{number:05}") for number in range(count)]


def _offer(kind: str, chance: random.Random, name: str) -> Offer:
    if kind == "speed":
        return Offer(ROOMY, ROOMY, ROOMY, 99, 2e10 * chance.uniform(0.3, 3), 6e6, name)
    speed = 2e10 * 10 ** chance.uniform(-0.7, 0.7)
    near = kind == "near"
    link = 6e6 * 10 ** (chance.uniform(1, 2) if near else chance.uniform(-0.5, 1))
    rtt_s, hop_s = (0.002, 0.001) if near else (chance.uniform(0.002, 0.05), 0.003)
    budget = ROOMY
    if kind == "memory":
        budget = int(chance.uniform(36, 70) * MIB)
    if kind == "streamed":
        budget = int(chance.uniform(36, 50) * MIB)
    told = budget if kind == "streamed" else ROOMY
    return Offer(budget, ROOMY, ROOMY, 99, speed, link, name, rtt_s, hop_s, told)
