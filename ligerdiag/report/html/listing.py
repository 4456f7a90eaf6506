"""The neighbourhood as HLO text: every step with the steps that it uses and those that use it, linked both ways."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from ligerdiag.report.html.marks import Sign, sign_of
from ligerdiag.report.html.prose import Part, compute_names, compute_step_ids
from ligerdiag.report.source_text import compute_place, load_source_text
from ligerdiag.schedule_view import ScheduleView, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One instruction."""

    step: Step
    text: tuple[Part, ...]
    fused: tuple[str, ...]
    users: tuple[Step, ...]
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
    users: dict[int, list[Step]] = defaultdict(list)
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
