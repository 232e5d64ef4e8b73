"""Verdicts on what the device has: memory, disk, `/proc`, the agent's own folder."""

from __future__ import annotations

from edge_agent.diagnosis.facts import DiskRoom, FolderUse, MemoryRoom, ProcAccess
from edge_agent.diagnosis.verdict import Verdict, advice, fault, ok

MIB = 1 << 20
LEAST_MEMORY_NBYTES = 64 * MIB
LEAST_DISK_NBYTES = 64 * MIB


def judge_memory(fact: MemoryRoom) -> Verdict:
    budget = f"partitions may take {mib(fact.budget_nbytes)}"
    if fact.total_nbytes is None or fact.available_nbytes is None:
        return advice(
            f"How much memory is free cannot be read here; {budget}.",
            "Say --memory, like 256MiB, so that it fits this device.",
        )
    shown = f"{mib(fact.available_nbytes)} free of {mib(fact.total_nbytes)}; {budget}"
    if fact.available_nbytes < LEAST_MEMORY_NBYTES:
        return fault(f"{shown}: too little to serve.", "Close other apps, or restart the phone.")
    if fact.budget_nbytes > fact.available_nbytes:
        return advice(f"{shown}: more than is free.", "Close other apps, or lower --memory.")
    return ok(f"{shown}.")


def judge_disk(fact: DiskRoom) -> Verdict:
    wanted = f"the agent may take {mib(fact.wanted_nbytes)}"
    if fact.free_nbytes is None:
        return advice(f"How much disk is free cannot be read; {wanted}.", "Look at it yourself.")
    shown = f"{mib(fact.free_nbytes)} free; {wanted}, {mib(fact.cached_nbytes)} of it by now"
    if fact.free_nbytes < LEAST_DISK_NBYTES:
        return fault(f"{shown}: the disk is full.", "Free some space.")
    if fact.wanted_nbytes > fact.free_nbytes + fact.cached_nbytes:
        return advice(f"{shown}: more than is free.", "Free some space, or lower --disk or --hold.")
    return ok(f"{shown}.")


def judge_proc(fact: ProcAccess) -> Verdict:
    if fact.needed:
        return advice(
            f"{', '.join(fact.needed)} cannot be read: the agent does not know its own memory.",
            "Say --memory, and leave the phone some room; is /proc mounted?",
        )
    if fact.spared:
        return ok("What the agent reads is readable; the rest is kept from apps, and not missed.")
    return ok("All that the agent reads is readable.")


def judge_folder(fact: FolderUse) -> Verdict:
    if fact.fault:
        return fault(
            f"Nothing can be written in {fact.path}: {fact.fault}.",
            "Give another folder with --cache, or make this one writable.",
        )
    if fact.taken == "folder":
        return advice(
            f"An agent works in {fact.path} already; a second one does not start there.",
            "To have the login checked, stop it. Another one needs its own --cache and name.",
        )
    if fact.taken:
        return advice(
            "An agent runs on this device with another folder, and has this name, or may have it.",
            "To have the login checked, stop it. If it is another one, give each its own name.",
        )
    return ok(f"{fact.path} can be written, and no agent works in it.")


def mib(nbytes: int) -> str:
    return f"{nbytes / MIB:,.0f} MiB"
