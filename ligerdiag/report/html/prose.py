"""Sentences, output chips, ways and HLO listing of a page, in parts: code and names of instructions are marked.

The outputs of a case as chips, the wrong ones first, and which of them the numbers call wrong.

1. An output is wrong by the numbers if a replay or a device computed other values than the intended ones, or if program
   order itself differs from the case's reference by more than rounding explains.
2. It is inexact if the rounding of a workaround explains the difference: LD012 says so, or the numbers are lossy.
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
    """A piece of a sentence."""

    text: str
    is_code: bool = False
    step: int | None = None
    """Id of the step that the text names; None when it names none of this page."""


def compute_step_ids(view: ScheduleView | None) -> dict[str, int]:
    """Returns a map from the name of an instruction, with its `%`, to the id of its step."""
    return {} if view is None else {step.name: step.id for step in view.steps}


def compute_parts(text: str, steps: Mapping[str, int]) -> tuple[Part, ...]:
    """Splits the whole of `text`, without its backticks; a name that is no step of the page is still code."""
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
    """Returns the same without a meaning for backticks. unknown: whether names that are no step are code."""
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
"""Signs of chips, the worst first."""


class NumbersWord(StrEnum):
    """The numbers' statement against an output."""

    WRONG = "wrong by the numbers"
    INEXACT = "inexact"
    NOTHING = ""
    """Nothing; there may be no numbers at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """One output."""

    name: str
    verdict: Verdict
    sign: str
    """Name of a sign: that of the verdict, or of an error or a warning where the numbers are worse."""
    word: str
    number: int
    """Of the output among all chips, 1-based: links lead there."""


def list_chips(case: CaseReport) -> tuple[Chip, ...]:
    """By `SIGN_ORDER`, then in the program's order."""
    words = compute_numbers_words(case)
    said = [(name, verdict, *_judge(verdict, words[name])) for name, verdict in case.outputs.items()]
    said.sort(key=lambda one: SIGN_ORDER.index(one[2]))
    return tuple(
        Chip(name=name, verdict=verdict, sign=sign, word=word, number=number)
        for number, (name, verdict, sign, word) in enumerate(said, start=1)
    )


def compute_numbers_words(case: CaseReport) -> dict[str, NumbersWord]:
    """Output name to what the numbers say."""
    return {name: _compute_word(name, case) for name in case.outputs}


def _compute_word(name: str, case: CaseReport) -> NumbersWord:
    attributions: set[Attribution] = set()
    is_off = False
    if case.replay is not None:
        is_off = case.replay.reference.get(name, 0.0) > case.replay.reference_tolerance.get(name, 0.0)
        attributions |= {case.replay.outputs[name].attribution} if name in case.replay.outputs else set()
    if case.device is not None and name in case.device.outputs:
        attributions.add(case.device.outputs[name].attribution)
    is_rounded = any(finding.rule in _ROUNDING and name in finding.outputs for finding in case.findings)
    if any(one.is_wrong for one in attributions) or (is_off and not is_rounded):
        return NumbersWord.WRONG
    return NumbersWord.INEXACT if is_off or Attribution.LOSSY in attributions else NumbersWord.NOTHING


def _judge(verdict: Verdict, word: NumbersWord) -> tuple[str, str]:
    """Returns sign and word of a chip."""
    said = "STALE" if verdict is Verdict.STALE else verdict.value
    if not verdict.is_wrong and word is NumbersWord.WRONG:
        return "error", f"{said}, {word.value}"
    if verdict.is_right and word is NumbersWord.INEXACT:
        return "warning", f"{said}, {word.value}"
    return verdict.value, said


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One output."""

    chip: Chip
    path: tuple[int, ...]
    """Ids of steps; empty where it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WayGroup:
    """Outputs of one verdict with the same sentence, but for their own name in it, and the same missing edges."""

    ways: tuple[Way, ...]
    sentence: tuple[Part, ...]
    """That of the first."""
    missing: tuple[MissingEdge, ...]


def compute_ways(view: ScheduleView, chips: Sequence[Chip], steps: Mapping[str, int]) -> tuple[WayGroup, ...]:
    """In the order of the chips; nothing where no way is known. steps: name of an instruction to the id of its step."""
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
    """One instruction."""

    step: ScheduleStep
    text: tuple[Part, ...]
    fused: tuple[str, ...]
    users: tuple[ScheduleStep, ...]
    """Steps that use its value."""
    signs: tuple[Sign, ...]
    place: str
    """`file:line`, empty where it is not known."""
    source: str
    """The user's line, where the file is here."""
    line: int | None
    """Index into the module's text."""


def compute_listing(view: ScheduleView, source_roots: Sequence[str]) -> tuple[Entry, ...]:
    """In the order of the schedule. source_roots: folders below which sources are read."""
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
