"""The demonstration: starts everything, runs the same items three times, measures, compares.

Everything is started as a person would start it: `crowdpipe up` and one agent process a device,
each with an identity, a cache and a memory budget of its own. What is shown of devices was read
off the broker by a watcher. All of it is ended again, whatever happens.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from broker_config.credentials import Credentials
from broker_config.private_file import make_private_folder
from crowdpipe.cli.progress import BytesProgress
from crowdpipe.cli.quantities import counted, show_nbytes, show_seconds
from crowdpipe.client.session import Session
from crowdpipe.demo.batch import Batch, run_batch
from crowdpipe.demo.comparison import compare
from crowdpipe.demo.figures import DemoFigures, ModelFigures, PhaseFigures, device_figures
from crowdpipe.demo.live import LiveBatch
from crowdpipe.demo.reference import SingleProcess, measure_reference
from crowdpipe.demo.timeline import Phase, timeline_page
from crowdpipe.demo.work import DemoWork, own_work, sentence_work
from crowdpipe.home import read_up
from crowdpipe.item_error import of_item
from crowdpipe.items_file import Arrays, read_items, write_items
from crowdpipe.serving.agents import AgentSpec, LocalAgents
from crowdpipe.serving.models import CutWishes, add_model
from crowdpipe.serving.served import ServedSystem
from crowdpipe.serving.stores import open_store
from crowdpipe.watching.login import WATCHER, login_of
from crowdpipe.watching.observation import Observation
from crowdpipe.watching.watcher import Watcher
from wire.broker_url import BrokerUrl
from wire.errors import OperatorError, TimedOut, UserError
from wire.manifest import Manifest
from wire.memory import resident_need, segment_need

MOST_DEVICES = 16
ONLINE_LIMIT_S = 30.0
KNOWN_LIMIT_S = 15.0
RUN_LIMIT_S = 120.0  # without any progress
LAST_READINGS_S = 2.0  # within this, agents tell of memory that moved by 2 MiB or more
SLICE_S = 0.5
ERRORS_SHOWN = 3
BROKERS = {"mosquitto": "Mosquitto", "embedded": "the embedded broker (iotcore)"}


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """`model` None: MiniLM-L6 and sentences. `timeline` is where the picture goes."""

    timeline: Path
    cache: Path
    devices: int = 5
    items: int = 60
    exact: bool = False
    model: Path | None = None
    broker: str | None = None
    max_shape: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 1 <= self.devices <= MOST_DEVICES:
            raise UserError(
                f"--devices must be a number from 1 to {MOST_DEVICES}, not {self.devices}"
            )
        if self.items < 1:
            raise UserError(f"--items must be at least 1, not {self.items}")


@dataclass(frozen=True, slots=True)
class _Done:
    """One phase, measured and compared."""

    batch: Batch
    figures: PhaseFigures


def new_timeline(home: Path) -> Path:
    """Where a demonstration's picture goes that nobody named a place for: beside older ones."""
    make_private_folder(home)
    name = time.strftime("timeline-%Y%m%d-%H%M%S")
    later = itertools.chain([""], (f"-{number}" for number in itertools.count(2)))
    paths = (home / "demo" / f"{name}{suffix}.html" for suffix in later)
    return next(path for path in paths if not path.exists())


class Demonstration:
    """`run` does all of it once."""

    def __init__(self, options: DemoOptions, console: Console) -> None:
        self._options = options
        self._console = console
        self._names = tuple(f"phone-{number}" for number in range(1, options.devices + 1))

    def run(self) -> DemoFigures:
        """The figures; whether they are good is theirs to say (`DemoFigures.failures`)."""
        begun = time.monotonic()
        _make_folder(self._options.timeline)  # what cannot be written is told before the work
        with ExitStack() as stack:
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="crowdpipe-demo-")))
            work = self._work()
            broker = self._serve(stack, home)
            work, manifest = self._cut(home, work)
            watcher = stack.enter_context(Watcher(login_of(home, broker, WATCHER)))
            self._start_agents(stack, home, broker, manifest, watcher)
            partitions = min(len(self._names), len(manifest.segments))
            batches = self._batches(broker, work, watcher, partitions)
            reference, whole = self._whole_model(home, work)
            phases = [_compared(name, batch, whole) for name, batch in batches]
            time.sleep(max(0.0, phases[-1].batch.end_s + LAST_READINGS_S - time.monotonic()))
            page = self._timeline(work, phases, watcher)
        _write(self._options.timeline, page)
        return self._figures(work, manifest, reference, whole, phases, watcher, begun)

    def _say(self, text: str) -> None:
        self._console.print(text)

    # --- setting up ---------------------------------------------------------------------------

    def _serve(self, stack: ExitStack, home: Path) -> BrokerUrl:
        """Broker, store and orchestrator; devices are made known first, since an embedded broker
        learns of users only when it starts."""
        credentials = Credentials(home)
        for name in self._names:
            credentials.add(name, "device")
        system = stack.enter_context(ServedSystem(home, broker=self._options.broker))
        record = read_up(home)
        if record is None:
            raise OperatorError("crowdpipe up ended right after it started")
        kind = system.told["broker_kind"]
        which = BROKERS.get(kind, "somebody else's broker")
        self._broker_told = f"{which} at {record.url.shown}"
        self._say(f"broker        {self._broker_told}")
        self._say(f"model store   {record.store}")
        return record.url

    def _work(self) -> DemoWork:
        options = self._options
        if options.model is not None:
            return own_work(options.model, options.items, options.max_shape)
        if not options.cache.exists():
            self._say("The model is downloaded once (91 MB) …")
        with self._console.status("preparing the model"):
            return sentence_work(options.items, options.cache)

    def _cut(self, home: Path, work: DemoWork) -> tuple[DemoWork, Manifest]:
        wishes = CutWishes(max_shape=work.max_shape)
        with open_store(home) as store, BytesProgress("cutting the model") as progress:
            manifest = add_model(store, work.model, work.name, wishes, progress.so_far).manifest
        need = resident_need(manifest.segments)
        self._say(
            f"model         {work.name}: {show_nbytes(manifest.nbytes)}, cut into "
            f"{counted(len(manifest.segments), 'segment')}; {show_nbytes(need)} once loaded"
        )
        return work.ready(manifest), manifest

    def _whole_model(self, home: Path, work: DemoWork) -> tuple[SingleProcess, list[Arrays]]:
        """What one process makes of the items, while the fleet is idle."""
        items, results = home / "items.npz", home / "whole.npz"
        write_items(items, "numbered", work.items)
        with self._console.status("running the whole model in one process, to compare"):
            reference = measure_reference(work.model, items, results, self._options.exact)
        _, whole = read_items(results, ())
        return reference, whole

    def _start_agents(
        self,
        stack: ExitStack,
        home: Path,
        broker: BrokerUrl,
        manifest: Manifest,
        watcher: Watcher,
    ) -> None:
        budgets = self._budgets(manifest)
        specs = [
            AgentSpec(name, login_of(home, broker, name), budget)
            for name, budget in zip(self._names, budgets, strict=True)
        ]
        agents = stack.enter_context(LocalAgents(specs, home / "agents"))
        with self._console.status("starting agents"):
            self._await_online(agents, watcher)
        told = ", ".join(f"{budget / (1 << 20):.0f}" for budget in budgets)
        self._say(f"agents        {len(budgets)}; memory for partitions in MiB: {told}")
        self._agents = agents

    def _budgets(self, manifest: Manifest) -> list[int]:
        """Memory for partitions, alike for all, so that several can hold what one cannot: a share
        of the weights with room for uneven cuts, and what loading and computing take besides."""
        segments, count = manifest.segments, self._options.devices
        weights = sum(map(segment_need, segments))
        share = weights * 5 // (4 * count) + max(map(segment_need, segments))
        return [share + resident_need(segments) - weights] * count

    def _await_online(self, agents: LocalAgents, watcher: Watcher) -> None:
        def all_online(seen: Observation) -> bool:
            states = [seen.devices[name].state for name in self._names if name in seen.devices]
            return sum(state is not None and state.status == "online" for state in states) == len(
                self._names
            )

        deadline = time.monotonic() + ONLINE_LIMIT_S
        while True:
            agents.check()
            try:
                watcher.wait(all_online, SLICE_S, "the agents to come online")
                return
            except TimedOut:
                if time.monotonic() > deadline:
                    raise

    # --- running ------------------------------------------------------------------------------

    def _batches(
        self, broker: BrokerUrl, work: DemoWork, watcher: Watcher, partitions: int
    ) -> list[tuple[str, Batch]]:
        """One partition for each device, also where fewer would be as fast: all are to be seen."""
        watcher.wait(
            lambda seen: work.name in seen.models,
            KNOWN_LIMIT_S,
            "the orchestrator to see the model",
        )
        with Session(
            work.name,
            broker,
            exact=self._options.exact,
            partitions=partitions,
            timeout_s=RUN_LIMIT_S,
        ) as session:
            return [
                (name, self._batch(session, work, watcher, name))
                for name in ("cold", "streaming", "barrier")
            ]

    def _batch(self, session: Session, work: DemoWork, watcher: Watcher, name: str) -> Batch:
        title = {"cold": "cold run"}.get(name, name)
        with LiveBatch(self._console, title, len(work.items), self._names, watcher) as live:
            batch = run_batch(session, work.items, name == "barrier", live.result)
        self._say(
            f"{title:<14}{len(work.items) - len(batch.errors)} of {len(work.items)} results in "
            f"{show_seconds(batch.latency_s)}"
        )
        for item, error in sorted(batch.errors.items())[:ERRORS_SHOWN]:
            self._say(f"  failed: {of_item(error, item, len(work.items))}")
        return batch

    # --- telling ------------------------------------------------------------------------------

    def _timeline(self, work: DemoWork, phases: Sequence[_Done], watcher: Watcher) -> str:
        spans = tuple(watcher.look(lambda seen: seen.spans()))
        texts = {
            "cold": (
                "Streaming, cold",
                "Nothing is cached: segments are fetched and loaded just in time.",
            ),
            "streaming": ("Streaming", "Each item goes on as soon as a device is done with it."),
            "barrier": ("Barrier", "Each device waits for all outputs of the one before."),
        }
        panels = [
            Phase(
                *texts[done.figures.name],
                done.batch.start_s,
                done.batch.end_s,
                spans,
                group="cold" if done.figures.name == "cold" else "warm",
            )
            for done in phases
        ]
        return timeline_page(
            f"{work.name} over {len(self._names)} devices",
            f"{len(work.items)} items; who computed which one when. Broker: {self._broker_told}. "
            "Streaming and barrier are drawn to one scale.",
            panels,
            self._names,
            len(work.items),
        )

    def _figures(
        self,
        work: DemoWork,
        manifest: Manifest,
        reference: SingleProcess,
        whole: Sequence[Arrays],
        phases: Sequence[_Done],
        watcher: Watcher,
        begun: float,
    ) -> DemoFigures:
        cold, streaming, barrier = (done.figures for done in phases)
        return DemoFigures(
            items=len(work.items),
            results=min(done.figures.results for done in phases),
            exact=self._options.exact,
            broker=self._broker_told,
            model=ModelFigures(work.name, manifest.digest, manifest.nbytes, len(manifest.segments)),
            max_rel_diff=max(done.figures.max_rel_diff for done in phases),
            cold=cold,
            streaming=streaming,
            barrier=barrier,
            single_process=reference,
            devices=watcher.look(device_figures(self._names)),
            answers=work.answers(phases[1].batch.results, whole),
            timeline=str(self._options.timeline.resolve()),
            elapsed_s=time.monotonic() - begun,
        )


def _make_folder(timeline: Path) -> None:
    try:
        timeline.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"cannot create the folder of the timeline, {timeline.parent}: {error.strerror}"
        ) from None


def _write(path: Path, page: str) -> None:
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write the timeline {path}: {error.strerror}") from None


def _compared(name: str, batch: Batch, whole: Sequence[Arrays]) -> _Done:
    found = compare(batch.results, whole)
    figures = PhaseFigures(
        name=name,
        latency_s=batch.latency_s,
        first_result_s=batch.first_result_s,
        throughput_per_s=found.compared / batch.latency_s,
        results=found.compared,
        max_rel_diff=found.max_rel_diff,
        identical=found.identical,
    )
    return _Done(batch, figures)
