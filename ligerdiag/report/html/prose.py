"""Sentences of a report in parts: what stands in backticks is code, and the name of an instruction leads to it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ligerdiag.schedule_view import ScheduleView

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
