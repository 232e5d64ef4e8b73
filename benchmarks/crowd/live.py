"""Many real connections, a real broker, a real orchestrator: what it takes to hear a crowd.

First with the connected devices alone; then the orchestrator starts anew with what ten times as
many have retained, of whom the others are away. Whatever takes too long is given up and told.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.crowd.desk import CrowdDesk
from benchmarks.process import cpu_s, memory, threads_ns
from wire.errors import CrowdpipeError, TimedOut

KNOWN = 10_000
TELEMETRY_EVERY_S = 10.0
RATE = KNOWN / TELEMETRY_EVERY_S  # messages a second
SETTLE_S = 3.0
CALM_S = 1.0
CALM_CORE = 0.05  # below this share it has done what followed from connecting
CALM_TRIES = 60


@dataclass(frozen=True, slots=True)
class Plan:
    """`connected` devices; windows of so many seconds; and how long it waits for a start, or for
    what has piled up to be handled."""

    connected: int
    windows: int
    window_s: float
    limit_s: float


@dataclass(slots=True)
class Heard:
    """Shares of a core, window by window, while telemetry comes as from `KNOWN` devices."""

    orchestrator: list[float] = field(default_factory=list)
    broker: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Live:
    """`few`: with the connected devices known; `all`: with `KNOWN`. `why`: what took too long, if
    something did; what comes after it was not measured."""

    connected: int
    empty_start_s: float | None = None
    empty_nbytes: int = 0
    idle: list[float] = field(default_factory=list)
    few: Heard = field(default_factory=Heard)
    start_s: float | None = None
    start_nbytes: int = 0
    all: Heard = field(default_factory=Heard)
    why: str = ""


def measure_live(home: Path, plan: Plan, say: Callable[[str], None]) -> Live:
    """What fails is told in `why`."""
    found, doing = Live(plan.connected), "starting the broker"
    try:
        with CrowdDesk(home, plan.connected) as desk:
            for step, told in (
                (_empty, "starting with nothing"),
                (_connected, f"hearing {plan.connected:,} devices"),
                (_restarted, f"starting with all that {KNOWN:,} devices retain"),
                (_known, f"hearing one of {KNOWN:,} devices after the other"),
            ):
                doing = told
                step(desk, plan, found)
    except CrowdpipeError as error:
        found.why = f"{doing}: {error}"
        say(found.why)
    return found


def _empty(desk: CrowdDesk, plan: Plan, found: Live) -> None:
    found.empty_start_s = desk.start(plan.limit_s)
    found.empty_nbytes = memory(desk.pid).rss_nbytes


def _connected(desk: CrowdDesk, plan: Plan, found: Live) -> None:
    desk.connections.ask(f"connect {plan.connected}")
    _calm(desk, plan)
    for _ in range(plan.windows):
        core = _core(desk.pid, lambda: desk.connections.ask(f"rest {plan.window_s}"))
        found.idle.append(core / plan.window_s)
    _hear(desk, plan, found.few)


def _restarted(desk: CrowdDesk, plan: Plan, found: Live) -> None:
    desk.stop()
    desk.connections.ask(f"retain {plan.connected} {KNOWN}")
    found.start_s = desk.start(plan.limit_s)
    found.start_nbytes = memory(desk.pid).rss_nbytes


def _known(desk: CrowdDesk, plan: Plan, found: Live) -> None:
    _calm(desk, plan)
    _hear(desk, plan, found.all)


def _calm(desk: CrowdDesk, plan: Plan) -> None:
    """Devices answer what they are asked, until that is over."""
    desk.connections.ask(f"rest {SETTLE_S}")
    for _ in range(CALM_TRIES):
        desk.probe.wait(plan.limit_s)
        if _core(desk.pid, lambda: desk.connections.ask(f"rest {CALM_S}")) < CALM_CORE * CALM_S:
            return
    raise TimedOut("it does not come to rest")


def _hear(desk: CrowdDesk, plan: Plan, heard: Heard) -> None:
    """What all of a window's telemetry takes, however long that is."""
    count = round(RATE * plan.window_s)
    for _ in range(plan.windows):
        before_s = cpu_s(desk.broker_pid)

        def act() -> None:
            desk.connections.ask(f"say {count} {plan.window_s}")
            desk.probe.wait(plan.limit_s)

        heard.orchestrator.append(_core(desk.pid, act) / plan.window_s)
        heard.broker.append((cpu_s(desk.broker_pid) - before_s) / plan.window_s)


def _core(pid: int, act: Callable[[], object]) -> float:
    """Seconds of a core that the process takes meanwhile."""
    before = threads_ns(pid)
    act()
    after = threads_ns(pid)
    return sum(ns - before.get(thread, 0) for thread, ns in after.items()) / 1e9
