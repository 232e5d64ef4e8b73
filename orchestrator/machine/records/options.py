"""Every number the orchestrator's machine decides by, with its default, in one place."""

from __future__ import annotations

from dataclasses import dataclass, field

from wire.messages.assignment import Limits
from wire.versions import OURS, WireRange


@dataclass(frozen=True, slots=True)
class OrchestratorOptions:
    """Durations in seconds, sizes in bytes. `versions` of the wire are spoken here.

    `lease_s`: silence after which a device that holds work is given up. `ping_every_s`,
    `ping_wait_s`: how often an idle device is asked, and how long for an answer.
    `forget_s`: a device that was not heard of for so long while the orchestrator ran is forgotten
    (0: never).
    `client_lease_s`: silence after which a client's runs wait, and give their room to others;
    `client_gone_s`: silence after which they end. `no_device_s`: how long a run waits for a
    device to come. `item_limit_s`: how long an item may be without any progress, and `rounds` how
    many recoveries in a row may change nothing.
    `stall_s`: silence about an item after which its devices are asked what they hold.
    `input_spool_nbytes` bounds inputs kept on the orchestrator's disk: at the bound credits are 0,
    and inputs wait with the client. `credit`: inputs of a run that may be on their way to us; of
    small ones up to `credit_most`, as many as fit into `credit_nbytes`. `window`: items of a run in
    flight (None: the larger of 4 and twice the partitions). `cached_share`: from this share of its
    bytes a partition counts as cached. `replan_gain`: how much faster a new plan must be to replace
    one that works. `margin_s`, `margin_share`: what an assignment is early by, plus a share of
    fetch and load.

    What one party (one session of a user's) and one user may have, see ADR 24. `party_runs`,
    `user_runs`: runs under way; `user_kept_runs`: those besides that ended and whose results
    nobody fetched yet, included. `run_items`: items of a run. `lifetime_most_s`: the longest that
    results are kept. `user_spool_share`: of `input_spool_nbytes`. `asks_per_s` and `asks_burst`:
    requests of a party that begin something or have much said again (submit, plan, resume,
    collect, list), where 16 outcomes, listed runs or ranges of items count as one more, as do 1024
    items under way of a run that is collected; `words_per_s` and `words_burst`: all others, of
    which a run with results needs ten a second; a user has as much as `user_parties` parties.
    `party_previews`: plans that are searched for a party's questions at once. `party_windows`:
    windows that all runs of a party fill while no other party works on the plan; beside others it
    is one.
    """

    version: str = "0.1.0"
    versions: WireRange = OURS
    lease_s: float = 35.0
    ping_every_s: float = 30.0
    ping_wait_s: float = 5.0
    forget_s: float = 7 * 86_400.0
    client_lease_s: float = 60.0
    client_gone_s: float = 300.0
    settle_s: float = 2.0
    no_device_s: float = 3600.0
    item_limit_s: float = 600.0
    stall_s: float = 15.0
    rounds: int = 5
    drops: int = 8
    refuse_s: float = 30.0
    input_spool_nbytes: int = 2 << 30
    frame_overhead_nbytes: int = 4096
    credit: int = 8
    credit_most: int = 32
    credit_nbytes: int = 512 << 10
    window: int | None = None
    cached_share: float = 0.5
    replan_gain: float = 0.2
    margin_s: float = 0.05
    margin_share: float = 0.2
    coalesce_s: float = 0.1
    progress_s: float = 0.5
    clear_run_s: float = 60.0
    party_runs: int = 64
    user_runs: int = 256
    user_kept_runs: int = 1024
    run_items: int = 1_000_000
    lifetime_most_s: float = 7 * 86_400.0
    user_spool_share: float = 0.5
    asks_per_s: float = 100.0
    asks_burst: int = 400
    words_per_s: float = 1000.0
    words_burst: int = 4000
    user_parties: int = 4
    party_previews: int = 4
    party_windows: int = 4
    limits: Limits = field(default_factory=Limits)
