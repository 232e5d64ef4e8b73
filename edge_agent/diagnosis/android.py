"""Verdicts on what Android and Termux do to an agent.

Much is kept from apps: then the verdict says so, and is advice.
"""

from __future__ import annotations

from edge_agent.diagnosis.facts import (
    BatteryExemption,
    PhantomKiller,
    TermuxApi,
    TermuxApp,
    Upkeep,
)
from edge_agent.diagnosis.verdict import Verdict, advice, ok

KILLER_SINCE_SDK = 31  # Android 12
ENOUGH_PROCESSES = 1024
SLOW_S = 4.0
ALLOW_CHILDREN = (
    "Switch on 'Disable child process restrictions' in the developer options; where there is "
    "none, once from a computer: "
    "adb shell settings put global settings_enable_monitor_phantom_procs false"
)
API_INSTALL = (
    "Type 'pkg install termux-api', and install the app Termux:API from where Termux itself is "
    "from (F-Droid)"
)
READING_ON = "docs/phones.md, 'Restart it when it ends', has the lines to type."


def judge_phantom(fact: PhantomKiller) -> Verdict:
    if fact.sdk is not None and fact.sdk < KILLER_SINCE_SDK:
        return ok("This Android is older than 12, which ends no busy child processes.")
    if fact.monitors == "false" or (fact.most_processes or 0) >= ENOUGH_PROCESSES:
        return ok("Android does not end child processes of apps here.")
    if fact.monitors is None:
        return advice(
            "Whether Android ends busy child processes cannot be read here.", ALLOW_CHILDREN
        )
    return advice("Android ends busy child processes of apps here.", ALLOW_CHILDREN)


def judge_battery_exemption(fact: BatteryExemption) -> Verdict:
    do = "Look at Settings, Apps, Termux, Battery, and choose 'Unrestricted'."
    if fact.exempt is None:
        return advice("Whether Android restricts Termux to save battery cannot be read here.", do)
    if not fact.exempt:
        return advice("Android may stop Termux to save battery.", do)
    return ok("Android does not restrict Termux to save battery.")


def judge_termux(fact: TermuxApp) -> Verdict:
    if "PLAY" in fact.shop.upper() or fact.version.startswith("googleplay"):
        return advice(
            f"Termux {fact.version} is from the Play Store: its Termux:API cannot talk to it.",
            "Install Termux, Termux:API and Termux:Boot anew, all from F-Droid.",
        )
    if not fact.version:
        return advice("This is Android, but not Termux.", "The agent was tried in Termux only.")
    return ok(f"Termux {fact.version}{f', from {fact.shop}' if fact.shop else ''}.")


def judge_termux_api(fact: TermuxApi) -> Verdict:
    if fact.outcome == "missing":
        return advice(
            "termux-battery-status is missing; the battery is not seen.", f"{API_INSTALL}."
        )
    if fact.outcome == "hung":
        return advice(
            f"termux-battery-status did not answer within {fact.took_s:.0f} s; the app Termux:API "
            "is missing, from another shop, or stopped.",
            f"{API_INSTALL}; open it once, and set its battery use to 'Unrestricted'.",
        )
    if fact.outcome == "failed":
        said = f": {fact.said}" if fact.said else " nothing that can be read"
        return advice(f"termux-battery-status says{said}", f"{API_INSTALL}.")
    if fact.missing_fields:
        return advice(
            f"Termux:API does not tell {', '.join(fact.missing_fields)}; it may be old.",
            "Type 'pkg upgrade', and update the app Termux:API.",
        )
    if fact.took_s > SLOW_S:
        return advice(
            f"termux-battery-status took {fact.took_s:.1f} s; after 8 the agent gives it up.",
            "Set the battery use of the app Termux:API to 'Unrestricted'.",
        )
    return ok(f"Termux:API answered after {fact.took_s:.1f} s.")


def judge_wake_lock(fact: Upkeep) -> Verdict:
    """Apps may not ask Android for it; Termux shows it in its notification only."""
    if fact.boot_takes_wake_lock:
        return ok("Whether it is held cannot be read here; the script at boot takes it.")
    return advice(
        "Whether it is held cannot be read here; without it the processor sleeps with the screen.",
        "Look at Termux's notification: it says 'wake lock held'. If not: termux-wake-lock",
    )


def judge_service(fact: Upkeep) -> Verdict:
    if fact.has_service:
        return ok("A service of termux-services runs the agent.")
    return advice("Nothing starts the agent again when it ends.", READING_ON)


def judge_boot(fact: Upkeep) -> Verdict:
    if fact.has_boot_script:
        return ok("There is a script in ~/.termux/boot.")
    return advice(
        "Nothing starts the agent when the phone starts.",
        f"Install Termux:Boot and open it once; {READING_ON}",
    )
