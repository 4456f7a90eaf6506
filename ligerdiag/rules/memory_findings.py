"""Builds findings about copies: all copies with a common cause make one finding."""

from collections.abc import Collection, Iterable, Iterator, Sequence

from ligerdiag.analysis.context import Context
from ligerdiag.hlo.module import find_user_line
from ligerdiag.memory.copy_reason import CopyForm
from ligerdiag.memory.copy_sources import describe_instruction
from ligerdiag.memory.memory_use import ExplainedCopy
from ligerdiag.model.findings import Finding, Severity, SourceLine
from ligerdiag.model.memory import Copy, CopyCause
from ligerdiag.rules.rule import Rule
from ligerdiag.rules.wording import render_at
from ligerdiag.text import render_bytes

_MOST_LISTED = 6
COLLECTED = (
    "make the array part of the state of the scan, and let each iteration write its part by `dynamic_update_slice`; do not"
    " take the array as `xs` and return it as `ys`"
)
"""The help of a finding about a scan that takes an array apart into slices and collects the new slices in another array."""


def group_copies(context: Context, causes: Collection[CopyCause]) -> Iterator[tuple[ExplainedCopy, ...]]:
    """Yields the copies whose cause is one of `causes`, in groups.

    Copies of one value or of one loop form a group. So do copies with one cause and one source line. A group is left out
    if the program needs all copies in it.
    """
    if context.memory is None:
        return
    groups: dict[object, list[ExplainedCopy]] = {}
    for one in context.memory.copies:
        if one.copy.cause in causes:
            groups.setdefault(one.reason.subject, []).append(one)
    for group in _join_lines(groups.values()):
        if not all(one.copy.is_needed for one in group):
            yield tuple(sorted(group, key=_rank))


def _rank(one: ExplainedCopy) -> tuple[bool, int, int]:
    """Returns a sort key: avoidable copies first, then large ones. Copies of one size that move an argument into
    another argument's bytes are sorted by the allocation of these bytes, so that a finding names the same copy on each
    GPU.
    """
    is_returned = one.reason.form is CopyForm.RETURNED_ELSEWHERE
    return one.copy.is_needed, -one.copy.total, one.move.target_place.allocation if is_returned else 0


def _join_lines(groups: Iterable[Sequence[ExplainedCopy]]) -> Iterable[Sequence[ExplainedCopy]]:
    """Joins groups that share cause and source line, such as the copies of the caches of all layers."""
    joined: dict[object, list[ExplainedCopy]] = {}
    for group in groups:
        first = group[0]
        is_avoidable = not all(one.copy.is_needed for one in group)
        key = first.reason.subject if first.copy.line is None else (first.copy.cause, first.copy.line, is_avoidable)
        joined.setdefault(key, []).extend(group)
    return joined.values()


def report_copies(
    context: Context, rule: Rule, group: Sequence[ExplainedCopy], remedy: str, *, severity: Severity | None = None
) -> Finding:
    """Returns one finding about a group of copies with a common cause.

    severity: by default the severity of the rule.
    """
    copies = [one.copy for one in group]
    avoidable = [one for one in copies if not one.is_needed] or copies
    source = next((one.line for one in copies if one.line is not None), None)
    return Finding(
        rule=rule.id,
        severity=severity or rule.severity,
        message=f"{count_copies(avoidable)} {describe_amount(avoidable)}: {avoidable[0].why}",
        source=source,
        instructions=tuple([one.instruction for one in copies]),
        evidence=(
            *_list_other_lines(context, next(one for one in group if one.copy is avoidable[0]), source),
            *_list_evidence(copies),
            *_describe_time(context, avoidable),
        ),
        help=remedy,
    )


def _list_other_lines(context: Context, one: ExplainedCopy, source: SourceLine | None) -> Iterator[tuple[str, str]]:
    """Yields a ("where", sentence) pair for each operation that the reason for a copy names and that another line than
    the finding's performs. source: the line of the finding.
    """
    module, why = context.optimized, one.copy.why
    seen = set[tuple[str, str, int]]()
    for blamed in one.reason.blamed:
        inside = [inner for number in blamed.called_computations for inner in module.computations[number].instructions]
        for operation in (blamed, *(inside if blamed.opcode == "fusion" else ())):
            name, line = describe_instruction(operation), find_user_line(module, operation)
            if line is None or (name, line.file, line.line) in seen:
                continue
            if sum(known == name for known, _, _ in seen) == why.count(f"`{name}`"):
                continue  # each mention of an operation is about one of them
            seen.add((name, line.file, line.line))
            if source is None or (line.file, line.line) != (source.file, source.line):
                yield "where", f"`{name}`{render_at(line)}"


def count_copies(copies: Sequence[Copy]) -> str:
    return (
        "a copy moves"
        if len(copies) == 1
        else f"{len(copies)} copies move"
        if len(copies) > 9
        else _NUMBERS[len(copies)]
    )


_NUMBERS = (
    "",
    "",
    *(f"{word} copies move" for word in ("two", "three", "four", "five", "six", "seven", "eight", "nine")),
)


def describe_amount(copies: Sequence[Copy]) -> str:
    """Returns how many bytes the copies move, such as `64.0 MiB (4.0 MiB in each of 16 iterations)`."""
    total = render_bytes(sum(one.total for one in copies))
    trips = {one.trips for one in copies}
    if trips == {1}:
        return total
    each = render_bytes(sum(one.bytes for one in copies))
    if trips == {None}:
        return f"{each} in each iteration"
    if len(trips) == 1:
        return f"{total} ({each} in each of {trips.pop()} iterations)"
    return f"at least {total}"


def _list_evidence(copies: Sequence[Copy]) -> Iterator[tuple[str, str]]:
    for one in copies[:_MOST_LISTED]:
        times = "" if one.trips == 1 else ", in each iteration" if one.trips is None else f", {one.trips} times"
        branch = ", if its branch runs" if one.in_branch else ""
        need = "; the program needs this one" if one.is_needed else ""
        need = "; it changes nothing" if one.is_round_trip else need
        yield (
            "copy",
            f"%{one.instruction} copies {render_bytes(one.bytes)} from {one.source} to {one.target}{times}{branch}{need}",
        )
    if len(copies) > _MOST_LISTED:
        yield "copy", f"and {len(copies) - _MOST_LISTED} more"


def _describe_time(context: Context, copies: Sequence[Copy]) -> Iterator[tuple[str, str]]:
    bandwidth = 0.0 if context.memory is None else context.memory.use.bandwidth
    if bandwidth:
        milliseconds = 2e3 * sum(one.total for one in copies) / bandwidth
        yield "time", f"at least {milliseconds:.2g} ms a call at the {bandwidth / 1e12:.2f} TB/s of the target's memory"
