"""Applies mitigations of a hidden write to a user's own case, and explains why others cannot be applied. A mitigation is a
change of the program that makes XLA order the readers correctly.

A case without siblings (cases of the same name with other mitigations) is compiled as written, and with each of three
changes to the program that JAX has lowered:

| mitigation | change |
|---|---|
| trivial | each reader of an overwritten value reads `value + s - s`, with `s` the sum of the kernel's result |
| barrier | each reader gets the value through an optimization barrier, which the kernel's result enters as well |
| aliased | each call declares its writes by outputs that alias the operands, and each reader reads such an output |

`aliased` does what `ligerdiag.in_place.call_in_place` does in the user's program. Two other mitigations are not tried,
because no change to the lowered program makes them: `out_of_place` needs another kernel, and `shard_map` another program.
"""

from collections.abc import Sequence

from ligerdiag.artifacts.call_records import TieSite
from ligerdiag.bisect.edges import describe_reader, find_knobs
from ligerdiag.bisect.trials import Draft, Outcome, Trial, TrialRunner
from ligerdiag.errors import CaseError
from ligerdiag.model.jobs import CaseSpec, Variation
from ligerdiag.text import join_words
from ligerdiag.toolchains.gpu_targets import Target

TRIVIAL, BARRIER, ALIASED = "trivial", "barrier", "aliased"


def name_variation(variation: Variation) -> str:
    """Returns the name of the mitigation that a variation applies to the lowered program: `trivial`, `barrier` or `aliased`.
    Returns '' if it applies none.
    """
    if variation.declared:
        return ALIASED
    return "" if not variation.ties else BARRIER if variation.by_barrier else TRIVIAL


def make_automatic_trials(
    runner: TrialRunner, draft: Draft, case: CaseSpec, target: Target, toolchain: str
) -> tuple[Trial, ...]:
    """Returns the trials for a case without siblings. The first trial is the case as written; each further one applies a
    mitigation. Mitigations that cannot be applied are left out, with a note in `draft`.

    Raises CaseError if JAX cannot trace the case.
    """
    written = Trial(case=case, target=target, toolchain=toolchain)
    base = runner.try_one(written)
    if base.exit_code == CaseError.exit_code:
        raise CaseError(base.error)
    if base.artifact is None or base.error:
        return (written,)
    if not base.written:
        draft.notes.append(
            "no kernel overwrites an operand behind XLA's back, since the calls declare their writes or have none: there is"
            " nothing to cure, and no other mitigation to compare"
        )
        return (written,)
    applied = (_tie(draft, base), _put_barriers(draft, base), _declare(draft, base))
    draft.notes[:] = dict.fromkeys((*draft.notes, _describe_others(case)))
    return (
        written,
        *(Trial(case=case, target=target, toolchain=toolchain, variation=one) for one in applied if one is not None),
    )


def _tie(draft: Draft, base: Outcome) -> Variation | None:
    assert base.artifact is not None
    knobs = find_knobs(draft, base, base.artifact.readers, base.artifact.readers_trouble)
    if not knobs:
        _leave_out(draft, TRIVIAL, "no reader of what a kernel overwrites can be tied to the kernel")
        return None
    return Variation(ties=tuple(knob.id for knob in knobs))


def _put_barriers(draft: Draft, base: Outcome) -> Variation | None:
    sites = _list_sites(base)
    written = {(one.call, one.operand) for one in base.written}
    reasons = {
        site.id: site.unreachable
        or site.no_barrier
        or ("it is a kernel that overwrites the value, too" if (site.reader, site.reader_operand) in written else "")
        for site in sites
    }
    possible = tuple(site.id for site in sites if not reasons[site.id])
    if not possible:
        why = next((reason for reason in reasons.values() if reason), "nothing reads what a kernel overwrites")
        _leave_out(draft, BARRIER, why)
        return None
    draft.notes += [
        f"{describe_reader(site)} does not wait at the barrier: {reasons[site.id]}"
        for site in sites
        if reasons[site.id]
    ]
    return Variation(ties=possible, by_barrier=True)


def _declare(draft: Draft, base: Outcome) -> Variation | None:
    unreachable = [site for site in _list_sites(base) if site.unreachable]
    obstacle = _find_obstacle(base)
    if not obstacle and unreachable:
        obstacle = f"{describe_reader(unreachable[0])} cannot get the new value: {unreachable[0].unreachable}"
    if obstacle:
        _leave_out(draft, ALIASED, obstacle)
        return None
    return Variation(declared=tuple(f"{one.call}.{one.operand}" for one in base.written))


def _find_obstacle(base: Outcome) -> str:
    """Returns the reason why `aliased` cannot declare the hidden writes by outputs that alias the operands; empty if
    there is none. base: the outcome of the case as written, which has an artifact.
    """
    assert base.artifact is not None
    unknown = next((one.kernel for one in base.written if one.unknown), "")
    if unknown:
        return f"it is unknown what `{unknown}` overwrites"
    if not all(one.call for one in base.written):
        return "a kernel call cannot be found in the program"
    return base.artifact.readers_trouble


def _list_sites(base: Outcome) -> Sequence[TieSite]:
    written = {(one.call, one.operand) for one in base.written}
    readers = () if base.artifact is None else base.artifact.readers
    return [reader for reader in readers if (reader.call, reader.operand) in written]


def _leave_out(draft: Draft, name: str, why: str) -> None:
    draft.notes.append(f"the mitigation `{name}` was not tried: {why}")


def _describe_others(case: CaseSpec) -> str:
    """Returns a note on the mitigations that only the author can write, with code that a user can copy."""
    name = case.name if not case.params else case.id
    left = [
        "`out_of_place` needs a kernel that stores to an array of its own",
        "`shard_map` needs a program that splits the call by hand",
    ]
    return (
        f"not tried, as only you can write them: {join_words(left)}. To compare them, define the case once for each, such"
        f' as `CASES = tuple(Case(name="{name}", params=(word,), function=functools.partial(program, mode=word), args=ARGS)'
        ' for word in ("hidden", "aliased", "out_of_place"))`'
    )
