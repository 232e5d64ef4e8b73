"""Which device a partition goes to: four tiers of affinity, and inside a tier the expected finish.

Pure: facts about candidates in, ranked choices with a sentence each out. A policy is an ordered
list of small functions. Checks no memory and knows no liveness: who may be asked at all is
decided before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from heapq import nsmallest

from wire.errors import InvalidInput
from wire.quantities import mebibytes

TIERS = {1: "resident", 2: "cached", 3: "idle and empty", 4: "must evict another"}
EVICT_S = 0.2  # unloading and giving memory back, before measured
HOT_C, VERY_HOT_C = 42.0, 46.0  # phones throttle from about here
LOW_BATTERY_PERCENT = 20.0


@dataclass(frozen=True, slots=True)
class Candidate:
    """What is known of one device with regard to one partition. `occupied_by` names what it
    would have to evict; `queue_depth` counts tasks that wait there."""

    device: str
    resident: bool
    missing_nbytes: int
    total_nbytes: int
    occupied_by: str | None
    queue_depth: int
    fetch_s: float
    load_s: float
    compute_s: float
    transfer_s: float
    streamed: bool = False
    battery_percent: float | None = None
    charging: bool | None = None
    temperature_c: float | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """A device for a partition. `expected_s` until its first output, `ready_s` of that until it is
    loaded. `reason` is a sentence that says why."""

    device: str
    tier: int
    expected_s: float
    ready_s: float
    reason: str
    streamed: bool
    missing_nbytes: int
    compute_s: float


Term = Callable[[Candidate, int], tuple[float, str | None]]


def tier_of(candidate: Candidate, cached_share: float = 0.5) -> int:
    """1 resident, 2 at least `cached_share` of its bytes cached, 3 idle and empty, 4 evict."""
    if candidate.resident:
        return 1
    cached = candidate.total_nbytes - candidate.missing_nbytes
    if cached > 0 and cached >= cached_share * candidate.total_nbytes:
        return 2
    return 3 if candidate.occupied_by is None else 4


def duration(seconds: float) -> str:
    """For people: milliseconds below a second."""
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.1f} ms"


def fetching(candidate: Candidate, tier: int) -> tuple[float, str | None]:
    if tier == 1 or not candidate.missing_nbytes:
        return 0.0, None
    about = f"fetches {mebibytes(candidate.missing_nbytes)} in about {duration(candidate.fetch_s)}"
    return candidate.fetch_s, about


def evicting(candidate: Candidate, tier: int) -> tuple[float, str | None]:
    if tier == 1 or candidate.occupied_by is None:
        return 0.0, None
    return EVICT_S, f"evicts {candidate.occupied_by}"


def loading(candidate: Candidate, tier: int) -> tuple[float, str | None]:
    return (
        (0.0, None) if tier == 1 else (candidate.load_s, f"loads in {duration(candidate.load_s)}")
    )


def queueing(candidate: Candidate, tier: int) -> tuple[float, str | None]:
    waiting_s = candidate.queue_depth * candidate.compute_s
    return waiting_s, f"{candidate.queue_depth} tasks wait there" if waiting_s else None


def receiving(candidate: Candidate, tier: int) -> tuple[float, str | None]:
    return candidate.transfer_s, None


def computing(candidate: Candidate, tier: int) -> tuple[float, str | None]:
    how = "streams its segments, " if candidate.streamed else ""
    return candidate.compute_s, f"{how}computes in about {duration(candidate.compute_s)}"


READYING: tuple[Term, ...] = (fetching, evicting, loading)
TERMS: tuple[Term, ...] = (*READYING, queueing, receiving, computing)
"""Seconds until the first output, in the order in which they pass."""


def heat(candidate: Candidate, tier: int) -> tuple[float, str | None]:
    degrees = candidate.temperature_c
    if degrees is None or degrees < HOT_C:
        return 1.0, None
    return (3.0 if degrees >= VERY_HOT_C else 1.5), f"is hot at {degrees:.0f} °C"


def battery(candidate: Candidate, tier: int) -> tuple[float, str | None]:
    percent = candidate.battery_percent
    if percent is None or percent >= LOW_BATTERY_PERCENT or candidate.charging:
        return 1.0, None
    return 2.0, f"has {percent:.0f} % of battery left"


FACTORS: tuple[Term, ...] = (heat, battery)
"""What makes a device's promises worth less."""


def by_affinity(choice: Choice) -> tuple[float, ...]:
    return (choice.tier, choice.expected_s)


def by_cost(choice: Choice) -> tuple[float, ...]:
    return (choice.expected_s, choice.tier)


POLICIES: dict[str, Callable[[Choice], tuple[float, ...]]] = {
    "affinity": by_affinity,
    "cost": by_cost,
}


def check_policy(policy: str) -> None:
    if policy not in POLICIES:
        raise InvalidInput(f"policy {policy!r} does not exist: use {' or '.join(POLICIES)}")


def judge(candidate: Candidate, cached_share: float = 0.5) -> Choice:
    tier = tier_of(candidate, cached_share)
    terms = [term(candidate, tier) for term in TERMS]
    factors = [factor(candidate, tier) for factor in FACTORS]
    seconds = reduce(lambda total, each: total * each[0], factors, sum(each[0] for each in terms))
    said = [phrase for _, phrase in (*terms, *factors) if phrase]
    return Choice(
        candidate.device,
        tier,
        seconds,
        sum(term(candidate, tier)[0] for term in READYING),
        f"{_affinity(candidate, tier)}; {', '.join(said)}",
        candidate.streamed,
        0 if tier == 1 else candidate.missing_nbytes,
        candidate.compute_s,
    )


def _affinity(candidate: Candidate, tier: int) -> str:
    if tier != 2 or not candidate.total_nbytes:
        return TIERS[tier]
    share = 1 - candidate.missing_nbytes / candidate.total_nbytes
    return f"{100 * share:.0f} % of its bytes are cached"


def rank(
    candidates: Sequence[Candidate],
    policy: str = "affinity",
    cached_share: float = 0.5,
    meant: str | None = None,
    most: int | None = None,
) -> list[Choice]:
    """Best first, and no more than `most`; equal ones by name, so that every replay decides alike.
    By affinity, the device that the planner meant comes first in its tier."""
    check_policy(policy)
    choices = [judge(candidate, cached_share) for candidate in candidates]
    order = POLICIES[policy]

    def key(choice: Choice) -> tuple[tuple[float, ...], str]:
        first, *rest = order(choice)
        other = choice.device != meant and policy == "affinity"
        return (first, float(other), *rest), choice.device

    return sorted(choices, key=key) if most is None else nsmallest(most, choices, key=key)


def enough_choices(partitions: int, fixed: int = 0) -> int:
    """How many choices for each partition, best first, can make a difference to `spread`.

    Say there are n partitions. A choice is passed over if its device is taken by another partition,
    or if those that come after cannot all have one without it. Such devices are part of every way
    to give those partitions one each, and a way has one device for each partition: so with the
    taken ones they are at most n - 1, and of the first n choices one is left. For the same reason a
    partition with n choices never goes without, and some device among n is used by nobody. Fixed
    devices may be among the first choices, and come on top."""
    return partitions + fixed


def spread(
    ranked: Sequence[Sequence[Choice]], fixed: Mapping[int, str] | None = None
) -> list[Choice | None]:
    """For each partition in order the best device not used by another, as long as the ones after
    it can still have one each. With fewer devices than partitions, the least used and not the
    neighbour's. `fixed` partitions stay where they are (their entry is None)."""
    taken = dict(fixed or {})
    enough = enough_choices(len(ranked), len(set(taken.values())))
    ranked = [choices[:enough] for choices in ranked]  # there may be thousands
    if one_each(ranked, taken):
        return _one_each(ranked, taken)
    return _shared(ranked, taken)


def one_each(ranked: Sequence[Sequence[Choice]], fixed: Mapping[int, str]) -> bool:
    """Whether each partition that is not fixed can have a device of its own."""
    return _matched(_scarce(ranked, fixed), set(fixed.values()))


def _scarce(
    ranked: Sequence[Sequence[Choice]], fixed: Mapping[int, str], after: int = -1
) -> dict[int, list[str]]:
    """The devices of partitions that have so few that the others could leave them without."""
    enough = enough_choices(len(ranked), len(set(fixed.values())))
    return {
        index: [choice.device for choice in choices]
        for index, choices in enumerate(ranked)
        if index > after and index not in fixed and len(choices) < enough
    }


def _one_each(ranked: Sequence[Sequence[Choice]], fixed: Mapping[int, str]) -> list[Choice | None]:
    used = set(fixed.values())
    chosen: list[Choice | None] = []
    for index, choices in enumerate(ranked):
        chosen.append(None)
        if index in fixed:
            continue
        rest = _scarce(ranked, fixed, index)
        for choice in choices:
            if choice.device not in used and _matched(rest, used | {choice.device}):
                chosen[index] = choice
                used.add(choice.device)
                break
    return chosen


def _shared(ranked: Sequence[Sequence[Choice]], fixed: Mapping[int, str]) -> list[Choice | None]:
    chosen: list[Choice | None] = [None] * len(ranked)
    uses = Counter(fixed.values())
    where = dict(fixed)
    for index, choices in enumerate(ranked):
        if index in fixed or not choices:
            continue
        neighbours = {where.get(index - 1), where.get(index + 1)}
        best = min(choices, key=lambda each: (uses[each.device], each.device in neighbours))
        chosen[index], where[index] = best, best.device
        uses[best.device] += 1
    return chosen


def _matched(wishes: Mapping[int, Sequence[str]], used: set[str]) -> bool:
    """Whether each can have a device of its own (augmenting paths)."""
    holder: dict[str, int] = {}

    def place(index: int, tried: set[str]) -> bool:
        for device in wishes[index]:
            if device in used or device in tried:
                continue
            tried.add(device)
            if device not in holder or place(holder[device], tried):
                holder[device] = index
                return True
        return False

    return all(place(index, set()) for index in wishes)
