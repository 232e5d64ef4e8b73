"""Malformed messages by the hundred thousand, on every topic and route: does the service go on?

`crowdpipe up` and five agents serve a run after the other. In rounds and by turns: nobody else;
an outsider, a device and a client who send what is wrong; the same senders with as many messages
for nobody, which shows what the sending itself takes of this machine's cores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from statistics import median

from benchmarks.bench import Bench, Outcome
from benchmarks.fleet import Fleet, FleetSpec
from benchmarks.hostile.attack import Attack
from benchmarks.hostile.health import Health
from benchmarks.hostile.samples import Target
from benchmarks.hostile.service import Served, Service
from benchmarks.row import Row, at_least, at_most, measured
from benchmarks.row import Target as Goal
from crowdpipe.demo.reference import run_whole
from wire.topics import Role

GUESTS: dict[str, Role] = {"liar": "device", "stranger": "client"}
CLIENT = "local"
RATE = 400  # messages a second: see docs/methodology.md
FULL, QUICK = 100_000, 8_000
FULL_ROUNDS, QUICK_ROUNDS = 6, 2
CALM, BESIDE = 0.25, 0.25  # of an attack's time
ITEMS = 12  # of a run
WARM_S = 8.0
SLOWER, MEMORY_MB, LOG_MB = 1.2, 16.0, 1.0
MB = 1e6


@dataclass(slots=True)
class Found:
    """By round. `grown`: the most that each process had more, in bytes."""

    calm: list[Served] = field(default_factory=list)
    attacked: list[Served] = field(default_factory=list)
    beside: list[Served] = field(default_factory=list)
    sent: int = 0
    grown: dict[str, int] = field(default_factory=dict)
    log_nbytes: int = 0
    missing_threads: int = 0

    @property
    def all(self) -> list[Served]:
        return [*self.calm, *self.attacked, *self.beside]

    def look(self, health: Health) -> None:
        for name, nbytes in health.grown_nbytes().items():
            self.grown[name] = max(self.grown.get(name, nbytes), nbytes)


def run(bench: Bench) -> Outcome:
    rounds = bench.pick(QUICK_ROUNDS, FULL_ROUNDS)
    found = measure(bench, rounds, bench.pick(QUICK, FULL) // rounds + 1)
    return Outcome(rows=list(_rows(found)))


def measure(bench: Bench, rounds: int, count: int, rate: int = RATE) -> Found:
    """`count` malformed messages a round, `rate` a second."""
    spec = FleetSpec(guests=GUESTS)
    with Fleet(bench.given, bench.folder("hostile"), spec) as fleet:
        target = Target(fleet.manifest.digest, len(fleet.manifest.segments), fleet.names)
        door, guests = ("127.0.0.1", fleet.store_port), map(fleet.login, GUESTS)
        with fleet.session(exact=True) as session, fleet.unwatched():
            items = fleet.work.first(ITEMS).items
            expected, _ = run_whole(fleet.work.model, items, exact=True)
            name = fleet.work.name
            service = Service(session, items, expected, fleet.store_port, fleet.login(CLIENT), name)
            service.serve(WARM_S)
            health = Health({**fleet.pids, **fleet.desk_pids}, fleet.logs, fleet.store_port)
            with Attack(*guests, store=door, target=target) as attack:
                found = _measured(service, attack, health, rounds, (count, rate), bench.say)
        fleet.check()
    return found


def _measured(
    service: Service,
    attack: Attack,
    health: Health,
    rounds: int,
    pace: tuple[int, int],
    say: Callable[[str], None],
) -> Found:
    found, (count, rate) = Found(), pace
    for number in range(rounds):
        found.calm.append(service.serve(CALM * count / rate))
        for harmful in (True, False) if number % 2 else (False, True):
            # As many a second to nobody, for less time: that is enough to compare with.
            sent = count if harmful else int(BESIDE * count)
            attack.prepare(sent, number, harmful=harmful)
            attack.begin(sent / rate)
            served = service.serve(sent / rate)
            told = attack.answer()
            (found.attacked if harmful else found.beside).append(served)
            found.sent += sent if harmful else 0
            found.look(health)
            what = "harmful" if harmful else "to nobody"
            say(
                f"round {number + 1}, {what}: {_told(told)}; a run {_ms(served):.0f} ms, "
                f"without {_ms(found.calm[-1]):.0f}"
            )
    found.log_nbytes = health.log_nbytes()
    found.missing_threads = health.missing_threads()
    return found


def _told(told: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in told.items())


def _ms(served: Served) -> float:
    return 1e3 * median(served.runs_s)


def _rows(found: Found) -> Iterator[Row]:
    yield from _times(found)
    asked = sum(each.asked for each in found.all)
    errors = [error for each in found.all for error in each.errors]
    exact = sum(each.delivered - each.wrong for each in found.all)
    yield _one(
        "exact", f"of {asked:,} items: bit for bit the whole model's", exact, "", at_least(asked)
    )
    note = "; ".join(errors[:3])
    yield _one(
        "errors", "runs and requests to the store that failed", len(errors), "", at_most(0), note
    )
    yield from _memory(found)
    yield _one(
        "log",
        "all programs and the broker: written to their logs",
        found.log_nbytes / MB,
        "MB",
        at_most(LOG_MB),
    )
    yield _one(
        "threads", "all programs: threads that are no more", found.missing_threads, "", at_most(0)
    )


def _times(found: Found) -> Iterator[Row]:
    rounds = list(zip(found.attacked, found.calm, found.beside, strict=True))
    told = f"while {found.sent:,} malformed messages come, {RATE} a second"
    slower = [_ms(attacked) / _ms(calm) for attacked, calm, _ in rounds]
    yield measured(
        "hostile.time",
        f"a run of {ITEMS} items {told}: its time, as multiples of the time without",
        slower,
        "x",
        at_most(SLOWER),
    )
    beyond = [_ms(attacked) / _ms(beside) for attacked, _, beside in rounds]
    yield measured(
        "hostile.time_beside",
        "the same, as multiples of the time while as many messages a second go to nobody",
        beyond,
        "x",
    )
    for name, says, served in (
        ("run", "a run meanwhile", found.attacked),
        ("run_calm", "a run without", found.calm),
    ):
        times = [1e3 * each for one in served for each in one.runs_s]
        yield measured(f"hostile.{name}", says, times, "ms")
    store = [1e3 * each for one in found.attacked for each in one.store_s]
    yield measured(
        "hostile.store", "a request to the store meanwhile, with a right to it", store, "ms"
    )


def _memory(found: Found) -> Iterator[Row]:
    agents = [nbytes for name, nbytes in found.grown.items() if name.startswith("phone")]
    says = {"orchestrator": "orchestrator and store", "mosquitto": "the broker"}
    for name, told in says.items():
        yield _one(
            f"memory_{name}",
            f"{told}: memory grown by at most",
            found.grown[name] / MB,
            "MB",
            at_most(MEMORY_MB),
        )
    yield _one(
        "memory_agents",
        "the agent that grew most: memory",
        max(agents) / MB,
        "MB",
        at_most(MEMORY_MB),
    )


def _one(name: str, says: str, value: float, unit: str, goal: Goal, note: str = "") -> Row:
    return measured(f"hostile.{name}", says, [value], unit, goal, note=note)
