"""Inputs and results as the courier sends them: read from the journal when their turn comes."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.adapters.journal import Journal
from wire.frame_head import FrameSettings
from wire.frames import rehead
from wire.ids import ActivationId


@dataclass(frozen=True, slots=True)
class JournaledInput:
    """Sent under this attempt and these settings, whatever it was stored with."""

    journal: Journal
    activation: ActivationId
    attempt: int
    settings: FrameSettings

    def measure(self) -> tuple[int, int] | None:
        nbytes = self.journal.input_nbytes(self.activation.run, self.activation.item)
        return None if nbytes is None else (nbytes, self.attempt)

    def load(self) -> bytes | None:
        frame = self.journal.input_frame(self.activation.run, self.activation.item)
        return None if frame is None else rehead(frame, self.attempt, self.settings)


@dataclass(frozen=True, slots=True)
class JournaledResult:
    """There is one of each item, so that its sendings need no number to tell them apart."""

    journal: Journal
    run: str
    item: int

    def measure(self) -> tuple[int, int] | None:
        nbytes = self.journal.result_nbytes(self.run, self.item)
        return None if nbytes is None else (nbytes, 0)

    def load(self) -> bytes | None:
        return self.journal.result_frame(self.run, self.item)
