"""A served model for tests of the Python client: everything real, started once per module."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

from tests.support.models import WIDTH, mlp
from tests.support.orchestrated import System, deployed, whole_model

Feeds = dict[str, NDArray[Any]]
MODEL = "mlp"


class Served:
    """`mlp` behind a broker, with agents. `broker` is the client's address of it."""

    def __init__(self, system: System, model: onnx.ModelProto) -> None:
        self.system = system
        self._whole = whole_model(model, exact=True)

    @property
    def broker(self) -> str:
        return str(self.system.broker.client)

    def wanted(self, feeds: Feeds, names: list[str] | None = None) -> list[NDArray[Any]]:
        """What one ONNX Runtime session gives, optimisation off."""
        outputs: list[NDArray[Any]] = self._whole.run(names, feeds)
        return outputs


@contextmanager
def served(home: Path, agents: int = 2) -> Iterator[Served]:
    with deployed(home, agents) as system:
        model = mlp(6)
        system.add(model, MODEL, segments=4, max_shape={"batch": 4})
        yield Served(system, model)


def feeds_of(count: int, rows: int = 2, seed: int = 3) -> list[Feeds]:
    rng = np.random.default_rng(seed)
    return [{"x": rng.normal(size=(rows, WIDTH)).astype(np.float32)} for _ in range(count)]


def runtime_session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    return whole_model(model, exact=False)
