"""A rung of the mitigation ladder: one case with what it costs, and what numbers say of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isnan

from ligerdiag.bisect.trial import Outcome
from ligerdiag.outcomes import Attribution, DeviceRun, Replay, ReplayState
from ligerdiag.report.numbers import compute_worst

CLOCK_NOISE, CLOCK_NOISE_MS = 0.02, 0.1
"""Share of a time, and milliseconds, by which medians of the same program were seen to differ (docs/measurements)."""

_LOSSY_WORKAROUND = "LD012"
"""Id of the rule whose finding says that a value is read through an addition and a subtraction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """One case of a ladder."""

    name: str
    """Its mitigation."""
    outcome: Outcome
    replay: Replay | None = None
    device: DeviceRun | None = None
    instructions: int | None = None
    """Of the optimized module, fused ones included; None when there is none."""
    peak_bytes: int | None = None
    """Bytes on one device that XLA reserves, see `Memory.peak`; None when there is no module."""

    @property
    def milliseconds(self) -> float | None:
        """Median time of one execution; None when it was not run."""
        return None if self.device is None else self.device.milliseconds

    @property
    def errors(self) -> Mapping[str, float]:
        """Returns output name to relative error by replay: against program order, or of program order against the
        case's own reference, whichever is larger. Empty without numbers."""
        if self.replay is None or self.replay.state is not ReplayState.DONE:
            return {}
        return {
            name: compute_worst((numbers.error, self.replay.reference.get(name, 0.0)))
            for name, numbers in self.replay.outputs.items()
        }

    @property
    def device_errors(self) -> Mapping[str, float]:
        """Output name to relative error on the device, the worst over the draws; empty without a run."""
        return {} if self.device is None else {n: compute_worst(o.errors) for n, o in self.device.outputs.items()}

    @property
    def lossy(self) -> Mapping[str, float]:
        """Output name to relative error where numbers say that precision is lost."""
        found: dict[str, float] = {}
        if self.replay is not None:
            found |= {
                name: self.errors[name]
                for name, numbers in self.replay.outputs.items()
                if numbers.attribution is Attribution.LOSSY and name in self.errors
            }
        if self.device is not None:
            found |= {
                name: max(found.get(name, 0.0), self.device_errors[name])
                for name, output in self.device.outputs.items()
                if output.attribution is Attribution.LOSSY
            }
        return found

    @property
    def may_be_lossy(self) -> bool:
        """A value is read through an addition and a subtraction, and no numbers say what that costs."""
        measured = bool(self.errors) or bool(self.device_errors)
        return not measured and any(finding.rule == _LOSSY_WORKAROUND for finding in self.outcome.findings)

    @property
    def is_wrong_on_device(self) -> bool:
        """Returns whether the device computed other values, whatever the schedule for the described target says."""
        wrong = (Attribution.STALE, Attribution.PARTLY_STALE, Attribution.NEITHER)
        return self.device is not None and any(one.attribution in wrong for one in self.device.outputs.values())

    @property
    def is_right(self) -> bool:
        """Every output is fresh, and where it was run the device agrees; precision is another matter."""
        return self.outcome.is_right and not self.is_wrong_on_device

    @property
    def is_exact(self) -> bool:
        """Right, and nothing says that precision is lost."""
        return self.is_right and not self.lossy and not self.may_be_lossy


def find_cheapest(rungs: Sequence[Rung]) -> Rung | None:
    """Returns the fastest on the device; of those that are as fast within `CLOCK_NOISE`, or were not timed, the one
    with the least memory, then with the fewest instructions, then the first. An unknown value costs most. None without
    rungs."""
    fastest = min((_known(rung.milliseconds) for rung in rungs), default=inf)
    limit = max(fastest * (1 + CLOCK_NOISE), fastest + CLOCK_NOISE_MS)
    fast = [rung for rung in rungs if _known(rung.milliseconds) <= limit]
    return min(fast, key=lambda rung: (_known(rung.peak_bytes), _known(rung.instructions)), default=None)


def find_worst(errors: Mapping[str, float]) -> tuple[str, float] | None:
    """Returns the output with the largest error; one that is not a number is larger than all."""
    return max(errors.items(), key=lambda one: (isnan(one[1]), one[1]), default=None)


def _known(value: float | None) -> float:
    return inf if value is None else value
