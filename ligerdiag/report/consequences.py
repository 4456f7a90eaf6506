"""Decides which causes (findings of one mistake, joined) follow from another one, by evidence that both share.

A call is gone if the program as written has it and the schedule lacks it. A workaround that rounds is an addition and a
subtraction of one term, which make readers wait for the kernel.

| the finding | follows from | if |
|---|---|---|
| a read that misses a write | a call that is gone, or that XLA merged with an equal one | the call should make that write |
| a read that misses or sees a write | two calls on a value that XLA merged | one of the two calls writes, the other reads |
| a value lost in shared bytes | an alias that does not hold | the call that reads the value declares it |
| a program that is wrong as written | a workaround that rounds | one measurement shows both |

A cause follows from another one only if all of its reads do. Nothing follows from a finding that is allowed: whoever
allows a cause has not seen its consequences. A finding from which others follow does not follow from another one
itself.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ligerdiag.model.findings import Finding
from ligerdiag.rules.registry import get_only_id, list_ids
from ligerdiag.rules.rule import RuleKind

_ROOT = get_only_id(RuleKind.HIDDEN_WRITE)
_MISSING_READS = list_ids(RuleKind.EARLY_READ, RuleKind.COPY_READ, RuleKind.LUCKY_READ)
_LATE_READS = list_ids(RuleKind.LATE_READ)
_DOUBLE = get_only_id(RuleKind.DOUBLE_WRITE)
_CONTRADICTED = get_only_id(RuleKind.CONTRADICTION)
_ROUNDED = get_only_id(RuleKind.ROUNDING)


def arrange_consequences(causes: Sequence[Finding]) -> tuple[Finding, ...]:
    """Returns the causes, with each consequence moved directly behind the cause from which it follows.

    A consequence names that cause in `follows_from`.
    """
    found = [_find_origin(cause, causes) for cause in causes]
    starts = {id(origin) for origin in found if origin is not None}
    origins = {
        n: None if id(causes[n]) in starts else origin for n, origin in enumerate(found)
    }  # see the last sentence
    arranged: list[Finding] = []
    for place, cause in enumerate(causes):
        if origins[place] is None:
            arranged.append(cause)
            arranged += [replace(causes[n], follows_from=cause) for n, origin in origins.items() if origin is cause]
    return tuple(arranged)


def _find_origin(cause: Finding, causes: Sequence[Finding]) -> Finding | None:
    """Returns the first cause from which all of `cause` follows; None if there is none."""
    parts = [part for part in cause.parts or (cause,) if part.rule != _ROOT]
    for other in causes:
        if other is cause or other.suppressed is not None:
            continue
        sources = other.parts or (other,)
        if parts and all(any(_follows(part, source) for source in sources) for part in parts):
            return other
    return None


def _follows(finding: Finding, source: Finding) -> bool:
    test = _TESTS.get(finding.rule)
    return test is not None and test(finding, source)


def _misses_lost_write(finding: Finding, source: Finding) -> bool:
    """Returns whether the finding's read misses a write of a call that is gone.

    If the call was merged with an equal one, whose write the schedule performs, the reads of the call that is gone miss
    that write, too. Their findings name no instruction, as the schedule lacks the reader.
    """
    if finding.call is None or finding.call.number not in source.lost_writes:
        return False
    is_performed = source.call is not None and source.call.number != finding.call.number
    return not (is_performed and finding.instructions)


def _meets_merged_value(finding: Finding, source: Finding) -> bool:
    """Returns whether one of two calls that overwrite a merged value reads what the other one overwrites."""
    calls = source.instructions[:2]
    return source.rule == _DOUBLE and len(calls) == 2 and frozenset(calls) <= frozenset(finding.instructions)


def _loses_to_alias(finding: Finding, source: Finding) -> bool:
    return (
        source.rule == _CONTRADICTED
        and (finding.kernel, finding.source) == (source.kernel, source.source)
        and bool(finding.kernel)
        and not frozenset(source.instructions).isdisjoint(finding.instructions)
    )


def _shows_rounding(finding: Finding, source: Finding) -> bool:
    """Returns whether the measurements behind the finding are all among those of a workaround that rounds."""
    return source.rule == _ROUNDED and bool(finding.evidence) and frozenset(finding.evidence) <= set(source.evidence)


_TESTS: Mapping[str, Callable[[Finding, Finding], bool]] = {
    **dict.fromkeys(
        _MISSING_READS, lambda one, other: _misses_lost_write(one, other) or _meets_merged_value(one, other)
    ),
    **dict.fromkeys(_LATE_READS, _meets_merged_value),
    **dict.fromkeys(list_ids(RuleKind.SHARED_BYTES), _loses_to_alias),
    **dict.fromkeys(list_ids(RuleKind.REFERENCE), _shows_rounding),
}
"""For each rule whose findings can follow from others: whether one (first) follows from another (second)."""
