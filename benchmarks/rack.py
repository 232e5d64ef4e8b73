"""Emulated phones: each with a share of a core, a network of its own, a rate and a delay.

The share is a quota of the kernel's (cgroups), the network a namespace behind a pair of virtual
interfaces, the rate `tc tbf` on both ends of it, the delay a relay in userspace, since not every
kernel can delay packets. Broker and store are reached through the relay and nothing else is. All
of that needs root on Linux: `Unavailable` says what is missing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from benchmarks.relay import Relay, Route
from wire.errors import OperatorError

PERIOD_US = 10_000  # short against a task, so that a phone is slow and not on and off
BURST = "64kb"  # the largest packet that the kernel hands over at once
LATENCY = "500ms"  # of the queue before the rate
COMMAND_LIMIT_S = 10.0
VERSION_1 = Path("/sys/fs/cgroup/cpu")
VERSION_2 = Path("/sys/fs/cgroup")
REMOVE_TRIES = 50
REMOVE_PAUSE_S = 0.1


class Unavailable(OperatorError):
    """Phones cannot be emulated on this machine."""


@dataclass(frozen=True, slots=True)
class Phone:
    """What each emulated phone has. The rate holds in each direction, the delay for each way."""

    cores: float = 0.25
    nbytes_per_s: float = 12.5e6
    delay_s: float = 0.003

    def told(self) -> str:
        return (
            f"{self.cores:g} of a core, {self.nbytes_per_s * 8 / 1e6:.0f} Mbit/s, "
            f"{self.delay_s * 1e3:g} ms each way"
        )


class Rack:
    """`count` phones inside a `with`; `connect` lets them reach what listens on this machine."""

    def __init__(self, count: int, phone: Phone) -> None:
        self.count = count
        self.phone = phone
        self._stack = ExitStack()
        self._mark = f"cpb{os.getpid() % 100_000}"
        self._network = 200 + os.getpid() % 50

    def __enter__(self) -> Rack:
        _check()
        with ExitStack() as stack:
            for index in range(self.count):
                self._make_quota(stack, index)
                self._make_network(stack, index)
            self._stack = stack.pop_all()
        return self

    def connect(self, ports: tuple[int, ...]) -> Relay:
        """A relay from the same ports of every phone's own address of this machine; enter it."""
        routes = [
            Route((self.address(index), port), ("127.0.0.1", port))
            for index in range(self.count)
            for port in ports
        ]
        return Relay(routes, delay_s=self.phone.delay_s)

    def address(self, index: int) -> str:
        """This machine, as phone `index` sees it."""
        return f"10.{self._network}.{index}.1"

    def prefix(self, index: int) -> tuple[str, ...]:
        """What to put before a command so that it runs on phone `index`."""
        return (*self.slow_prefix(index), "ip", "netns", "exec", self._name(index))

    def slow_prefix(self, index: int) -> tuple[str, ...]:
        """The share of a core alone, without the network."""
        procs = self._quota(index) / "cgroup.procs"
        return ("sh", "-c", 'echo $$ > "$0" && exec "$@"', str(procs))

    def _name(self, index: int) -> str:
        return f"{self._mark}-{index}"

    def _quota(self, index: int) -> Path:
        root = VERSION_1 if VERSION_1.is_dir() else VERSION_2
        return root / self._name(index)

    def _make_quota(self, stack: ExitStack, index: int) -> None:
        folder = self._quota(index)
        quota_us = int(self.phone.cores * PERIOD_US)
        try:
            folder.mkdir()
            stack.callback(_remove, folder)
            if folder.parent == VERSION_1:
                (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
                (folder / "cpu.cfs_quota_us").write_text(str(quota_us))
            else:
                (VERSION_2 / "cgroup.subtree_control").write_text("+cpu")
                (folder / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
        except OSError as error:
            raise Unavailable(f"no quota of processor time can be set here: {error}") from None

    def _make_network(self, stack: ExitStack, index: int) -> None:
        name, here, there = self._name(index), f"{self._mark}h{index}", f"{self._mark}p{index}"
        net = f"10.{self._network}.{index}"
        _run("ip", "netns", "add", name)
        stack.callback(_run, "ip", "netns", "del", name)
        _run("ip", "link", "add", here, "type", "veth", "peer", "name", there, "netns", name)
        _run("ip", "addr", "add", f"{net}.1/30", "dev", here)
        _run("ip", "-n", name, "addr", "add", f"{net}.2/30", "dev", there)
        _run("ip", "link", "set", here, "up")
        _run("ip", "-n", name, "link", "set", there, "up")
        _run("ip", "-n", name, "link", "set", "lo", "up")
        rate = ("tbf", "rate", f"{self.phone.nbytes_per_s * 8:.0f}bit", "burst", BURST)
        limit = ("latency", LATENCY)
        _run("tc", "qdisc", "add", "dev", here, "root", *rate, *limit)
        _run("tc", "-n", name, "qdisc", "add", "dev", there, "root", *rate, *limit)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()


def _check() -> None:
    missing = [program for program in ("ip", "tc") if shutil.which(program) is None]
    if missing:
        raise Unavailable(f"the program {missing[0]!r} is not installed (package iproute2)")
    if os.geteuid() != 0:
        raise Unavailable("only root may make network namespaces and quotas of processor time")


def _run(*command: str) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=COMMAND_LIMIT_S, check=False
    )
    if done.returncode != 0:
        raise Unavailable(f"{' '.join(command[:4])} …: {done.stderr.strip() or 'failed'}")


def _remove(folder: Path) -> None:
    """A control group can be removed once the kernel has let go of its last process."""
    for _ in range(REMOVE_TRIES):
        try:
            folder.rmdir()
            return
        except OSError:
            time.sleep(REMOVE_PAUSE_S)
    raise OperatorError(f"{folder} still has processes in it")
