"""Which ranges of consecutive segments become partitions, and whom they are meant for.

A pure function of manifest, fleet and work: of all ways to give each device at most one range,
the one by which a batch is through soonest (`stages` says how long that is). A device that would
make the batch slower is left out. A range larger than a device's memory is streamed there. Only
if there is no such way do devices serve several ranges each, one loaded after another. Which
device a range really goes to is decided in `ranking`, by what each has loaded and cached.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Sequence
from heapq import nsmallest
from itertools import islice, zip_longest

from orchestrator.planner.kinds import Kind, kinds_of
from orchestrator.planner.needs import Needs
from orchestrator.planner.offers import Fleet, Offer, SegmentRange, fits
from orchestrator.planner.search import KINDS, PartitionSearch
from orchestrator.planner.sharing import shared_ranges
from orchestrator.planner.shortages import homeless, too_small
from orchestrator.planner.shortlist import shortlist
from orchestrator.planner.stages import Stage, Work, batch_s, shared, stage_of
from wire.errors import InvalidInput, NoDevice
from wire.manifest import Manifest

MOST_KINDS = 1024  # looked at before the model is taken not to fit with one range on each device
MORE_KINDS = 4  # times as many, when too few were looked at


def partition(
    manifest: Manifest,
    fleet: Sequence[Offer],
    wanted: int | None = None,
    work: Work | None = None,
    preferred: Collection[str] = (),
) -> tuple[SegmentRange, ...]:
    """Contiguous ranges that cover the model, each of which fits a device.

    `wanted` None: as many as make the batch fastest. `preferred`: devices to look at before others
    where there are too many to look at all, such as those that have ranges loaded or cached.
    Raises `NoDevice`, `FleetTooSmall` (what is missing, and where) or `InvalidInput` (a `wanted`
    that cannot be).
    """
    if not fleet:
        raise NoDevice("no device is online: start an agent with `crowdpipe agent --name NAME`")
    check_wanted(manifest, wanted)
    work = work or Work.estimated(manifest)
    own = None
    if wanted is None or wanted <= len(fleet):
        own = _one_each(manifest, fleet, wanted, work, preferred)
    ranges = own or _in_turns(manifest, fleet, wanted, work, preferred)
    if ranges is None:
        raise too_small(manifest, fleet, wanted)
    return ranges


def worth_asking(
    manifest: Manifest, fleet: Sequence[Offer], work: Work, preferred: Collection[str] = ()
) -> tuple[str, ...]:
    """Devices that may be of use to the model, where there are too many to look at all."""
    if len(fleet) <= KINDS:
        return tuple(offer.device for offer in fleet)
    names = frozenset(preferred)
    kinds = shortlist(kinds_of(fleet), Needs(manifest), work, KINDS, names)
    ranks = zip_longest(*(_preferred_first(kind, names) for kind in kinds))
    return tuple(islice((name for rank in ranks for name in rank if name is not None), KINDS))


def _preferred_first(kind: Kind, names: Collection[str]) -> list[str]:
    return nsmallest(KINDS, kind.devices, key=lambda name: (name not in names, name))


def _one_each(
    manifest: Manifest,
    fleet: Sequence[Offer],
    wanted: int | None,
    work: Work,
    preferred: Collection[str],
) -> tuple[SegmentRange, ...] | None:
    """Each device with one range. Where no plan is found, more devices are looked at: a model
    that is large for them may need more than are fast."""
    most = KINDS
    while True:
        found = PartitionSearch(manifest, work, fleet, wanted, most, preferred).best()
        if found or most >= min(len(fleet), MOST_KINDS):
            return found
        most *= MORE_KINDS


def _in_turns(
    manifest: Manifest,
    fleet: Sequence[Offer],
    wanted: int | None,
    work: Work,
    preferred: Collection[str],
) -> tuple[SegmentRange, ...] | None:
    needs, kinds = Needs(manifest), kinds_of(fleet)
    few = shortlist(kinds, needs, work, KINDS, preferred)
    found = shared_ranges(needs, work, few, wanted)
    return found if found or len(few) == len(kinds) else shared_ranges(needs, work, kinds, wanted)


def require(manifest: Manifest, fleet: Sequence[Offer], wanted: int | None) -> None:
    """Raises what `partition` would, sooner where nobody asked for a number."""
    if not fleet or wanted is not None:
        partition(manifest, fleet, wanted)
    elif homeless(manifest, fleet) is not None:
        raise too_small(manifest, fleet, None)


def check_wanted(manifest: Manifest, wanted: int | None) -> None:
    limit = len(manifest.segments)
    if wanted is not None and not 1 <= wanted <= limit:
        raise InvalidInput(
            f"{wanted} partitions are not possible: model '{manifest.name}' has {limit} segments, "
            f"so ask for 1 to {limit}"
        )


def estimated_s(
    manifest: Manifest, fleet: Sequence[Offer], ranges: Sequence[SegmentRange], work: Work
) -> float:
    """Seconds of a batch with each range on its device; infinite when one is not there, or does
    not take it. Who asks often gives a `Fleet`, in which devices are found by name."""
    offers = Fleet.of(fleet)
    on: dict[Offer, list[SegmentRange]] = defaultdict(list)
    for each in ranges:
        offer = offers.named(each.device)
        if offer is None or not _takes(manifest, each, offer):
            return math.inf
        on[offer].append(each)
    stages = (_together(manifest, work, offer, mine) for offer, mine in on.items())
    return batch_s(stages, work.items)


def _takes(manifest: Manifest, each: SegmentRange, offer: Offer) -> bool:
    """Whole or streamed."""
    return any(
        fits(manifest, each.first, each.last, offer, streamed=streamed)
        for streamed in (False, True)
    )


def _together(manifest: Manifest, work: Work, offer: Offer, mine: Sequence[SegmentRange]) -> Stage:
    weights = [_weights(manifest, each) for each in mine]
    stages = [
        stage_of(
            work,
            offer,
            each.first,
            each.last,
            None if fits(manifest, each.first, each.last, offer) else nbytes,
        )
        for each, nbytes in zip(mine, weights, strict=True)
    ]
    return shared(stages, weights, [each.last - each.first + 1 for each in mine])


def _weights(manifest: Manifest, each: SegmentRange) -> int:
    return sum(segment.weight_nbytes for segment in manifest.segments[each.first : each.last + 1])
