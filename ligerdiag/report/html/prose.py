"""Computes the texts of a page: sentences with marked code, outputs as chips (small labels with a sign), paths to outputs,
and the listing of the HLO.

An output has wrong numbers in two cases. A replay or a device computed other values than the intended ones. Or the program,
run in the order in which it is written, differs from the case's reference by more than rounding explains. An output is
inexact if a finding about rounding, or lossy numbers, show that a workaround costs precision.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ligerdiag.model.findings import Attribution, Verdict
from ligerdiag.model.report import CaseReport
from ligerdiag.model.schedule_view import MissingEdge, OutputView, ScheduleStep, ScheduleView
from ligerdiag.report.html.environment import Sign, sign_of
from ligerdiag.rules.registry import list_ids
from ligerdiag.rules.rule import RuleKind
from ligerdiag.source_text import compute_place, load_source_text

_CODE = re.compile(r"`([^`]*)`")
_NAME = re.compile(r"%[A-Za-z0-9_][A-Za-z0-9_.\-]*")


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a sentence: plain text, or code such as the name of an instruction."""

    text: str
    is_code: bool = False
    step: int | None = None
    """Id of the step that the text names, for a link; None if the page has no such step."""


def compute_step_ids(view: ScheduleView | None) -> dict[str, int]:
    """Returns a dict from the name of each instruction, with its `%`, to the id of its step on the page."""
    return {} if view is None else {step.name: step.id for step in view.steps}


def compute_parts(text: str, steps: Mapping[str, int]) -> tuple[Part, ...]:
    """Splits a sentence into parts of plain text and code.

    Text in backticks becomes code. A name of an instruction becomes code with a link to the instruction's step on the
    page.
    """
    parts: list[Part] = []
    at = 0
    for match in _CODE.finditer(text):
        parts += compute_names(text[at : match.start()], steps)
        parts += [
            Part(part.text, is_code=True, step=part.step) for part in compute_names(match[1], steps, unknown=False)
        ]
        at = match.end()
    return (*parts, *compute_names(text[at:], steps))


def compute_names(text: str, steps: Mapping[str, int], *, unknown: bool = True) -> tuple[Part, ...]:
    """Splits a text into plain parts and names of instructions, which are shown as code.

    unknown: whether names of instructions that are no steps on the page become code, too.
    """
    parts: list[Part] = []
    at = 0
    for match in _NAME.finditer(text):
        name = match[0].rstrip(".")
        step = steps.get(name)
        if step is None and not unknown:
            continue
        parts += [Part(text[at : match.start()])] if match.start() > at else []
        parts.append(Part(name, is_code=True, step=step))
        at = match.start() + len(name)
    return (*parts, Part(text[at:])) if at < len(text) else tuple(parts)


_ROUNDING = list_ids(RuleKind.ROUNDING)
SIGN_ORDER = ("stale", "clobbered", "error", "unknown", "warning", "latent", "fresh")
"""Signs that a chip can have, the worst first."""


class NumbersFault(StrEnum):
    """The fault that the numbers of an output show: wrong, inexact, or none."""

    WRONG = "wrong by the numbers"
    INEXACT = "inexact"
    NOTHING = ""
    """The numbers show no fault, or there are no numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """One output of the case as a chip: a small label on the page, with a sign for its verdict."""

    name: str
    verdict: Verdict
    sign: str
    """Name of the chip's sign: that of the verdict, or `error` or `warning` if the numbers are worse than the verdict."""
    word: str
    number: int
    """Position among all chips, counted from 1, for links."""


def list_chips(case: CaseReport) -> tuple[Chip, ...]:
    """Returns a chip (a small label on the page) for each output of the case.

    Chips with the worst sign come first. Outputs with equal signs stay in the program's order.
    """
    words = compute_numbers_faults(case)
    judged = [(name, verdict, *_judge(verdict, words[name])) for name, verdict in case.outputs.items()]
    judged.sort(key=lambda one: SIGN_ORDER.index(one[2]))
    return tuple(
        Chip(name=name, verdict=verdict, sign=sign, word=word, number=number)
        for number, (name, verdict, sign, word) in enumerate(judged, start=1)
    )


def compute_numbers_faults(case: CaseReport) -> dict[str, NumbersFault]:
    """Returns a dict from the name of each output to the fault that its numbers show."""
    return {name: _find_fault(name, case) for name in case.outputs}


def _find_fault(name: str, case: CaseReport) -> NumbersFault:
    attributions: set[Attribution] = set()
    is_off = False
    if case.replay is not None:
        is_off = case.replay.reference.get(name, 0.0) > case.replay.reference_tolerance.get(name, 0.0)
        attributions |= {case.replay.outputs[name].attribution} if name in case.replay.outputs else set()
        opaque = case.replay.opaque
        attributions |= {opaque.outputs[name].attribution} if opaque is not None and name in opaque.outputs else set()
    if case.device is not None and name in case.device.outputs:
        attributions.add(case.device.outputs[name].attribution)
    is_rounded = any(finding.rule in _ROUNDING and name in finding.outputs for finding in case.findings)
    if any(one.is_wrong for one in attributions) or (is_off and not is_rounded):
        return NumbersFault.WRONG
    return NumbersFault.INEXACT if is_off or Attribution.LOSSY in attributions else NumbersFault.NOTHING


def _judge(verdict: Verdict, word: NumbersFault) -> tuple[str, str]:
    """Returns (sign, text) for the chip of an output. word: the fault that its numbers show."""
    text = "STALE" if verdict is Verdict.STALE else verdict.value
    if not verdict.is_wrong and word is NumbersFault.WRONG:
        return "error", f"{text}, {word.value}"
    if verdict.is_right and word is NumbersFault.INEXACT:
        return "warning", f"{text}, {word.value}"
    return verdict.value, text


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """An output and the path from a kernel to this output, as steps of the dataflow."""

    chip: Chip
    path: tuple[int, ...]
    """Ids of the steps; empty if the path is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WayGroup:
    """Outputs that the page describes by one sentence.

    They have the same verdict and missing edges; their sentences differ only in the name of the output.
    """

    ways: tuple[Way, ...]
    sentence: tuple[Part, ...]
    """The sentence about the first output of the group."""
    missing: tuple[MissingEdge, ...]


def compute_ways(view: ScheduleView, chips: Sequence[Chip], steps: Mapping[str, int]) -> tuple[WayGroup, ...]:
    """Returns the outputs in groups that the page describes by one sentence each, in the order of the chips.

    Empty if no path from a kernel to an output is known. chips: the outputs' labels on the page.
    steps: maps the name of each instruction to the id of its step, as `compute_step_ids` does.
    """
    views = {output.name: output for output in view.outputs}
    if not any(o.sentence or o.path or o.missing for o in view.outputs):
        return ()
    groups: dict[tuple[object, ...], list[Chip]] = {}
    for chip in chips:
        output = views.get(chip.name)
        key = () if output is None else (_compute_rest(output), output.missing)
        groups.setdefault((chip.sign, chip.word, *key), []).append(chip)
    return tuple(_make(members, views, steps) for members in groups.values())


def _make(members: Sequence[Chip], views: Mapping[str, OutputView], steps: Mapping[str, int]) -> WayGroup:
    first = views.get(members[0].name)
    paths = {chip.name: views[chip.name].path if chip.name in views else () for chip in members}
    return WayGroup(
        ways=tuple(Way(chip=chip, path=paths[chip.name]) for chip in members),
        sentence=() if first is None else compute_parts(first.sentence, steps),
        missing=() if first is None else first.missing,
    )


def _compute_rest(output: OutputView) -> str:
    return output.sentence.replace(f"`{output.name}`", "``")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The entry of one instruction in the listing of the HLO."""

    step: ScheduleStep
    text: tuple[Part, ...]
    fused: tuple[str, ...]
    users: tuple[ScheduleStep, ...]
    """Steps that use the value of the instruction."""
    signs: tuple[Sign, ...]
    place: str
    """The source line as `file:line`; empty if it is unknown."""
    source: str
    """The text of the source line; empty if the file cannot be read."""
    line: int | None
    """Index of the instruction's line in the text of the module; None if unknown."""


def compute_listing(view: ScheduleView, source_roots: Sequence[str]) -> tuple[Entry, ...]:
    """Returns the listing of the schedule, with one entry for each step, in schedule order.

    An entry has the step's source line and the values that the step reads and writes. source_roots: folders; source lines
    are shown only from files below them.
    """
    ids, lines = compute_step_ids(view), dict(view.anchors)
    users: dict[int, list[ScheduleStep]] = defaultdict(list)
    for step in view.steps:
        for operand in dict.fromkeys(step.operands):
            users[operand].append(step)
    signs: dict[int, list[Sign]] = defaultdict(list)
    for access in view.accesses:
        signs[access.step].append(sign_of(access))
    return tuple(
        Entry(
            step=step,
            text=compute_names(step.text, {name: number for name, number in ids.items() if number != step.id}),
            fused=step.fused,
            users=tuple(users[step.id]),
            signs=tuple(dict.fromkeys(signs[step.id])),
            place="" if step.source is None else compute_place(step.source),
            source="" if step.source is None else load_source_text(step.source, source_roots),
            line=lines.get(step.id),
        )
        for step in sorted(view.steps, key=lambda step: step.start)
    )
