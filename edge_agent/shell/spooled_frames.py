"""The spool as the courier sees it: where inputs that came are kept, and outputs lie until sent."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from bus.inbound_frames import FrameListener
from edge_agent.adapters.store.spool import FrameMissing, Spool
from wire.errors import CrowdpipeError
from wire.frame_head import FrameHead
from wire.frames import peek
from wire.ids import ActivationId

_log = logging.getLogger("crowdpipe.agent")


@dataclass(frozen=True, slots=True)
class SpooledOutput:
    """A held output, to be read when its turn comes."""

    spool: Spool
    activation: ActivationId

    def measure(self) -> tuple[int, int] | None:
        return self.spool.measure(self.activation, "output")

    def load(self) -> bytes | None:
        try:
            return self.spool.get(self.activation, "output")
        except FrameMissing:  # released meanwhile: nobody needs it any more
            return None


class SpooledFrames:
    def __init__(self, spool: Spool) -> None:
        self._spool = spool

    @property
    def held_nbytes(self) -> int:
        """Nothing towards the courier's bound: the spool has its own, and refuses at it."""
        return 0

    def keep(self, sender: str, header: FrameHead, frame: bytes) -> None:
        """Raises `SpoolFull`."""
        self._spool.put(header.activation, "input", frame, sender)

    def output(self, activation: ActivationId) -> SpooledOutput:
        return SpooledOutput(self._spool, activation)

    def loop_back(self, activation: ActivationId, us: str, listener: FrameListener) -> None:
        """An output of ours becomes our own input."""
        try:
            frame = self._spool.get(activation, "output")
            header = peek(frame)
            self.keep(us, header, frame)
        except FrameMissing as error:
            _log.info("not kept for ourselves: %s", error)
        except CrowdpipeError as error:
            listener.frame_lost(us, activation, error)
        else:
            listener.frame_arrived(us, header)
