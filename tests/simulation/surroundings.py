"""What an agent without a device finds around it."""

from __future__ import annotations

from random import Random
from typing import Protocol

from tests.simulation.clockwork import Clockwork
from tests.simulation.network import Broker
from wire.ids import ActivationId, PartitionId, TaskId


class Surroundings(Protocol):
    """What an agent's shell needs of the world."""

    clock: Clockwork
    broker: Broker
    random: Random
    store_up: bool
    part_nbytes: int | None

    def received(self, device: str, activation: ActivationId) -> None: ...
    def check_sent(self, value: str, activation: ActivationId) -> None: ...
    def is_to_validate(self) -> bool: ...
    def ends(self, device: str, work: TaskId | PartitionId) -> bool: ...
