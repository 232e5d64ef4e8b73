"""What is done with a model file, as jobs that a process of their own can be given.

A job and what comes of it are records, which cross as JSON. `work` does a job where it is called;
`worker` calls it in the other process, and `worker_process` is what commands call.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from crowdpipe.serving.models import CutWishes, add_model, naming_file
from crowdpipe.serving.stores import open_store
from wire.manifest import Manifest
from wire.record import from_plain, to_plain

if TYPE_CHECKING:
    from orchestrator.segmentation.checking.check import CheckFigures

CHECKED_NAME = "checked"


@dataclass(frozen=True, slots=True)
class AddModel:
    """Cut `file` and store it as `name` in the store of `home`. Gives a `Manifest`."""

    type: ClassVar[str] = "add"
    home: str
    file: str
    name: str
    wishes: CutWishes


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


def work(job: Job, told: JobListener) -> Manifest | CheckFigures:
    """Does the job. Raises what `add_model` or `check` raise, with the file's name in it."""
    if isinstance(job, AddModel):
        with open_store(Path(job.home)) as store:
            return add_model(store, Path(job.file), job.name, job.wishes, told.so_far, told.doing)
    return _check(job, told)


def _check(job: CheckModel, told: JobListener) -> CheckFigures:
    from orchestrator.segmentation.checking.check import check

    items = _items(Path(job.inputs)) if job.inputs else None
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


def _items(inputs: Path) -> list[dict[str, Any]]:
    """The file's items: numbered ones, or else the one that it is."""
    from crowdpipe.items_file import read_arrays, split_items

    return split_items(inputs, read_arrays(inputs), ())[1]


def to_message(found: Manifest | CheckFigures) -> Any:
    """What JSON carries of a job's result. It has no infinity: the largest float stands for it."""
    if isinstance(found, Manifest):
        return to_plain(found)
    items = (replace(item, difference=min(item.difference, _MOST)) for item in found.items)
    return to_plain(replace(found, items=tuple(items)))


def from_message(job: Job, plain: Any) -> Manifest | CheckFigures:
    """A job's result, from what the other process sent."""
    if isinstance(job, AddModel):
        manifest: Manifest = from_plain(Manifest, plain)
        return manifest
    from orchestrator.segmentation.checking.check import CheckFigures

    found: CheckFigures = from_plain(CheckFigures, plain)
    items = (
        replace(item, difference=float("inf") if item.difference >= _MOST else item.difference)
        for item in found.items
    )
    return replace(found, items=tuple(items))


_MOST = sys.float_info.max
