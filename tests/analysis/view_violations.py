"""Invariants that every view has, whatever the program."""

from collections.abc import Iterator

from ligerdiag.model.findings import Verdict
from ligerdiag.model.schedule_view import AccessKind, OutputView, ReadKind, ScheduleStep, ScheduleView


def list_violations(view: ScheduleView) -> Iterator[str]:
    """Yields a line for each invariant that the view violates."""
    steps = {step.id: step for step in view.steps}
    yield from _check_steps(view, steps)
    yield from _check_accesses(view, steps)
    for output in view.outputs:
        yield from _check_output(view, output, steps)


def _check_steps(view: ScheduleView, steps: dict[int, ScheduleStep]) -> Iterator[str]:
    if [step.start for step in view.steps] != sorted(step.start for step in view.steps):
        yield "the steps are not in the order of the schedule"
    if dict(view.anchors).keys() != steps.keys():
        yield "not every step has an anchor"
    for number, line in view.anchors:
        if f"{steps[number].name} = " not in view.text[line]:
            yield f"the anchor of {steps[number].name} is another line: {view.text[line]}"
    for step in view.steps:
        if not 0 <= step.start <= step.end < view.length:
            yield f"{step.name} ends before it starts, or after the end of the schedule"
        if not steps.keys() >= {*step.operands, *step.loops}:
            yield f"{step.name} has an operand or a loop that is not a step"
    for line in (*view.text, *(line for step in view.steps for line in (step.text, *step.fused))):
        if not line.isprintable():
            yield f"a line of text with control characters: {line!r}"


def _check_accesses(view: ScheduleView, steps: dict[int, ScheduleStep]) -> Iterator[str]:
    places = {step.id: at for at, step in enumerate(view.steps)}
    verdicts = {output.name: output.verdict for output in view.outputs}
    if [places.get(one.step) for one in view.accesses] != sorted(places.get(one.step, -1) for one in view.accesses):
        yield "an access has no step, or accesses are not in the order of their steps"
    for one in view.accesses:
        name = steps[one.step].name if one.step in steps else str(one.step)
        if (one.kind is AccessKind.READ) != (one.read is not ReadKind.NONE):
            yield f"{name} is a read without a kind, or has a kind and is not a read"
        reached = [verdicts[output] for output in one.outputs]
        if one.read is ReadKind.STALE and set(reached) != {Verdict.STALE}:
            yield f"{name} is a stale read that reaches {reached}"
        if one.read is ReadKind.CLOBBERED and not set(reached) <= {Verdict.CLOBBERED, Verdict.STALE}:
            yield f"{name} is a clobbered read that reaches {reached}"
        if one.read in (ReadKind.FRESH, ReadKind.ORIGINAL) and view.buffers[one.buffer].unknown:
            yield f"{name} is shown as right although the effect of the kernel is unknown"


def _check_output(view: ScheduleView, output: OutputView, steps: dict[int, ScheduleStep]) -> Iterator[str]:
    notes = [note for note in view.notes if f"`{output.name}`" in note]
    if not output.sentence.startswith(f"`{output.name}` "):
        yield f"`{output.name}` has no sentence"
    is_explained = (
        bool(notes) or " does not run, so " in output.sentence
    )  # a kernel that does not run is not in the schedule
    if output.verdict is Verdict.STALE and not output.missing and not is_explained:
        yield f"`{output.name}` is stale, and neither a missing edge nor a note says where"
    if output.verdict in (Verdict.STALE, Verdict.CLOBBERED, Verdict.LATENT) and not output.path and not is_explained:
        yield f"`{output.name}` has no path, and no note says so"
    if output.missing and output.verdict is not Verdict.STALE:
        yield f"`{output.name}` misses an edge and is {output.verdict}"
    edges = {number for edge in output.missing for number in (edge.kernel, edge.reader)}
    if not steps.keys() >= {*output.path, *edges}:
        yield f"the path of `{output.name}` contains a number that is not a step"
        return
    written = {(one.step, one.buffer) for one in view.accesses if one.kind is AccessKind.HIDDEN_WRITE}
    reads = {(one.step, one.buffer) for one in view.accesses if one.kind is not AccessKind.REUSE}
    for one, following in zip(output.path, output.path[1:], strict=False):
        through_memory = any(
            (following, buffer) in reads or steps[following].opcode == "while"
            for step, buffer in written
            if step == one
        )
        if one not in steps[following].operands and not through_memory:
            yield f"on the path of `{output.name}`, {steps[following].name} does not use {steps[one].name}"
