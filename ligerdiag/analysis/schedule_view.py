"""What an HTML report draws of one analysed module: see the model in `ligerdiag.schedule_view`."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.followed_writes import Performed
from ligerdiag.analysis.hlo_text import HloText
from ligerdiag.analysis.output_views import OutputViews, name_outputs
from ligerdiag.analysis.value_flow import ValueFlow
from ligerdiag.analysis.view_accesses import AccessFinder
from ligerdiag.analysis.view_steps import MOST_STEPS, StepFinder
from ligerdiag.analysis.writes import HiddenWrite
from ligerdiag.findings import Verdict
from ligerdiag.hlo.shape import compute_byte_size, render_shape
from ligerdiag.schedule_view import Access, AccessKind, MutatedBuffer, OutputView, ReadKind, ScheduleView


def compute_schedule_view(context: Context) -> ScheduleView:
    """The neighbourhood of the module's hidden writes, and its whole text."""
    module, text = context.optimized, HloText(context.optimized)
    flow, performed = context.followed.flow, context.followed.performed
    access_finder = AccessFinder(context)
    accesses = access_finder.find() if performed else ()
    output_views = OutputViews(context, accesses)
    outputs = output_views.describe()
    finder = StepFinder(flow, text, tuple(dict.fromkeys(one.kernel for one in performed)))
    chosen = finder.choose(_rank_steps(accesses, outputs)) if performed else frozenset[int]()
    steps = finder.describe(chosen)
    order = {step.id: number for number, step in enumerate(steps)}
    shown = sorted([one for one in accesses if one.step in order], key=lambda one: order[one.step])
    lines = list(text.render_module())
    return ScheduleView(
        module=module.name,
        instructions=module.instruction_count,
        length=len(context.logical_times),
        buffers=tuple([_describe_buffer(context, write, performed, flow) for write in context.writes]),
        accesses=tuple(shown),
        steps=steps,
        outputs=tuple([_keep_shown(output, chosen) for output in outputs]),
        omitted=finder.count_omitted(chosen),
        text=tuple([line for _, line in lines]),
        anchors=tuple([(number, at) for at, (number, _) in enumerate(lines) if number in chosen]),
        notes=(
            *_list_notes(context),
            *access_finder.notes,
            *output_views.list_notes(),
            *_list_cuts(chosen, accesses, outputs),
        ),
    )


def _describe_buffer(
    context: Context, write: HiddenWrite, performed: tuple[Performed, ...], flow: ValueFlow
) -> MutatedBuffer:
    operand = write.call.operands[write.operand]
    plain = MutatedBuffer(
        kernel=write.kernel,
        operand=write.operand,
        value=f"%{operand.name}",
        shape=render_shape(operand.shape),
        size=0,
        allocation=None,
        offset=0,
        is_performed=False,
        unknown=write.unknown,
    )
    one = next((one for one in performed if one.write is write), None)
    if one is None:
        return plain
    number, index = one.overwritten.definition
    place = next((place for place in one.actual.slices if place >= 0), None)
    slice_ = context.buffers.slices[place] if place is not None and context.buffers.memory is not None else None
    return replace(
        plain,
        value=f"%{flow.instructions[number].name}" + (f"{{{','.join(map(str, index))}}}" if index else ""),
        shape=render_shape(one.overwritten.leaf),
        size=slice_.size if slice_ is not None else compute_byte_size(one.overwritten.leaf) or 0,
        allocation=slice_.allocation if slice_ is not None else None,
        offset=slice_.offset if slice_ is not None else 0,
        is_performed=True,
    )


def _keep_shown(output: OutputView, chosen: frozenset[int]) -> OutputView:
    """The output without what leads through instructions that are not shown."""
    missing = tuple([edge for edge in output.missing if {edge.kernel, edge.reader} <= chosen])
    return replace(output, path=output.path if chosen.issuperset(output.path) else (), missing=missing)


def _rank_steps(accesses: Sequence[Access], outputs: Sequence[OutputView]) -> Iterator[int]:
    """Ids of the steps that tell most first: who makes outputs wrong and by which way, then what is right."""
    by_buffer = sorted(accesses, key=lambda one: one.buffer)
    usual = (ReadKind.FRESH, ReadKind.ORIGINAL)
    for output in outputs:
        yield from (step for edge in output.missing for step in (edge.kernel, edge.reader))
    yield from (one.step for one in by_buffer if one.kind is not AccessKind.REUSE and one.read not in usual)
    yield from (step for output in outputs if output.verdict is not Verdict.FRESH for step in output.path)
    yield from (one.step for one in by_buffer)
    yield from (step for output in outputs for step in output.path)


def _list_cuts(chosen: frozenset[int], accesses: Sequence[Access], outputs: Sequence[OutputView]) -> Iterator[str]:
    """What the limit leaves out, a line each."""
    why = f"the view holds {MOST_STEPS} instructions"
    if not chosen.issuperset(one.step for one in accesses):
        yield f"not all readers are shown: {why}"
    cut = [one.name for one in outputs if not chosen.issuperset(one.path)]
    if cut:
        yield f"the ways to {name_outputs(cut)} are not shown: {why}"
    cut = [
        one.name
        for one in outputs
        if not chosen.issuperset(n for edge in one.missing for n in (edge.kernel, edge.reader))
    ]
    if cut:
        yield f"what {name_outputs(cut)} should read is not shown: {why}"


def _list_notes(context: Context) -> Iterator[str]:
    if not context.writes:
        yield "no kernel overwrites an operand behind XLA's back"
        return
    if not context.optimized.is_scheduled:
        yield "the module has no schedule: what runs before what is not known"
        return
    if not context.intended.outputs:
        yield "without the program as written nobody knows what a reader means"
    for write in context.matching.unplaced:
        yield f"where `{write.kernel}` writes operand {write.operand} could not be told"
    for write in context.matching.missing:
        kept = context.matching.merged.get(write.index)
        what = f"XLA runs it as one with another call of `{write.kernel}`" if kept is not None else "it is not run"
        yield f"the call of `{write.kernel}` that overwrites operand {write.operand} is not in the schedule: {what}"
