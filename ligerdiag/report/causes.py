"""Joins findings that have one cause: those about one kernel call, at one source line, that have the same hazard.

A rule reports a read in each call of each layer, while the author made one mistake at one line. So all findings with the
same kernel, operand and line of the call that go wrong in the same way become one cause, which lists the readers. The ways
are: a read misses the kernel's write, or gets it only by luck; a read gets the write but needs the original value; a read
only tests for NaN or infinity (then the rules about reads give a warning). Each other rule is a way of its own. The finding
that the kernel makes a hidden write joins a cause about the same write, as a note. Of several such causes it joins the first
in this order: reads that miss the write, reads that see it, a write to the caller's bytes, a race. If there is none, it is a
cause of its own.

A cause is a `Finding` that has the id and the severity of its worst rule; of equally bad rules, of the one with the
lowest number. Its other rules become notes. Findings of one other rule that say the same about one line, except for the
names of instructions and outputs, are one cause as well. A finding that is allowed and one that is not are never in one
cause. Each finding belongs to exactly one cause as one of its `parts`; a cause of one part is that finding itself.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ligerdiag.model.findings import CallPlace, Finding, Severity, SourceLine
from ligerdiag.model.report import CaseReport
from ligerdiag.report.consequences import arrange_consequences
from ligerdiag.report.status import list_counted
from ligerdiag.rules.call_patch import CallPatch, compute_patch
from ligerdiag.rules.registry import RULES, get_only_id, list_ids
from ligerdiag.rules.rule import RuleKind
from ligerdiag.rules.wording import name_outputs, render_at
from ligerdiag.source_excerpt import load_unchanged_text
from ligerdiag.text import FEW, count_of, describe_names, find_layers, order_names, render_patterns

_MISSED = "missed"
_SEEN = "seen"
_SPECIAL = "special"
_WAYS_OF_KINDS: Mapping[RuleKind, str] = {
    RuleKind.EARLY_READ: _MISSED,
    RuleKind.COPY_READ: _MISSED,
    RuleKind.LUCKY_READ: _MISSED,
    RuleKind.LATE_READ: _SEEN,
}
_WAYS: Mapping[str, str] = {rule.id: _WAYS_OF_KINDS[rule.kind] for rule in RULES if rule.kind in _WAYS_OF_KINDS}
_READ_LABELS: Mapping[str, str] = {
    _MISSED: "read here afterwards",
    _SEEN: "read here, needs the old value",
    _SPECIAL: "tested here",
}
"""Maps each way to go wrong to the words for the line that reads."""
_ROOT = get_only_id(RuleKind.HIDDEN_WRITE)
_HOSTS = (_MISSED, _SEEN, *list_ids(RuleKind.CALLER_WRITE), *list_ids(RuleKind.RACE))
"""The ways of causes that the finding about the hidden write can be a note of, in the order of preference."""
_LUCK = get_only_id(RuleKind.LUCKY_READ)
_NAMES = {rule.id: rule.name for rule in RULES}
_VARYING = re.compile(r"%[\w.$-]+|\d+")

type _Key = tuple[object, ...]


def compute_causes(
    findings: Sequence[Finding], outputs: Sequence[str], source_roots: Sequence[str] = ()
) -> tuple[Finding, ...]:
    """Returns one finding for each cause.

    A cause joins the findings that have the same hazard and are about the same kernel at the same source line. Causes are
    in the order of their first findings, but a cause that follows from an earlier one comes right after it.

    outputs: the names of all outputs of the program, in its order. source_roots: folders below which the source of a
    kernel call may be read, so that the remedy can quote the call.
    """
    groups: dict[_Key, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(_compute_key(finding), []).append(finding)
    _move_roots(groups)
    return arrange_consequences([_merge(tuple(parts), outputs, source_roots) for parts in groups.values() if parts])


def list_rules(cause: Finding) -> tuple[str, ...]:
    """Returns the ids of all rules that have a finding in the cause, the cause's own rule first.

    The cause's own rule is that of its worst finding.
    """
    return tuple(dict.fromkeys((cause.rule, *(part.rule for part in cause.parts))))


def list_calls(cause: Finding) -> tuple[CallPlace, ...]:
    """Returns the kernel calls that the cause is about, each once."""
    calls = [part.call for part in (cause.parts or (cause,)) if part.call is not None]
    return tuple({call.number: call for call in calls}.values())


def list_reads(cause: Finding) -> Mapping[tuple[SourceLine | None, bool], tuple[Finding, ...]]:
    """Returns the findings of the cause, grouped by the place of the read that they are about.

    The key is (source line, whether the read is in the backward pass of that line).
    """
    found: dict[tuple[SourceLine | None, bool], tuple[Finding, ...]] = {}
    for part in cause.parts or (cause,):
        if part.reader is not None:
            key = (part.reader.line, part.reader.in_backward)
            found[key] = (*found.get(key, ()), part)
    return found


def _compute_key(finding: Finding) -> _Key:
    call = finding.call
    if call is None or call.line is None:
        message = finding.message
        for name in sorted(finding.outputs, key=len, reverse=True):
            message = message.replace(f"`{name}`", "")
        place = finding.source
        if place is None:
            return finding.rule, finding.message, finding.suppressed, finding.instructions
        return finding.rule, _VARYING.sub("", message), finding.kernel, finding.operand, place, finding.suppressed
    way = _find_way(finding)
    message = "" if way in (*_WAYS.values(), _ROOT) else _VARYING.sub("", finding.message)
    return way, message, finding.kernel, finding.operand, (call.line.file, call.line.line), finding.suppressed


def _find_way(finding: Finding) -> str:
    way = _WAYS.get(finding.rule, finding.rule)
    is_soft = way in (_MISSED, _SEEN) and finding.rule != _LUCK and finding.severity is not Severity.ERROR
    return _SPECIAL if is_soft else way


def _move_roots(groups: dict[_Key, list[Finding]]) -> None:
    """Moves each finding that a kernel makes a hidden write into another group about the same write; of several, into the
    one whose way to go wrong comes first in `_HOSTS`. Without such a group the finding stays in its own.
    """
    for key in [key for key in groups if key[0] == _ROOT]:
        about = [other for other in groups if other[0] in _HOSTS and other[2:] == key[2:]]
        if about:
            groups[min(about, key=lambda other: _HOSTS.index(other[0]))] += groups.pop(key)


def _merge(parts: tuple[Finding, ...], outputs: Sequence[str], source_roots: Sequence[str]) -> Finding:
    head = min(parts, key=lambda part: (-part.severity.weight, part.rule))
    alike = [part for part in parts if part.severity is head.severity and (part.rule == _LUCK) == (head.rule == _LUCK)]
    leading = tuple([part for part in alike if part.rule != _ROOT]) or parts
    names = order_names([name for part in leading for name in part.outputs], dict.fromkeys(outputs))
    merged = replace(head, outputs=names, message=_describe(head, leading, names, outputs))
    if len(names) > FEW:
        merged = replace(merged, evidence=(("outputs", render_patterns(names, outputs)), *merged.evidence))
    patch = find_patch(replace(head, parts=parts), source_roots)
    if patch is not None:
        merged = replace(merged, help=patch.sentence)
    if len(parts) == 1:
        return merged
    merged = replace(merged, parts=parts, lost_writes=_collect_lost(parts))
    instructions = dict.fromkeys(name for part in parts for name in part.instructions)
    decided = tuple(dict.fromkeys(name for part in parts for name in part.decided))
    evidence = _collect_evidence(merged, leading, outputs, source_roots)
    return replace(merged, instructions=tuple(instructions), decided=decided, evidence=evidence)


def _collect_lost(parts: Sequence[Finding]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(number for part in parts for number in part.lost_writes))


def find_patch(finding: Finding, source_roots: Sequence[str]) -> CallPatch | None:
    """Returns the patch that makes the kernel call declare the write.

    None if the rule of the finding has another remedy, or if the source of the call cannot be read. finding: a single
    finding or a cause. The patch uses names that depend on the reads of the cause.
    """
    if finding.call is None or finding.operand is None or not is_about_write(finding):
        return None
    line = finding.call.line
    if line is not None and not load_unchanged_text(line, source_roots):
        return None
    reads = list(dict.fromkeys(part.reader for part in finding.parts or (finding,) if part.reader is not None))
    return compute_patch(finding.call, operand=finding.operand, source_roots=source_roots, reads=reads)


def is_about_write(finding: Finding) -> bool:
    """Returns whether the finding is about a hidden write or about a read of the value that the write overwrites."""
    return finding.rule in _WAYS or finding.rule == _ROOT


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedPlace:
    """A line of the user's program that a finding is about, with its role in the hazard."""

    line: SourceLine
    label: str
    """The role of the line, such as `overwritten here`; empty if it has none."""
    is_read: bool = False
    parts: tuple[Finding, ...] = ()
    """The findings whose read is at this line."""


def list_marked_places(cause: Finding) -> tuple[MarkedPlace, ...]:
    """Returns the lines of the user's program that a report marks: the kernel call, then the reads.

    Lines with a finding of the cause's own rule come first among the reads. A cause that is not about a hidden write has
    one line, without a label.
    """
    call = cause.call
    if call is None or call.line is None or not is_about_write(cause):
        return () if cause.source is None else (MarkedPlace(line=cause.source, label=""),)
    backward = ", in the backward pass" if call.in_backward else ""
    places = [MarkedPlace(line=call.line, label=f"overwritten here{backward}")]
    reads = sorted(list_reads(cause).items(), key=lambda one: all(part.rule != cause.rule for part in one[1]))
    for (line, in_backward), parts in reads:
        if line is not None:
            backward = ", in the backward pass" if in_backward else ""
            luck = ", right by luck" if all(part.rule == _LUCK for part in parts) else ""
            needs_old = all(part.reader is not None and part.reader.needs_old for part in parts)
            way = _SEEN if needs_old and luck else _find_way(parts[0])
            label = f"{_READ_LABELS[way]}{luck}{backward}"
            places.append(MarkedPlace(line=line, label=label, is_read=True, parts=parts))
    return tuple(places)


_TESTED = re.compile(r".* only tests? (.+) for an? .*")
"""Matches a message of `special_values.describe_special`; its group is the value that is tested."""


def _describe(head: Finding, leading: Sequence[Finding], names: Sequence[str], outputs: Sequence[str]) -> str:
    """Returns the message of a cause. A single leading finding keeps its message, with the number of its outputs in
    place of a long list; several get one message about all their outputs.

    head: the worst finding of the cause. leading: the findings that are as severe as `head` and say more than that the
    kernel makes the hidden write; all findings if none do. names: the outputs that the leading findings reach. outputs:
    all outputs of the program, in order.
    """
    named = describe_names(names, outputs)
    way = _WAYS.get(head.rule)
    if len(leading) == 1 or way is None or not names:
        return head.message.replace(name_outputs(head.outputs), named, 1) if len(head.outputs) > FEW else head.message
    plural = len(names) > 1
    what = f"what `{head.kernel}` writes to operand {head.operand}"
    if _find_way(head) == _SPECIAL:
        value = _TESTED.sub(r"\1", head.message)
        return f"{named} only {'test' if plural else 'tests'} {value} for special values"
    if head.rule == _LUCK:
        loose = f"nothing orders `{head.kernel}`, which overwrites operand {head.operand}, and"
        return f"{named} {'are' if plural else 'is'} right by luck: {loose} {'their' if plural else 'its'} readers"
    if way != _MISSED:
        wrote = f"what `{head.kernel}` wrote to operand {head.operand}"
        return f"{named} {'read' if plural else 'reads'} {wrote} and {'need' if plural else 'needs'} the original"
    return f"{named} {'do' if plural else 'does'} not see {what}"


def _list_declarations(cause: Finding, roots: Sequence[Finding], source_roots: Sequence[str]) -> list[tuple[str, str]]:
    """Returns one ("declare", sentence) pair that shows the kernel call with a declared write; an empty list if the
    cause's remedy says the same already, if the call cannot be read, or if `roots` is empty.

    roots: the findings of the cause that say that the kernel makes the hidden write.
    """
    for root in roots[:1]:
        patch = find_patch(replace(root, parts=cause.parts), source_roots)
        if patch is not None and patch.sentence != cause.help:
            return [("declare", patch.sentence)]
    return []


def _collect_evidence(
    cause: Finding, leading: Sequence[Finding], outputs: Sequence[str], source_roots: Sequence[str]
) -> tuple[tuple[str, str], ...]:
    """Returns the evidence of a cause as (label, sentence) pairs: outputs, calls, the first write, each line that
    reads, the remaining evidence, and a note for each other rule.

    leading: as in `_describe`. outputs: all outputs of the program, in order.
    """
    calls = list_calls(cause)
    kept = [pair for pair in cause.evidence if pair[0] == "outputs"]
    if len(calls) > 1:
        kept.append(("calls", _describe_calls(calls, outputs)))
    roots = [part for part in cause.parts if part.rule == _ROOT]
    if len(calls) == 1:
        kept += [pair for part in (*roots, *leading)[:1] for pair in part.evidence if pair[0] == "from"]
    shown = {"from", "read", "outputs"}
    rest = [pair for pair in cause.evidence if pair[0] not in shown]
    rest += [pair for part in leading for pair in part.evidence if pair[0] in ("before", "after", "copy")]
    kept += [pair for pair in rest if pair[0] == "write"]
    for parts in list_reads(replace(cause, parts=tuple(leading))).values():
        by_chance = parts if len(calls) > 1 and all(part.rule == _LUCK for part in parts) else parts[:1]
        told = by_chance[:FEW]  # each of them needs its own call first
        more = f"; {count_of(len(parts) - len(told), 'more read')} there" if len(parts) > len(told) else ""
        sentences = [text for part in told for label, text in part.evidence if label == "read"]
        kept += [
            ("read", f"{text}{more if number == len(sentences) else ''}") for number, text in enumerate(sentences, 1)
        ]
    if not any(part.reader is not None for part in leading):
        kept += [pair for pair in cause.evidence if pair[0] == "read"]
    kept += [pair for pair in rest if pair[0] != "write"]
    kept += _list_declarations(cause, roots, source_roots)
    return tuple(dict.fromkeys((*kept, *_list_notes(cause, outputs))))


def _describe_calls(calls: Sequence[CallPlace], outputs: Sequence[str]) -> str:
    """Returns a text with the number of calls, and the lines from which they are called, such as `17, in 8 layers, from
    train.py:41 (8 times), …`. outputs: names of all outputs of the program, which show whether the calls belong to layers.
    """
    chains: dict[tuple[SourceLine, ...], int] = {}
    for call in calls:
        chains[call.callers] = chains.get(call.callers, 0) + 1
    most = max(chains.values())
    layers = find_layers(most, outputs) if most > 1 else ""
    often = f", in {most} {layers}" if layers else ""
    counts: dict[SourceLine, int] = {}
    for chain, count in chains.items():
        for frame in chain[:1]:
            counts[frame] = counts.get(frame, 0) + count
    several = len(counts) > 1
    places = [
        f"{frame.file}:{frame.line}{f' ({count} times)' if several and count > 1 else ''}"
        for frame, count in counts.items()
    ]
    where = "from the backward pass of" if all(call.in_backward for call in calls) else "from"
    return f"{len(calls)}{often}{f', {where} ' if places else ''}{', '.join(places)}"


def _list_notes(cause: Finding, outputs: Sequence[str]) -> list[tuple[str, str]]:
    """Returns a ("note", text) pair for each rule with findings in the cause, except the first rule.

    If all findings of a rule have one message, which names few outputs, the text is that message. Otherwise the text
    says how many findings there are, and which outputs they reach. outputs: names of all outputs of the case, in order.
    """
    notes: list[tuple[str, str]] = []
    for rule in list_rules(cause)[1:]:
        parts = [part for part in cause.parts if part.rule == rule]
        messages = dict.fromkeys(part.message for part in parts)
        if len(messages) == 1 and len(parts[0].outputs) <= FEW:
            reader = parts[0].reader
            at = "" if reader is None else render_at(reader.line, in_backward=reader.in_backward)
            notes.append(("note", f"{rule} {_NAMES.get(rule, '')}: {parts[0].message}{at}"))
            continue
        names = order_names([name for part in parts for name in part.outputs], dict.fromkeys(outputs))
        reach = f" that reach {describe_names(names, outputs)}" if names else ""
        notes.append(("note", f"{rule} {_NAMES.get(rule, '')}: {count_of(len(parts), 'finding')}{reach}"))
    return notes


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingGroup:
    """A cause (findings that come from one mistake, joined) with all cases that have it.

    The evidence that a report shows is that of the first of these cases.
    """

    finding: Finding
    cases: tuple[CaseReport, ...]


def compute_shared_groups(cases: Iterable[CaseReport]) -> tuple[FindingGroup, ...]:
    """Groups the causes of all cases: equal causes of different cases form one group.

    A cause joins the findings of one mistake. Causes are equal if their rule, message and source line are equal, and if
    they are consequences of the same cause or of none. Groups are sorted by severity, then rule. A group comes before its
    consequences.
    """
    members: dict[_Key, list[CaseReport]] = {}
    first: dict[_Key, Finding] = {}
    for case in cases:
        for finding in list_causes(case):
            key = _identify(finding)
            first.setdefault(key, finding)
            met_in = members.setdefault(key, [])
            if not met_in or met_in[-1] is not case:
                met_in.append(case)
    groups = [FindingGroup(finding=first[key], cases=tuple(met_in)) for key, met_in in members.items()]
    return _sort_groups(groups)


def compute_single_groups(cases: Iterable[CaseReport]) -> tuple[FindingGroup, ...]:
    """Returns one group for each cause of each case, in the order of the cases.

    Equal causes of different cases are not joined.
    """
    return tuple(
        group
        for case in cases
        for group in _sort_groups([FindingGroup(finding=finding, cases=(case,)) for finding in list_causes(case)])
    )


def list_families(groups: Sequence[FindingGroup]) -> tuple[tuple[FindingGroup, ...], ...]:
    """Splits the groups into families: a group, and then the groups that are consequences of it.

    The families are in the order of their first groups.
    """
    families: dict[_Key, list[FindingGroup]] = {}
    for group in groups:
        families.setdefault(_identify(group.finding.follows_from or group.finding), []).append(group)
    return tuple(tuple(family) for family in families.values())


def describe_origin(finding: Finding) -> str:
    """Returns the rule and the message of the finding from which this finding follows.

    Empty if the finding is not a consequence of another one.
    """
    origin = finding.follows_from
    return "" if origin is None else f"{origin.rule} {_NAMES.get(origin.rule, '')}: {origin.message}"


def list_causes(case: CaseReport) -> tuple[Finding, ...]:
    """Returns the causes of a case: its findings, joined if one mistake causes several. Allowed findings are left out."""
    return compute_causes(list_counted(case.findings), tuple(case.outputs), case.source_roots)


def compute_places(cases: Sequence[CaseReport], several_targets: bool) -> tuple[str, ...]:
    """Returns one text for each case id, such as `id (a100, h100)`.

    The targets follow the id only if the run has several targets.
    """
    targets: dict[str, list[str]] = {}
    for case in cases:
        targets.setdefault(case.id, []).append(case.target)
    if not several_targets:
        return tuple(targets)
    return tuple(f"{case_id} ({', '.join(names)})" for case_id, names in targets.items())


def _identify(finding: Finding) -> _Key:
    origin = finding.follows_from
    own = (finding.rule, finding.message, finding.source)
    return own if origin is None else (*own, origin.rule, origin.message, origin.source)


def _sort_groups(groups: Sequence[FindingGroup]) -> tuple[FindingGroup, ...]:
    """Returns the groups with the worst families first; in each family the cause, then those that follow from it."""
    families = [
        sorted(family, key=lambda group: (group.finding.follows_from is not None, *_weigh(group)))
        for family in list_families(groups)
    ]
    families.sort(key=lambda family: (min(_weigh(group)[0] for group in family), family[0].finding.rule))
    return tuple(group for family in families for group in family)


def _weigh(group: FindingGroup) -> tuple[int, str]:
    return -group.finding.severity.weight, group.finding.rule
