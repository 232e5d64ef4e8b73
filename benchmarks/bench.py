"""What all subjects share: the options, the work, one fleet of five, and the rival's files.

The fleet is started when the first subject asks for it and ended with the bench.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from benchmarks.fleet import Fleet, FleetSpec
from benchmarks.row import Row
from benchmarks.runs import drain
from benchmarks.sampler import Sampler, Traces
from benchmarks.whole import WholeModel
from benchmarks.work import Work
from crowdpipe.items_file import Arrays, write_items

WARM_ITEMS = 20
CACHE = Path.home() / ".cache" / "crowdpipe"


@dataclass(frozen=True, slots=True)
class Options:
    """`quick`: fewer rounds, every row all the same. `pictures`: the folder they go to. `trials`:
    so many of a subject that has trials; 0: as many as suit it. `cache`: where models are built."""

    quick: bool = False
    trials: int = 0
    pictures: Path | None = None
    cache: Path = CACHE


@dataclass(frozen=True, slots=True)
class Picture:
    """`name` is the file's, with its ending; the text is all of it."""

    name: str
    text: str


@dataclass(slots=True)
class Outcome:
    """What one subject found."""

    rows: list[Row] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)


class Bench:
    """Used inside a `with`."""

    def __init__(self, work: Work, options: Options, say: Callable[[str], None]) -> None:
        self.options = options
        self.say = say
        self._given = work
        self._stack = ExitStack()
        self._fleet: Fleet | None = None
        self.cold_traces: Traces = {}  # memory of the fleet's agents as they begin to serve
        self._home: Path

    def __enter__(self) -> Bench:
        self._home = Path(
            self._stack.enter_context(tempfile.TemporaryDirectory(prefix="crowdpipe-bench-"))
        )
        return self

    def pick(self, quick: int, full: int) -> int:
        return quick if self.options.quick else full

    def folder(self, name: str) -> Path:
        """An empty folder of that name, new."""
        folder = self._home / name
        folder.mkdir()
        return folder

    @property
    def given(self) -> Work:
        """The work as asked for; the fleet's has items in any case."""
        return self._given

    def fleet(self) -> Fleet:
        """Five agents with room for everything, warm: each has its partition loaded."""
        if self._fleet is None:
            self.say("starting five agents")
            made = Fleet(self._given, self._home / "fleet", FleetSpec())
            self._fleet = self._stack.enter_context(made)
            with Sampler(self._fleet.pids) as sampler, self._fleet.session() as session:
                items = self._fleet.work.first(WARM_ITEMS).items
                list(session.run_many(items))
                self._fleet.settle(lambda: drain(session, items))
            self.cold_traces = sampler.traces
        self._fleet.check()
        return self._fleet

    def whole(
        self,
        items: tuple[Arrays, ...] | None = None,
        prefix: Sequence[str] = (),
        model: Path | None = None,
    ) -> WholeModel:
        """A rival process with the whole model (the bench's) and these items (the fleet's); enter
        it."""
        given = self.fleet().work.items if items is None else items
        path = Path(tempfile.mkdtemp(dir=self._home)) / "items.npz"
        write_items(path, "numbered", given)
        return WholeModel(model or self._given.model, path, prefix)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()
