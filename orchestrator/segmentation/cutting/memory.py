"""Peak of a segment's activations: what lives at once inside it, at the symbols' bounds."""

from __future__ import annotations

from orchestrator.segmentation.cutting.live_sets import Stretch
from orchestrator.segmentation.reading.walk import Dataflow
from orchestrator.segmentation.typing.types import Types
from wire.errors import InvalidModel

LARGEST_VALUE_NBYTES = (
    64 << 30
)  # no device has so much memory; a file of a few bytes can ask for it


def check_values(flow: Dataflow, types: Types) -> None:
    """Raises `InvalidModel` for a value of fixed size that no device could ever hold, before
    anything is written or run. Where symbols make it large, plans say so, and bounds mend it."""
    for name in flow.producer:
        value = types[name]
        fixed = value.dims is not None and all(isinstance(dim, int) for dim in value.dims)
        if fixed and value.nbytes > LARGEST_VALUE_NBYTES:
            raise InvalidModel(
                f"{name!r} would take {value.nbytes >> 30} GiB, and at most "
                f"{LARGEST_VALUE_NBYTES >> 30} GiB are served; export the model without it"
            )


def peak_activation_nbytes(flow: Dataflow, types: Types, stretch: Stretch) -> int:
    """The largest sum of inputs and made values that are still needed. Inputs are counted all
    along: the caller holds them. Scratch memory of kernels is not in it."""
    last_use = {name: index for index in stretch.nodes for name in flow.nodes[index].inputs}
    kept = set(stretch.outputs)
    ends: dict[int, list[str]] = {}
    for name, index in last_use.items():
        ends.setdefault(index, []).append(name)
    made: dict[str, int] = {}
    base = sum(types[name].nbytes for name in stretch.inputs)
    live = peak = base
    for index in stretch.nodes:
        for name in flow.nodes[index].outputs:
            made[name] = types[name].nbytes
            live += made[name]
        peak = max(peak, live)
        for name in (*ends.get(index, ()), *flow.nodes[index].outputs):
            if name in made and name not in kept and last_use.get(name, index) == index:
                live -= made.pop(name)
    return peak
