"""How fast this device deflates, against the core for which `wire.planes` judges.

A phone at a quarter of that core's speed saves time by deflating only on a link a quarter as
fast. So it judges as that core would on a link faster by as much: `worth` says how fast that is.
Measured from what is deflated anyway; a link that is not known yet has the first tensors deflated.
"""

from __future__ import annotations

from wire.planes import HUFFMAN_NBYTES_PER_S
from wire.tensors import Tensor

WEIGHT = 0.3  # of the newest measurement
FORGOTTEN = 0.01  # of what was measured, with each tensor that was therefore not deflated
LEAST_NBYTES = 16 << 10  # of less the clock tells little


class Deflating:
    """Used by one thread."""

    def __init__(self) -> None:
        self._slowness = 1.0
        self._measured = False

    @property
    def slowness(self) -> float:
        """So many times as long as the core that the constants were measured on."""
        return self._slowness

    def took(self, tensor: Tensor, seconds: float) -> None:
        """Encoding the tensor, splitting and judging included. Counts where one plane of several
        is deflated, as of activations: then by Huffman coding, whose rate is the one compared."""
        deflated = [plane.raw_nbytes for plane in tensor.planes if plane.deflated]
        if not deflated and tensor.raw_nbytes >= LEAST_NBYTES:
            self._forget()
        if len(deflated) != 1 or len(tensor.planes) == 1 or deflated[0] < LEAST_NBYTES:
            return
        slowness = seconds * HUFFMAN_NBYTES_PER_S / deflated[0]
        weight = WEIGHT if self._measured else 1.0
        self._slowness += weight * (slowness - self._slowness)
        self._measured = True

    def _forget(self) -> None:
        """So that one slow moment is not believed for good: in time one more is measured."""
        self._slowness += FORGOTTEN * (1.0 - self._slowness)

    def worth(self, link_nbytes_per_s: float | None) -> float | None:
        """The link's rate as that core would see it."""
        return None if link_nbytes_per_s is None else link_nbytes_per_s * self._slowness
