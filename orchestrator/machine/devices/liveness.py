"""Who is there: what proves life, what ends it, and whom to ask.

Only a message that was not retained and carries the current connection id proves life (rule 8).
A device with work has a lease; an idle one answers a ping before it gets any. Silence counts only
while we could hear: after a reconnect, or when our own clock shows that we slept, all leases
start anew.
"""

from __future__ import annotations

from orchestrator.machine.devices import benching, deaths, identities, patience
from orchestrator.machine.devices.replacing import device_drains, device_gone
from orchestrator.machine.plans import starving
from orchestrator.machine.records.device import Device
from orchestrator.machine.records.events import DeviceStateSeen
from orchestrator.machine.records.state import State
from wire.messages.commands import Ping
from wire.messages.state import DeviceState

NEVER = float("inf")
ENOUGH = 64  # devices that may be given work: of more than that no plan is made
ASK_COUNT, ASK_S = 64, 0.25  # silent devices that are asked at once, and how soon the next are
SOON_S = 1e-6  # just after the lease
HELD_UP_S = 0.5  # looked at so much later than meant: its answer may wait with us


def state_seen(state: State, event: DeviceStateSeen) -> None:
    device = state.devices.met(event.device, state.now)
    state.agenda.look("device", device.name)
    if event.state.status == "offline":
        _farewell(state, device, event)
    elif event.retained:
        _retained_birth(state, device, event.state)
    else:
        _birth(state, device, event.state)


def _farewell(state: State, device: Device, event: DeviceStateSeen) -> None:
    told = event.state
    if not device.connection:
        device.connection, device.boot = told.connection, told.boot
    if told.connection == device.connection:
        device.end_connection()
        deaths.presume(state, device)
        why = f"said farewell: {told.reason}" if told.reason else "its last will came"
        lose(state, device, why)
        return
    # A will of another connection: an older one's, or of one that we never saw. Ask.
    state.counts["stale_will"] += 1
    if told.connection not in device.ended and event.retained:
        _doubt(state, device, "its retained state speaks of another connection")


def _retained_birth(state: State, device: Device, told: DeviceState) -> None:
    if told.connection == device.connection or told.connection in device.ended:
        return
    _adopt(state, device, told)
    device.draining = told.status == "draining"
    device.settle("unproven", state.now, "only retained words")
    state.devices.turns.wait(device.name)
    state.agenda.look("unproven", "")


def _birth(state: State, device: Device, told: DeviceState) -> None:
    if told.connection in device.ended:
        state.counts["stale_birth"] += 1
        return
    fresh = told.boot != device.boot
    identities.born(state, device, told)
    _adopt(state, device, told)
    device.draining = told.status == "draining"
    if fresh:
        device.last_seq = 0  # we see this boot from its beginning
    missed = told.connection == device.missed_connection
    _alive(state, device, report=missed or not fresh)
    ping(state, device)  # life is proven; the answer tells its clock's offset


def _adopt(state: State, device: Device, told: DeviceState) -> None:
    """Take over a newer connection, and a newer boot: then everything but the cache is gone."""
    device.speaks(foreign=not state.options.versions.overlaps(told.versions))
    if told.connection != device.connection:
        device.end_connection()
        device.connection, device.doubtful = told.connection, True
        device.ping, device.pinged_at, device.doubted_at = None, None, None
    if told.capabilities is not None and told.capabilities != device.capabilities:
        device.announce(told.capabilities)
    if told.boot != device.boot:
        if device.boot:
            _rebooted(state, device, told)
            device.former_boots.append(device.boot)
        device.boot = told.boot
    else:
        deaths.goes_on(state, device)


def _rebooted(state: State, device: Device, told: DeviceState) -> None:
    deaths.prove(state, device, told.last_work)
    device.reside({})
    device.forgive()
    deaths.refuse_loads(state, device)
    device.last_seq, device.gap, device.unacknowledged = None, None, 0
    device.forget_limits()
    device.applied_stamp = (0, 0)
    device.offset_s, device.rtt_s = None, None
    state.commands.drop(device.name)
    if device.life.state != "lost":
        device.move("lost", state.now, "it started anew")
    device_gone(state, device.name, "its device started anew")


def _doubt(state: State, device: Device, why: str) -> None:
    """It has to prove life before it gets work."""
    device.settle("unproven", state.now, why)
    ping(state, device)


def _alive(state: State, device: Device, *, report: bool) -> None:
    device.hear(state.now)
    wanted = "draining" if device.draining else "alive"
    came = not device.reachable
    if device.doubted_at is not None:
        if state.now < device.doubted_at + patience.answer_s(state, device):
            device.note_wrong_doubt(state.now)  # it was only slow
        device.doubted_at = None
    if not device.settle(wanted, state.now, "proved life"):
        return
    if came and report:
        device.reported_at = float("-inf")
        state.ask_report(device)
    if wanted == "draining":
        device_drains(state, device.name)


def proven(state: State, name: str, connection: str, *, retained: bool) -> Device | None:
    """The device if the message proves its life (it is then noted as alive), or may be read
    though it proves nothing; None if it is of another connection."""
    device = state.devices.met(name, state.now)
    if connection != device.connection or connection in device.ended:
        state.counts["other_connection"] += 1
        if connection not in device.ended and not retained:
            _ask_unknown(state, device)
        return None
    if not retained:
        device.hear(state.now)
        if not device.reachable and device.capabilities is not None:
            _alive(state, device, report=True)
    return device


def _ask_unknown(state: State, device: Device) -> None:
    """It speaks under a connection whose birth we missed; its answer will tell which boot."""
    pinged_at = device.pinged_at if device.pinged_at is not None else -NEVER
    if state.now >= pinged_at + state.options.ping_wait_s:
        ping(state, device)


def adopt_connection(state: State, device: Device, connection: str) -> None:
    """Events of the known boot came under a connection whose birth we missed."""
    if connection == device.connection or connection in device.ended:
        return
    device.end_connection()
    device.connection, device.doubtful = connection, True
    device.ping = None
    deaths.goes_on(state, device)


def lose(state: State, device: Device, why: str) -> None:
    if not device.settle("lost", state.now, why):
        return
    device.engaged_since, device.doubted_at = None, None
    state.commands.drop(device.name)
    starving.settle(state, device.name)
    device_gone(state, device.name, f"{device.name} is gone: {why}")


def ping(state: State, device: Device) -> None:
    state.pings += 1
    nonce = f"{state.generation}-{state.pings}"
    device.pinged_at, device.ping = state.now, (nonce, state.now)
    state.commands.post(device.name, Ping(nonce))
    options = state.options
    wait_s = options.ping_wait_s if device.life.state == "alive" else options.settle_s
    state.devices.ask(device, state.now + wait_s)
    state.agenda.look_at("device", device.name, state.now + wait_s)


def answered(state: State, device: Device, nonce: str, at_s: float) -> None:
    """A pong: its clock's offset, good to half the round trip."""
    if device.ping is None or device.ping[0] != nonce:
        state.counts["stale_pong"] += 1
        return
    sent_at, device.ping = device.ping[1], None
    rtt_s = state.now - sent_at
    state.devices.answers.took(device.name, rtt_s, state.now)
    device.note_clock(rtt_s, at_s - (sent_at + rtt_s / 2))


def heard_again(state: State) -> None:
    """We were away or asleep: nobody's silence meant anything."""
    state.devices.heard_again()


def check(state: State, name: str) -> float:
    """A device's lease, or whether it must be asked; when to look again."""
    device = state.devices.get(name)
    if device is None or device.life.state == "lost":
        return NEVER
    state.devices.device_changed(device)  # it may have fallen silent
    if state.connection is None:
        return NEVER
    return min(_check(state, device), _silent_at(state, device), _bench_ends_at(state, device))


def _check(state: State, device: Device) -> float:
    if device.doubted:
        return _check_doubted(state, device)
    if state.is_engaged(device):
        return min(_check_busy(state, device), benching.check(state, device))
    device.engaged_since = None
    if state.runs.any_work:
        return _check_idle(state, device)
    if device.name in state.devices.silent:
        state.devices.leave_alone(device)
    return NEVER


def _bench_ends_at(state: State, device: Device) -> float:
    return device.benched_until if device.benched_until > state.now else NEVER


def _silent_at(state: State, device: Device) -> float:
    """When it will not have been heard of for a lease: then it is listed as silent."""
    if not state.devices.fresh(device):
        return NEVER
    return max(device.last_life, state.heard_at) + state.options.lease_s + SOON_S


def ask_silent(state: State, _: str) -> float:
    """Work is waiting: devices that may be there are asked, some at a time."""
    if state.connection is None or not state.runs.any_work:
        return NEVER
    for device in state.devices.take_left_alone(ASK_COUNT):
        state.agenda.look("device", device.name)
    return state.now + ASK_S if state.devices.any_left_alone else NEVER


def ask_unproven(state: State, _: str) -> float:
    """Retained words prove nothing. As many are asked as a plan may use; who else is there says
    its telemetry soon."""
    if state.connection is None or len(state.devices.usable) >= ENOUGH:
        return NEVER
    for name in state.devices.turns.take(state.now):
        device = state.devices.get(name)
        if device is not None:
            ping(state, device)
    return state.devices.turns.next_at


def _check_busy(state: State, device: Device) -> float:
    if device.engaged_since is None:
        device.engaged_since = state.now
    heard_at = max(device.last_life, device.engaged_since, state.heard_at)
    until = heard_at + state.options.lease_s
    if state.now >= until:
        _lapse(state, device)
        return state.now
    if device.pinged_at is not None and device.pinged_at > heard_at:
        return min(until, _await_answer(state, device))
    ask_at = heard_at + patience.quiet_s(state, device)
    if state.now < ask_at:
        return min(until, ask_at)
    ping(state, device)
    device.answer_by = state.now + patience.answer_s(state, device)
    return min(until, device.answer_by)


def _await_answer(state: State, device: Device) -> float:
    """A device with work was asked: without an answer others get the work. If it goes on later,
    its lease was not over, and what it says counts as before."""
    if state.now < device.answer_by:
        return device.answer_by
    if device.life.state == "unproven" or state.now >= device.answer_by + HELD_UP_S:
        ping(state, device)
        device.answer_by = state.now + patience.answer_s(state, device)
        return device.answer_by
    state.devices.doubted_until = state.now + state.options.lease_s
    _doubtful(state, device)
    return state.now


def _check_doubted(state: State, device: Device) -> float:
    """Its work is with others; it may be back within its lease."""
    until = max(device.last_life, state.heard_at) + state.options.lease_s
    if state.now >= until:
        _lapse(state, device)
        return state.now
    ask_at = (device.pinged_at or state.now) + state.options.ping_wait_s
    if state.now >= ask_at:
        ping(state, device)
        ask_at = state.now + state.options.ping_wait_s
    return min(until, ask_at)


def _lapse(state: State, device: Device) -> None:
    lose(state, device, f"it said nothing for {state.options.lease_s:.0f} s")


def _check_idle(state: State, device: Device) -> float:
    """Work is waiting: a device that may be there is asked, and doubted without an answer."""
    if device.life.state not in ("alive", "unproven") or device.name in state.devices.turns:
        return NEVER
    stale_at = device.last_life + state.options.lease_s
    if device.life.state == "alive" and state.now < stale_at:
        return stale_at
    pinged_at = device.pinged_at if device.pinged_at is not None else -NEVER
    if state.now >= max(pinged_at, device.last_life) + state.options.ping_every_s:
        ping(state, device)
        pinged_at = state.now
    if device.life.state == "alive":
        if state.now < pinged_at + state.options.ping_wait_s:
            return pinged_at + state.options.ping_wait_s
        _doubtful(state, device)
    asked_at = max(pinged_at, device.last_life)  # whichever it is asked again after
    return asked_at + state.options.ping_every_s


def _doubtful(state: State, device: Device) -> None:
    device.doubted_at, device.ping = state.now, None
    device.move("unproven", state.now, "it did not answer a ping")
    device_gone(state, device.name, f"{device.name} did not answer")
