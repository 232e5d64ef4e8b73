"""What an ONNX file may contain, served by agents: through the client's arrays and back, each bit
compared.

The constructs are those of the table in the documentation. What is cut here is cut everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import crowdpipe
from crowdpipe.errors import TooLarge
from orchestrator.segmentation.checking.verify import identical, run_whole
from tests.support.backend_cases import ways_to_cut
from tests.support.constructs import SERVED, Served
from tests.support.models import model_of, save, value
from tests.support.orchestrated import System, deployed
from wire.manifest import Manifest

AGENTS = 2
LIMIT_S = 60.0


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with deployed(tmp_path_factory.mktemp("deployed"), AGENTS) as running:
        yield running


@pytest.fixture(scope="module")
def manifests(system: System) -> list[Manifest]:
    """Of all constructs, added together: the orchestrator looks for new models once a second."""
    return [add(system, number, construct) for number, construct in enumerate(SERVED)]


def add(system: System, number: int, construct: Served) -> Manifest:
    model = construct.make()
    file = save(model, file_of(system, number))
    after, sizes = max(ways_to_cut(file), key=len), sizes_of(model, dict(construct.feeds()))
    return system.add_file(file, file.stem, cut_after=after, max_shape=sizes)


def file_of(system: System, number: int) -> Path:
    return system.home / f"construct-{number}.onnx"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", range(len(SERVED)), ids=[one.what for one in SERVED])
def test_a_deployed_construct_gives_the_whole_models_bits(
    number: int, system: System, manifests: list[Manifest]
) -> None:
    feeds, manifest = dict(SERVED[number].feeds()), manifests[number]
    partitions = min(AGENTS, len(manifest.segments))
    broker = str(system.broker.client)
    with crowdpipe.Session(
        manifest.name, broker, exact=True, partitions=partitions, timeout_s=LIMIT_S
    ) as session:
        names = [output.name for output in session.get_outputs()]
        given = dict(zip(names, session.run(None, feeds), strict=True))
    assert identical(given, run_whole(file_of(system, number), feeds, exact=True))


def sizes_of(model: onnx.ModelProto, feeds: dict[str, Any]) -> dict[str, int]:
    """The dimensions of the inputs by name."""
    sizes: dict[str, int] = {}
    for given in model.graph.input:
        shape = feeds[given.name].shape if given.name in feeds else ()
        dims = given.type.tensor_type.shape.dim
        sizes |= {
            dim.dim_param: size for dim, size in zip(dims, shape, strict=False) if dim.dim_param
        }
    return sizes


def repeating() -> onnx.ModelProto:
    """Rows of `x` as often as `times` says: a dimension that follows from no shape."""
    nodes = [
        helper.make_node("Tile", ["x", "times"], ["tiled"]),
        helper.make_node("Reshape", ["tiled", "shape"], ["repeated"]),
        helper.make_node("Tanh", ["repeated"], ["t"]),
        helper.make_node("Relu", ["t"], ["y"]),
    ]
    inputs = [value("x", ["words", 24]), value("times", [2], TensorProto.INT64)]
    return model_of(nodes, inputs, [value("y", None)], {"shape": np.array([-1, 24])})


def test_an_output_beyond_its_bound_is_refused_in_the_models_words(system: System) -> None:
    system.add(repeating(), "repeating", cut_after=("repeated",))
    broker = str(system.broker.client)
    x = np.ones((8, 24), np.float32)
    with crowdpipe.Session("repeating", broker, timeout_s=LIMIT_S) as session:
        (rows,) = session.run(None, {"x": x, "times": np.array([64, 1])})
        assert rows.shape == (512, 24)
        with pytest.raises(TooLarge, match=r"'(repeated|y)' the shape \[520, 24\]") as told:
            session.run(None, {"x": x, "times": np.array([65, 1])})
    named = re.search(
        r"'([^']+)' may be at most 512: .*--max-shape \1=520",
        str(told.value),
    )
    assert named is not None
    wish = {named[1]: 520}
    system.add(repeating(), "repeating-more", cut_after=("repeated",), max_shape=wish)
    with crowdpipe.Session("repeating-more", broker, timeout_s=LIMIT_S) as session:
        (rows,) = session.run(None, {"x": x, "times": np.array([65, 1])})
    assert rows.shape == (520, 24)
