"""An input's frame, kept until the orchestrator has it on disk, as the courier sends it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wire.ids import ActivationId


@dataclass(frozen=True, slots=True)
class KeptInput:
    """`inputs` may lose it at any time, which lets it go."""

    inputs: Mapping[ActivationId, bytes]
    activation: ActivationId

    def measure(self) -> tuple[int, int] | None:
        frame = self.inputs.get(self.activation)
        return None if frame is None else (len(frame), 0)

    def load(self) -> bytes | None:
        return self.inputs.get(self.activation)
