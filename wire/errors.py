"""Every error that crosses a program's border, classed by who must act.

`UserError`: whoever asked can mend it. `OperatorError`: whoever set the system up can.
`PeerError`: the other program broke the protocol; nothing to do but report it. Each carries a
stable `kind`, which travels in messages, and a sentence that says what to do.
"""

from __future__ import annotations

from typing import ClassVar

REASON_LENGTH = 2_000  # it may quote what a peer sent, and travels on in messages and records


class CrowdpipeError(Exception):
    """Base of all typed errors. `kind` is stable and travels on the wire."""

    kind: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1

    def __init__(self, reason: str = "") -> None:
        long = len(reason) > REASON_LENGTH
        super().__init__(f"{reason[:REASON_LENGTH]} …" if long else reason)

    @property
    def reason(self) -> str:
        return str(self)


class UserError(CrowdpipeError):
    """Whoever asked can mend this."""

    kind = "user"
    exit_code = 2


class OperatorError(CrowdpipeError):
    """Whoever set the system up can mend this."""

    kind = "operator"
    exit_code = 3


class PeerError(CrowdpipeError):
    """Another program broke the protocol."""

    kind = "peer"
    exit_code = 4


class InvalidName(UserError):
    kind = "invalid_name"


class InvalidModel(UserError):
    """The file is not an ONNX model, or not one that can be cut; says which construct."""

    kind = "invalid_model"


class UnknownModel(UserError):
    kind = "unknown_model"


class UnknownRun(UserError):
    """No run of this user's is called so: it never was, or is over and was collected."""

    kind = "unknown_run"


class InvalidInput(UserError):
    """An input's name, element type or shape is not what the model takes."""

    kind = "invalid_input"


class InvalidUrl(UserError):
    """The address of a broker cannot be read."""

    kind = "invalid_url"


class InvalidSettings(UserError):
    """A setting is missing or cannot be used; says which and how to write it."""

    kind = "invalid_settings"


class OutOfRange(UserError):
    """The bytes asked for lie outside of the content."""

    kind = "out_of_range"


class RunCancelled(UserError):
    kind = "cancelled"


class Busy(UserError):
    """A bound on what one client or one user may have at once is reached, and nothing was done;
    says which. `again_s`: after so long it is worth trying again."""

    kind = "busy"

    def __init__(self, reason: str = "", again_s: float | None = None) -> None:
        super().__init__(reason)
        self.again_s = again_s


class NoDevice(OperatorError):
    kind = "no_device"


class FleetTooSmall(OperatorError):
    """Not enough memory or disk in the fleet; says how much is missing and where."""

    kind = "fleet_too_small"


class NoOrchestrator(OperatorError):
    """The broker is there, and nobody who would serve models behind it."""

    kind = "no_orchestrator"


class BrokerUnreachable(OperatorError):
    kind = "broker_unreachable"


class StoreUnreachable(OperatorError):
    kind = "store_unreachable"


class HubUnreachable(OperatorError):
    """The server that models are fetched from cannot be reached, or does not answer."""

    kind = "hub_unreachable"


class PortTaken(OperatorError):
    kind = "port_taken"


class Untrusted(OperatorError):
    """Who answers over TLS could not prove to be the one we were told of; says why not."""

    kind = "untrusted"


class Refused(OperatorError):
    """The broker's access list refused a publish or a subscription."""

    kind = "refused"


class Replaced(OperatorError):
    """Another agent took this identity."""

    kind = "replaced"


class BlobMissing(OperatorError):
    kind = "blob_missing"


class BlobCorrupt(OperatorError):
    """Bytes whose digest or length is not what their name says."""

    kind = "blob_corrupt"


class DiskFull(OperatorError):
    """There is no room left for bytes that must be kept."""

    kind = "disk_full"


class JournalDamaged(OperatorError):
    """The orchestrator's journal is not what it wrote; `damage` says what is wrong in it."""

    kind = "journal_damaged"

    def __init__(self, reason: str = "", damage: str = "") -> None:
        super().__init__(reason)
        self.damage = damage

    @classmethod
    def of(cls, path: object, damage: str) -> JournalDamaged:
        return cls(
            f"the journal {path} is damaged: {damage}; start again: it is kept aside then, and a "
            "new one begun without the runs in it (or restore a backup first)",
            damage,
        )


class LoadFailed(OperatorError):
    """A device could not load its partition."""

    kind = "load_failed"


class OverBudget(LoadFailed):
    """Loading would exceed the device's memory budget."""

    kind = "over_budget"


class ComputeFailed(OperatorError):
    """ONNX Runtime refused to run a segment on this input."""

    kind = "compute_failed"


class EndsDevice(OperatorError):
    """Whichever device ran this item, its agent ended; says how often, where, and what to try."""

    kind = "ends_device"


class LoadEndsDevice(LoadFailed):
    """A device's agent ended each time that it loaded the partition."""

    kind = "load_ends_device"


class QueueFull(OperatorError):
    """A queue of ours is at its bound; nothing was added."""

    kind = "queue_full"


class TimedOut(OperatorError):
    """A wait reached its limit; says what it waited for."""

    kind = "timed_out"


class Malformed(PeerError):
    """Bytes or JSON that are not what the format says."""

    kind = "malformed"


class TooLarge(PeerError):
    """Something announced more bytes than its limit; nothing was allocated for it."""

    kind = "too_large"


def _tree(cls: type[CrowdpipeError]) -> list[type[CrowdpipeError]]:
    return [cls, *(leaf for child in cls.__subclasses__() for leaf in _tree(child))]


BY_KIND: dict[str, type[CrowdpipeError]] = {cls.kind: cls for cls in _tree(CrowdpipeError)}


def from_kind(kind: str, reason: str) -> CrowdpipeError:
    """The typed error that `kind` names on the wire; an unknown kind gives the base class."""
    return BY_KIND.get(kind, CrowdpipeError)(reason)
