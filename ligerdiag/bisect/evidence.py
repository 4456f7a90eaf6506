"""Describes how one step of XLA made an output wrong: the read that gets the wrong value, before and after the step.

The reader is the first operation that gets the wrong version of an overwritten value (the contents from before or after
the kernel's write) in the module after the step. In the module from before the step it is found by its tag, the number
that each operation gets before the compile.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.evaluation.carriers import is_same_operation
from ligerdiag.analysis.evaluation.order import compute_logical_times
from ligerdiag.analysis.writes import HiddenWrite
from ligerdiag.bisect.snapshots import Judgement
from ligerdiag.bisect.synthetic_schedules import SchedulePolicy
from ligerdiag.hlo.dataflow import Dataflow, PassThrough, Position, find_shortest_path, search
from ligerdiag.hlo.module import HloInstruction, HloModule, TagPath, find_user_line
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import ShapeIndex, render_shape

type ValuePath = tuple[HloInstruction, ...]

_SILENT = having(Trait.TAKES_ELEMENT, Trait.MAKES_TUPLE) | {"parameter", "fusion"}
"""Opcodes that compute nothing themselves; an instruction with one of them is shown only at the ends of a path."""
_PASSED_ON = having(Trait.TAKES_ELEMENT) | {"parameter", "fusion"}
_COMMON = having(Trait.NO_OPERATION, Trait.FROM_NOTHING)
"""Opcodes that `find_common` skips: two values that are both computed from one such instruction, for instance a
constant, may have nothing else in common.
"""
_SHOWN = 8


@dataclass(slots=True, eq=False)
class ValuePaths:
    """Finds short paths along operands in one module, through fusions and results of loops.

    A path is a tuple of instructions, from the reader back. After a parameter of a fused computation comes the fusion's
    operand. After a fusion comes the root of its computation, and after a loop's result the result of the loop's body. The
    parameter of a loop ends a path. A path does not enter the branches of a conditional: it continues with all operands of
    the conditional.
    """

    module: HloModule
    _flow: Dataflow = field(init=False)

    def __post_init__(self) -> None:
        self._flow = Dataflow(self.module, PassThrough(tuples=True, fusions=True, loop_back=True, arguments=True))

    def find(
        self,
        start: HloInstruction,
        is_target: Callable[[HloInstruction], bool],
        *,
        around: HloInstruction | None = None,
    ) -> ValuePath:
        """Returns a shortest path from `start` to a target other than `start`; () if there is none.

        around: an instruction that the path avoids.
        """
        return find_shortest_path([start], self._step_around(around), lambda one: one is not start and is_target(one))

    def find_common(
        self, start: HloInstruction, other: HloInstruction, *, around: HloInstruction | None = None
    ) -> ValuePath:
        """Returns a path from `start` to a value from which both `start` and `other` are computed; () if there is none. Of
        several such values, chooses the one nearest to `other`.

        Parameters, constants and results of instructions that only move bytes do not count. around: an instruction that the
        path avoids.
        """
        reached = search([start], self._step_around(around)).keys() - {start}
        shared = (one for one in search([other], self.list_sources) if one in reached and one.opcode not in _COMMON)
        nearest = next(shared, None)
        return () if nearest is None else self.find(start, lambda one: one is nearest, around=around)

    def _step_around(self, around: HloInstruction | None) -> Callable[[HloInstruction], Iterator[HloInstruction]]:
        return lambda current: (source for source in self.list_sources(current) if source is not around)

    def list_sources(self, instruction: HloInstruction) -> tuple[HloInstruction, ...]:
        """Returns the instructions from which an instruction computes its value directly. If it only passes a value on, as
        `get-tuple-element` does, returns the instruction from which it gets the value.
        """
        if instruction.opcode not in _PASSED_ON:
            return instruction.operands
        position = self._pass_on(instruction, ())
        while position is not None and position[1] and (following := self._pass_on(*position)) is not None:
            position = following
        return () if position is None else position[:1]

    def _pass_on(self, instruction: HloInstruction, index: ShapeIndex) -> Position | None:
        callers = self.module.callers.get(self.module.homes[instruction.id].id, ())
        fusions = [caller for caller in callers if caller.opcode == "fusion"]
        return next(self._flow.list_sources(instruction, index, fusions), None)


def render_instruction(instruction: HloInstruction) -> str:
    """Returns a line such as `add.3 = f32[8] add(convert.1, broadcast.2)`."""
    operands = ", ".join(operand.name for operand in instruction.operands)
    opcode = instruction.proto.custom_call_target if instruction.opcode == "custom-call" else instruction.opcode
    return f"{instruction.name} = {render_shape(instruction.shape)} {opcode}({operands})"


def render_value(instruction: HloInstruction) -> str:
    """Returns the name and the shape of a value, such as `convert.1 f32[8]`."""
    return f"{instruction.name} {render_shape(instruction.shape)}"


def render_path(path: ValuePath) -> str:
    """Returns the values on a path as text, such as `convert.1 f32[8] <- add.2 bf16[8]`. Leaves out the start."""
    shown = [one for one in path[1:-1] if one.opcode not in _SILENT] + list(path[-1:])
    if len(shown) > _SHOWN:
        return " <- ".join([*map(render_value, shown[: _SHOWN - 1]), "...", render_value(shown[-1])])
    return " <- ".join(map(render_value, shown))


type Evidence = tuple[tuple[str, str], ...]
"""Pairs (label, sentence)."""


@dataclass(frozen=True, slots=True, eq=False)
class _Reader:
    """The operation at which an output becomes wrong, and the hidden write that it should or should not see."""

    write: HiddenWrite
    path: TagPath
    instruction: HloInstruction
    scheduled: HloInstruction


def describe_loss(before: Judgement | None, after: Judgement, output: str) -> Evidence:
    """Returns evidence for a step of XLA that loses an output. Afterwards, no order of the instructions makes the output
    right. The evidence names the operation that gets the wrong contents of the overwritten value, and shows its read
    before and after the step.

    before: the judgement of the module before the step. If it is None, the evidence is only about the module after the step.
    """
    for policy in (SchedulePolicy.WRITTEN, SchedulePolicy.EARLY, SchedulePolicy.LATE):
        context = after.synthetic.get(policy)
        reader = _find_reader(context, output) if context is not None else None
        if context is None or reader is None:
            continue
        found = [*_name_write(context, reader), *_name_place(context, reader)]
        if before is not None:
            earlier = before.synthetic[SchedulePolicy.EARLY]
            found += [("before", _describe_read(earlier, one, reader.write)) for one in _find_again(earlier, reader)]
        return (*found, ("after", _describe_read(context, reader.instruction, reader.write)))
    return _describe_vanished_reader(before, after, output) if before is not None else ()


def _describe_vanished_reader(before: Judgement, after: Judgement, output: str) -> Evidence:
    """Returns the evidence of `describe_loss` for a step that removed the reader of the overwritten value, so that the
    reader is only in the module from before the step.
    """
    earlier, context = before.synthetic[SchedulePolicy.LATE], after.synthetic[SchedulePolicy.EARLY]
    reader = _find_reader(earlier, output)
    if reader is None:
        return ()
    occurrences = context.actual.occurrences.get(reader.path, ())[:1]
    later = [_describe_read(context, one.instruction, reader.write) for one in occurrences]
    return (
        *_name_write(context, reader),
        *_name_place(earlier, reader),
        ("before", _describe_read(earlier, reader.instruction, reader.write)),
        ("after", later[0] if later else f"`{reader.instruction.name}` is no longer an operation of its own"),
    )


def describe_loosening(before: Judgement, after: Judgement, output: str) -> Evidence:
    """Returns evidence for a step of XLA that loosens the order. Afterwards, the reader of the overwritten value may run
    before the kernel. The evidence shows the path of data from the kernel to the reader before the step, and that there
    is none after it.
    """
    context = after.synthetic[SchedulePolicy.LATE]
    reader = _find_reader(context, output)
    if reader is None:
        return ()
    earlier = before.synthetic[SchedulePolicy.LATE]
    return (
        *_name_write(context, reader),
        *_name_place(context, reader),
        *[("before", _describe_tie(earlier, one, reader.write)) for one in _find_again(earlier, reader)],
        ("after", _describe_tie(context, reader.instruction, reader.write)),
    )


def describe_openness(judgement: Judgement, output: str) -> Evidence:
    """Returns evidence that nothing forces the order of kernel and reader. It names the reader of the overwritten value, and
    says that no path of data leads from the kernel to it.
    """
    context = judgement.synthetic[SchedulePolicy.LATE]
    reader = _find_reader(context, output)
    if reader is None:
        return ()
    return (
        *_name_write(context, reader),
        *_name_place(context, reader),
        ("reader", _describe_tie(context, reader.instruction, reader.write)),
    )


def describe_order(before: Judgement | None, after: Judgement, output: str) -> Evidence:
    """Returns evidence that a step of XLA chose the wrong order. It has the logical times of the kernel and of the reader of
    the overwritten value, before and after the step. If `before` is None or has no schedule, it only has the times after the
    step.
    """
    context = after.scheduled
    reader = _find_reader(context, output) if context is not None else None
    if context is None or reader is None:
        return ()
    found = [*_name_write(context, reader), *_name_place(context, reader)]
    if before is not None and before.scheduled is not None:
        for one in _find_again(before.scheduled, reader, scheduled=True)[:1]:
            found += [("before", line) for line in _describe_times(before.scheduled, one, reader.write)]
    return (*found, *[("after", line) for line in _describe_times(context, reader.scheduled, reader.write)])


def _find_reader(context: Context, output: str) -> _Reader | None:
    """Returns the first operation in program order whose read of an overwritten value makes the output stale or
    clobbered: it gets the contents from before the kernel's write and should get those from after it, or vice versa.
    Returns None if there is no such operation.
    """
    found = [
        (read.write, read.wrong)
        for read in (*context.verdicts.stale, *context.verdicts.clobbered)
        if output in read.outputs and read.wrong is not None
    ]
    if not found:
        return None
    write, wrong = min(found, key=lambda one: one[1].path)
    return _Reader(write, wrong.path, wrong.occurrence.instruction, wrong.occurrence.scheduled)


def _find_again(context: Context, reader: _Reader, *, scheduled: bool = False) -> list[HloInstruction]:
    """Looks for the reader in another snapshot of the module, given by its context (the analysis of that module).
    Returns a list with its instruction, or an empty list. scheduled: whether to return the scheduled instruction that
    runs the reader, which is a fusion if the reader was fused.
    """
    known = reader.instruction
    found = [
        occurrence
        for occurrence in context.actual.occurrences.get(reader.path, ())
        if is_same_operation(known.opcode, occurrence.instruction)
        or is_same_operation(occurrence.instruction.opcode, known)
    ]
    return [one.scheduled if scheduled else one.instruction for one in found[:1]]


def _name_write(context: Context, reader: _Reader) -> Iterator[tuple[str, str]]:
    call = context.optimized_call(reader.write)
    if call is not None:
        operand = call.operands[reader.write.operand]
        yield "write", f"`{reader.write.kernel}` overwrites operand {reader.write.operand}, `{render_value(operand)}`"


def _name_place(context: Context, reader: _Reader) -> Iterator[tuple[str, str]]:
    line = find_user_line(context.optimized, reader.instruction)
    if line is not None:
        yield (
            "operation",
            f"`{reader.instruction.op_name.rpartition('/')[2].partition('#')[0]}` at {line.file}:{line.line}",
        )


def _describe_read(context: Context, reader: HloInstruction, write: HiddenWrite) -> str:
    """Returns a sentence on the path from the reader to the overwritten value, or to the value that it reads instead."""
    text = f"`{render_instruction(reader)}`"
    paths = ValuePaths(context.optimized)
    places = {number for one in context.actual.writes if one.write == write.index for number in one.slices}
    positions = context.positions

    def is_overwritten(instruction: HloInstruction) -> bool:
        return not places.isdisjoint(place for place in positions.locate(instruction) if place is not None)

    if is_overwritten(reader):
        return f"{text} is the overwritten value"
    call = context.optimized_call(write)
    path = paths.find(reader, is_overwritten, around=call)
    if path:
        return f"{text} reads the overwritten value: `{render_path(path)}`"
    if call is None:
        return f"{text}; the call of `{write.kernel}` is gone"
    overwritten = call.operands[write.operand]
    origin = paths.find_common(reader, overwritten, around=call)
    if not origin:
        return f"{text} reads nothing that `{write.kernel}` overwrites"
    other = paths.find(overwritten, lambda one: one is origin[-1])
    made = f", and the kernel overwrites another value made from it: `{render_value(overwritten)}`" if other else ""
    if len(other) > 2:
        made += f" <- `{render_path(other)}`"
    return f"{text} reads `{render_path(origin)}`{made}"


def _describe_tie(context: Context, reader: HloInstruction, write: HiddenWrite) -> str:
    """Returns a sentence on the path of data from the kernel's result to the operation that reads the overwritten
    value; if there is no path, the sentence says so.
    """
    text = f"`{render_instruction(reader)}`"
    call = context.optimized_call(write)
    path = ValuePaths(context.optimized).find(reader, lambda one: one is call) if call is not None else ()
    if path:
        return f"{text} needs the kernel's result: `{render_path(path)}`"
    if call is not None and reader is call.operands[write.operand]:
        return f"{text} is the overwritten value, and its reader needs no result of `{write.kernel}`"
    return f"{text} needs no result of `{write.kernel}`"


def _describe_times(context: Context, reader: HloInstruction, write: HiddenWrite) -> Iterator[str]:
    call = context.optimized_call(write)
    times = compute_logical_times(context.optimized)
    frames = next((one.frames for one in context.actual.writes if one.write == write.index), ())
    scheduled = next((f.instruction for f in frames if f.instruction.opcode == "fusion"), call)
    if call is None or scheduled is None or reader.id not in times or scheduled.id not in times:
        return
    yield f"`{reader.name}` at logical time {times[reader.id]}, `{write.kernel}` at {times[scheduled.id]}"
