"""What is done with a model file, as jobs that a process of their own can be given.

A job and what comes of it are records, which cross as JSON. `work` does a job where it is called;
`worker` calls it in the other process, and `worker_process` is what commands call.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from crowdpipe.serving.additions import adding
from crowdpipe.serving.models import Comparing, CutWishes, add_model, naming_file
from crowdpipe.serving.stores import open_store
from wire.record import from_plain, to_plain

if TYPE_CHECKING:
    from orchestrator.segmentation.checking.check import CheckFigures
    from orchestrator.segmentation.checking.comparing import ModelComparison

CHECKED_NAME = "checked"


@dataclass(frozen=True, slots=True)
class AddModel:
    """Cut `file`, compare it on the items of `inputs` (an .npz file; None: made up) unless
    `unchecked`, and store it as `name` in the store of `home`; another of that name is replaced
    only if `replace`. Gives a `ModelComparison`."""

    type: ClassVar[str] = "add"
    home: str
    file: str
    name: str
    wishes: CutWishes
    inputs: str | None = None
    unchecked: bool = False
    replace: bool = False


@dataclass(frozen=True, slots=True)
class CheckModel:
    """Cut `file` into `folder` and compare; `inputs` is an .npz file. Gives `CheckFigures`."""

    type: ClassVar[str] = "check"
    file: str
    folder: str
    wishes: CutWishes
    inputs: str | None = None


Job = AddModel | CheckModel


class JobListener(Protocol):
    """Who hears how far a job is."""

    def doing(self, what: str) -> None:
        """`reading`, `inferring shapes`, `cutting`, `writing weights`, `comparing`."""

    def so_far(self, done: int, total: int) -> None:
        """Bytes of weights, or steps of a check."""


def work(job: Job, told: JobListener) -> ModelComparison | CheckFigures:
    """Does the job. Raises what `add_model` or `check` raise, with the file's name in it."""
    return _add(job, told) if isinstance(job, AddModel) else _check(job, told)


def _add(job: AddModel, told: JobListener) -> ModelComparison:
    comparing = Comparing(_items(job.inputs), job.unchecked)
    file = Path(job.file)
    with open_store(Path(job.home)) as opened, adding(opened, replacing=job.replace) as store:
        return add_model(store, file, job.name, job.wishes, told.so_far, comparing, told.doing)


def _check(job: CheckModel, told: JobListener) -> CheckFigures:
    from orchestrator.segmentation.checking.check import check

    items = _items(job.inputs)
    with naming_file(Path(job.file)):
        return check(
            Path(job.file),
            CHECKED_NAME,
            Path(job.folder),
            options=job.wishes.options(),
            items=items,
            progress=told.so_far,
            doing=told.doing,
        )


def _items(inputs: str | None) -> tuple[dict[str, Any], ...] | None:
    """The file's items: numbered ones, or else the one that it is."""
    if inputs is None:
        return None
    from crowdpipe.items_file import read_arrays, split_items

    return tuple(split_items(Path(inputs), read_arrays(Path(inputs)), ())[1])


def to_message(found: ModelComparison | CheckFigures) -> Any:
    """What JSON carries of a job's result. It has no infinity: the largest float stands for it."""
    return to_plain(_with_differences(found, lambda difference: min(difference, _MOST)))


def from_message(job: Job, plain: Any) -> ModelComparison | CheckFigures:
    """A job's result, from what the other process sent."""
    from orchestrator.segmentation.checking.check import CheckFigures
    from orchestrator.segmentation.checking.comparing import ModelComparison

    found = from_plain(ModelComparison if isinstance(job, AddModel) else CheckFigures, plain)
    restored: ModelComparison | CheckFigures = _with_differences(
        found, lambda difference: math.inf if difference >= _MOST else difference
    )
    return restored


def _with_differences(found: Any, change: Callable[[float], float]) -> Any:
    if hasattr(found, "items"):
        items = (replace(item, difference=change(item.difference)) for item in found.items)
        return replace(found, items=tuple(items))
    return replace(found, difference=change(found.difference))


_MOST = sys.float_info.max
