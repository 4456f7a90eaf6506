"""Rungs for a case that has no siblings: as it is written, and `trivial`, with every reader tied to its kernel.

`trivial` means what `--over edges` ties one by one: `value + s - s` replaces each value that is read after a kernel has
overwritten it. The other rungs are other programs, which only their author can write.
"""

from ligerdiag.bisect.draft import Draft
from ligerdiag.bisect.edges import find_knobs
from ligerdiag.bisect.laboratory import Laboratory
from ligerdiag.bisect.siblings import find_mitigation
from ligerdiag.bisect.trial import Trial
from ligerdiag.compile.job import CaseSpec
from ligerdiag.compile.target import Target
from ligerdiag.compile.variation import Variation
from ligerdiag.errors import CaseError

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
