"""Renders the result of `fix` in words: the cures that were tried, the diff, and its cost."""

from collections.abc import Iterator, Mapping, Sequence

from ligerdiag.fix.records import Attempt, CaseFix, Cost, OtherCases, Proof
from ligerdiag.model.findings import Verdict
from ligerdiag.source_text import compute_near
from ligerdiag.text import compute_printable, count_of, join_words, render_bytes

_MOST_UNSEEN = 8
"""Number of possible callers that an answer names."""


def render_fix(fix: CaseFix, *, is_unsafe: bool, is_written: bool) -> str:
    """Returns the result for one case as lines for a terminal, including the diff.

    is_unsafe: whether unsafe cures are offered. is_written: whether the offered cure has been written into the source.
    """
    return "\n".join([*_list_lines(fix, is_unsafe=is_unsafe, is_written=is_written), ""])


def _list_lines(fix: CaseFix, *, is_unsafe: bool, is_written: bool) -> Iterator[str]:
    name = compute_printable(fix.case_id)
    if fix.error:
        yield f"{name}: could not analyse: {compute_printable(fix.error)}"
        return
    missed = [f"  not covered: {compute_printable(line)}" for line in fix.not_covered]
    if not fix.hazards:
        yield f"{name}: nothing to fix{_describe_undecided(fix.verdicts)}"
        yield from missed
        return
    yield f"{name}: {_render_verdicts(fix.verdicts)}"
    for hazard in fix.hazards:
        yield f"  {compute_printable(hazard)}"
    yield from missed
    yield ""
    best = fix.best
    if best is None:
        yield from _explain_failure(fix, is_unsafe=is_unsafe)
    else:
        done = "written" if is_written else "cure"
        yield f"{done}: `{best.cure}`, {describe_proof(best)}"
        yield f"  cost: {describe_costs(best.costs)}"
        if best.left:
            yield f"  left: {join_words(best.left)}, which `ligerdiag check` still reports"
        yield from _describe_others(best.others)
        for remark in best.remarks:
            yield f"  {compute_printable(remark)}"
        if best.unproved_callers:
            callers = _list_first(best.unproved_callers)
            yield f"  changed, but not run by this case, and so not proved: {callers}"
        if best.changes_callers:
            yield "  not searched for callers: other projects, and files that do not end in `.py`, such as notebooks"
        if best.also_changed:
            yield f"  also changed, but not proved, as no finding of this case names it: {_list_first(best.also_changed)}"
        if best.not_changed:
            yield f"  not changed, and may still overwrite an array behind XLA's back: {_list_first(best.not_changed)}"
        if best.unseen:
            yield f"  possible callers that are not changed: {_list_first(best.unseen)}"
        if best.advice:
            yield f"  also needed: {best.advice}"
        yield ""
        yield (
            best.diff.rstrip("\n")
            if not is_written
            else f"  changed: {join_words([compute_near(str(p)) for p in best.files])}"
        )
        yield ""
    others = [one for one in fix.attempts if one is not best]
    if others:
        yield "also tried:" if best is not None else "tried:"
        texts: dict[str, list[str]] = {}
        for one in others:
            texts.setdefault(describe_attempt(one), []).append(one.cure)
        for text, cures in texts.items():
            yield f"  {join_words(cures)}: {text}"


def _describe_others(others: OtherCases) -> Iterator[str]:
    if not others.judged and not others.left:
        return
    parts = [f"{count_of(len(others.judged), 'other case')} compiled with the change, none is worse"]
    if not others.judged:
        parts = []
    parts += [f"`{compute_printable(one)}` copies {render_bytes(more)} more" for one, more in others.copied.items()]
    if others.left:
        parts.append(f"{others.left} not judged")
    yield f"  the changed files: {'; '.join(parts)}"


def _list_first(texts: Sequence[str]) -> str:
    more = len(texts) - _MOST_UNSEEN
    listed = [compute_printable(one) for one in texts[:_MOST_UNSEEN]]
    return join_words([*listed, f"{more} more, which `--format json` lists"] if more > 0 else listed)


def describe_proof(attempt: Attempt) -> str:
    """Returns a clause that says how certain it is that the changed program is right."""
    if attempt.proof is Proof.PROVED:
        unsafe = "" if attempt.is_safe else ", but unsafe: whether it stays right depends on code around the call"
        more = f"; {compute_printable(attempt.reason)}" if attempt.reason else ""
        return (
            "proved: every output is fresh, the replay agrees with these verdicts, and each output equals that of the "
            f"program as written, run line by line with every write visible{more}{unsafe}"
        )
    return f"{attempt.proof.value}: {compute_printable(attempt.reason)}" if attempt.reason else attempt.proof.value


def describe_attempt(attempt: Attempt) -> str:
    """Returns a clause about the result of a cure that was tried but is not offered."""
    if attempt.proof is not Proof.PROVED:
        return describe_proof(attempt)
    parts = ["proved" if attempt.is_safe else "proved, but unsafe", count_of(attempt.changed_lines, "changed line")]
    if attempt.left:
        parts.append(f"leaves {join_words(attempt.left)}")
    return f"{', '.join(parts)}; {describe_costs(attempt.costs)}"


def describe_costs(costs: Mapping[str, Cost]) -> str:
    """Returns the costs on each target as text; targets with equal costs are named together."""
    if not costs:
        return "unknown, as XLA's buffer assignment is missing"
    found: dict[str, list[str]] = {}
    for target, cost in costs.items():
        found.setdefault(_describe_cost(cost), []).append(target)
    return "; ".join(text if len(found) == 1 else f"{', '.join(targets)}: {text}" for text, targets in found.items())


def _describe_cost(cost: Cost) -> str:
    memory = f"{_signed(cost.reserved)} reserved, {_signed(cost.peak)} at the peak, {_signed(cost.copied)} copied"
    if not cost.copied:
        return memory
    if cost.milliseconds is None:
        return f"{memory}; time unknown"
    return f"{memory}; about {cost.milliseconds:+.2g} ms, estimated from the copied bytes"


def _signed(size: int) -> str:
    return f"{'-' if size < 0 else '+'}{render_bytes(abs(size))}"


def _render_verdicts(verdicts: Mapping[str, Mapping[str, Verdict]]) -> str:
    texts: dict[str, list[str]] = {}
    for target, outputs in verdicts.items():
        text = " · ".join(
            f"{compute_printable(name)} {one.value.upper() if one.is_wrong else one.value}"
            for name, one in sorted(outputs.items())
        )
        texts.setdefault(text, []).append(target)
    return "; ".join(f"{text} on {', '.join(targets)}" for text, targets in texts.items())


def _describe_undecided(verdicts: Mapping[str, Mapping[str, Verdict]]) -> str:
    unknown = [n for outputs in verdicts.values() for n, one in outputs.items() if one is Verdict.UNKNOWN]
    names: Sequence[str] = [f"`{compute_printable(one)}`" for one in dict.fromkeys(unknown)]
    return f", but {join_words(names)} {'is' if len(names) == 1 else 'are'} unknown" if names else ""


def _explain_failure(fix: CaseFix, *, is_unsafe: bool) -> Iterator[str]:
    withheld = [one.cure for one in fix.attempts if one.is_offered]
    refused = next((one for one in fix.attempts if one.refusal), None)
    if withheld and not is_unsafe:
        yield f"no cure is proved; `--unsafe` offers {join_words([f'`{one}`' for one in withheld])}"
        yield from _list_steps(fix)
        return
    if refused is not None and len({(one.proof, one.reason) for one in fix.attempts}) == 1:
        yield f"no cure is proved: {compute_printable(refused.refusal)}"
    elif refused is not None:
        done = Proof.OTHER_PROGRAM.value if refused.proof is Proof.OTHER_PROGRAM else "cannot be applied"
        yield f"no cure is proved; `{refused.cure}` {done}: {compute_printable(refused.refusal)}"
    elif fix.attempts:
        yield "no cure is proved: none of the cures below helps"
        yield from _list_steps(fix)
        return
    else:
        rules = dict.fromkeys(one.partition(":")[0] for one in fix.hazards)
        yield f"no cure is known for {join_words(list(rules))}: `ligerdiag explain {next(iter(rules))}` says what to do"
    steps = [*_list_steps(fix)]
    yield from steps
    if not steps:
        for remedy in fix.remedies:
            yield f"  by hand: {compute_near(compute_printable(remedy))}"


def _list_steps(fix: CaseFix) -> Iterator[str]:
    """Yields the changes that complete a cure which could not be proved, each once."""
    steps = dict.fromkeys(one.next_step for one in fix.attempts if one.next_step)
    yield from (f"  by hand: {compute_printable(one)}" for one in steps)
