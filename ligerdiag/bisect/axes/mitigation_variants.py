"""Rungs of the mitigation ladder: a case's siblings, or the automatic ones where it has none, and what each costs.

Rungs of one ladder: cases of one table that differ only in their measure against a kernel's hidden write.

1. A case's mitigation is the one it names (`Case.mitigation`), else the one of its params that is a usual word.
2. Siblings have the same source, the same name, the same params except for one, and each has a mitigation of its own.

Rungs for a case that has no siblings: as it is written, and `trivial`, with every reader tied to its kernel.

`trivial` means what `--over edges` ties one by one: `value + s - s` replaces each value that is read after a kernel has
overwritten it. The other rungs are other programs, which only their author can write.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isnan

from ligerdiag.bisect.axes.edges import find_knobs
from ligerdiag.bisect.search.laboratory import Laboratory
from ligerdiag.bisect.search.trial import Draft, Outcome, Trial
from ligerdiag.errors import CaseError
from ligerdiag.judgement.agreement import compute_worst
from ligerdiag.model.findings import Attribution, DeviceRun, Replay, ReplayState
from ligerdiag.model.jobs import CaseSpec, Variation
from ligerdiag.toolchains.gpu_targets import Target

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
        is_whole = self.replay is not None and not self.replay.cut
        measured = (is_whole and bool(self.errors)) or bool(self.device_errors)
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


USUAL_WORDS = ("hidden", "trivial", "barrier", "aliased", "out_of_place", "shard_map")
"""The order of the rungs, from no declaration to the most explicit one."""


def find_mitigation(case: CaseSpec) -> str:
    """Returns the case's measure against a hidden write; empty when it names none."""
    if case.mitigation:
        return case.mitigation
    words = [param for param in case.params if param in USUAL_WORDS]
    return words[0] if len(words) == 1 else ""


def find_siblings(case: CaseSpec, table: Sequence[CaseSpec]) -> tuple[CaseSpec, ...]:
    """Returns the case and its siblings in the table, usual words first and in their order; empty when it has no
    mitigation.

    Where two of them have the same mitigation, the first one stands.
    """
    own = find_mitigation(case)
    rungs = {own: case} if own else {}
    for other in table if own else ():
        word = find_mitigation(other)
        if word and _is_sibling(case, other):
            rungs.setdefault(word, other)
    order = [*USUAL_WORDS, *(word for word in rungs if word not in USUAL_WORDS)]
    return tuple(rungs[word] for word in order if word in rungs)


def _is_sibling(one: CaseSpec, other: CaseSpec) -> bool:
    if (one.source, one.name, len(one.params)) != (other.source, other.name, len(other.params)):
        return False
    return sum(mine != theirs for mine, theirs in zip(one.params, other.params, strict=True)) == 1


AS_WRITTEN, TRIVIAL = "as written", "trivial"


def make_rungs(
    laboratory: Laboratory, draft: Draft, case: CaseSpec, target: Target, toolchain: str
) -> tuple[Trial, ...]:
    """Returns the trials, that as written first, alone where nothing can be tied. Raises CaseError where it does not
    trace."""
    written = Trial(case=case, target=target, toolchain=toolchain)
    draft.notes.append(_describe_siblings(case))
    base = laboratory.try_one(written)
    if base.exit_code == CaseError.exit_code:
        raise CaseError(base.error)
    if base.artifact is None or base.error:
        return (written,)
    if not base.written:
        draft.notes.append("no kernel overwrites an operand behind XLA's back: there is nothing to tie")
        return (written,)
    knobs = find_knobs(draft, base, base.artifact.readers, base.artifact.readers_trouble)
    if not knobs:
        draft.notes.append(
            f"there is no `{TRIVIAL}` beside it: nothing that can be tied reads what a kernel overwrites"
        )
        return (written,)
    ties = tuple(knob.id for knob in knobs)
    return written, Trial(case=case, target=target, toolchain=toolchain, variation=Variation(ties=ties))


def name_rung(trial: Trial) -> str:
    """Returns the mitigation of its case, or which of the automatic rungs it is."""
    return TRIVIAL if trial.variation.ties else find_mitigation(trial.case) or AS_WRITTEN


def _describe_siblings(case: CaseSpec) -> str:
    """Returns the text to copy for more rungs."""
    name = case.name if not case.params else case.id
    return (
        "other cures are programs of your own: for more rungs write the case once for each, such as `CASES ="
        f' tuple(Case(name="{name}", params=(word,), function=functools.partial(program, mode=word), args=ARGS)'
        ' for word in ("hidden", "barrier", "aliased"))`'
    )
