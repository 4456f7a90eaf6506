"""The sentences that several rules share: names, places and times, in the form of the findings."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.verdict.blame import ReadFinding
from ligerdiag.analysis.writes import HiddenWrite
from ligerdiag.findings import CallPlace, ReadPlace, SourceLine
from ligerdiag.hlo.dataflow import find_way, list_operands, look_through
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import iterate_leaves, render_shape
from ligerdiag.hlo.source import find_user_line, iterate_user_frames

_PLACES = having(Trait.FORWARDS, Trait.TAKES_ELEMENT)
_MAX_PATH = 256
_MAX_READERS = 8
_MAX_CALLERS = 8
_BACKWARD = "transpose("
"""In the name of an operation that differentiation made of one of the forward pass."""
TRITON, TRITON_FFI = "triton_kernel_call", "triton_kernel_call_ffi"
"""Targets of jax-triton before 0.4, and since."""


def name_outputs(names: Sequence[str]) -> str:
    """`a`, `b` and `c`."""
    quoted = [f"`{name}`" for name in names]
    if len(quoted) < 2:
        return "".join(quoted) or "no output"
    return f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def conjugate(names: Sequence[str], singular: str, plural: str) -> str:
    """The verb that goes with this many outputs."""
    return plural if len(names) > 1 else singular


def find_producer(value: HloInstruction) -> HloInstruction:
    """The instruction that computes this value: behind bitcasts and tuple elements."""
    return look_through(value, _PLACES)


def describe_write(context: Context, write: HiddenWrite) -> tuple[str, str]:
    """Evidence line: which call overwrites what, and when."""
    call = context.optimized_call(write)
    if call is None:
        return "write", f"%{write.call.name} of the program as written overwrites operand {write.operand}"
    value = find_producer(call.operands[write.operand])
    time = context.logical_times.get(call.id)
    sentence = f"%{call.name} overwrites operand {write.operand}, %{value.name}"
    if time is not None:  # it has none of its own inside of a fusion
        sentence += f", at logical time {time}"
    return "write", f"{sentence}{render_at(locate_call(context, write).line)}"


def locate_call(context: Context, write: HiddenWrite) -> CallPlace:
    """Where the author calls the kernel, and where the kernel writes the operand."""
    site = context.sites.get(write.tag_path[-1]) if write.tag_path else None
    effects = next((one for call, one in (*context.calls, *context.optimized_calls) if call is write.call), None)
    return replace(
        locate_instruction(write.module, write.call, site),
        stores=() if effects is None else effects.operand_stores[write.operand],
        number=write.index,
        target=write.call.proto.custom_call_target,
        operands=len(write.call.operands),
        outputs=sum(1 for _ in iterate_leaves(write.call.shape)),
    )


def locate_instruction(module: HloModule, call: HloInstruction, site: SourceLine | None = None) -> CallPlace:
    """The line of a call and those that called it. site: the line, where the trace knows it better than the HLO."""
    frames = tuple(islice(iterate_user_frames(module, call), _MAX_CALLERS))
    in_backward = _BACKWARD in call.op_name
    line = site or next(iter(frames), None)
    if line is not None and frames and (frames[0].file, frames[0].line) == (line.file, line.line):
        frames = frames[1:]  # a backward function that was traced in its own right, or a forward call
        in_backward = in_backward and site is None
    return CallPlace(line=line, callers=frames, in_backward=in_backward)


def locate_read(context: Context, read: ReadFinding) -> ReadPlace:
    """The user's line that reads, and whether it is its backward pass that does."""
    found = (read.reader,) if read.wrong is None else (read.wrong.sighting.instruction, read.reader)
    for instruction in found:
        line = find_user_line(context.optimized, instruction)
        if line is not None:
            return ReadPlace(line=line, in_backward=_BACKWARD in instruction.op_name)
    return ReadPlace(line=None)


def render_at(line: SourceLine | None, *, in_backward: bool = False) -> str:
    """` (train.py:41)` behind a sentence; empty where the line is not known."""
    if line is None:
        return ""
    place = f"{line.file}:{line.line}" if line.line > 0 else line.file
    return f" ({place}, in the backward pass of this line)" if in_backward else f" ({place})"


def describe_remedy(context: Context, write: HiddenWrite) -> str:
    """How the call declares what it writes, with the jax-triton that made it."""
    call = locate_call(context, write)
    number, output = write.operand, call.outputs
    if call.target == TRITON:
        return (
            f"declare operand {number} as an output too: one more in `out_shape`,"
            f" `input_output_aliases={{{number}: {output}}}`, and a pointer for it behind the others of"
            f" `{write.kernel}`, through which it stores; then use that output"
        )
    if call.target == TRITON_FFI:
        return (
            f"pass operand {number} as a Ref: `ref = jax.new_ref(x)`, `ref` in the call in its place,"
            " and `jax.freeze(ref)` afterwards is the new value"
        )
    return f"declare that the call overwrites operand {number}: an output that aliases it, and use that output"


def describe_accesses(context: Context, write: HiddenWrite) -> tuple[tuple[str, str], ...]:
    """Evidence lines: who reads around the write, where there is no program that would say who wants what."""
    found = context.accesses.get(write.index)
    if found is None:
        return ()
    times = context.logical_times
    lines = [
        ("before", _list_readers(found.before, times, "reads the operand before the kernel", "read")),
        ("after", _list_readers(found.after, times, "reads the operand after the kernel", "read")),
    ]
    for source in dict.fromkeys(source for _, source in found.sources):
        readers = tuple(reader for reader, one in found.sources if one is source)
        what = f"%{source.name}, from which the operand was made"
        lines.append(("copy", _list_readers(readers, times, f"reads {what}", "read")))
    return tuple((label, line) for label, line in lines if line)


def _list_readers(readers: Sequence[HloInstruction], times: Mapping[int, int], singular: str, verb: str) -> str:
    """`%a (7) and %b (9) read …`, by name and logical time; "" for none."""
    if not readers:
        return ""
    named = [f"%{reader.name} (logical time {times[reader.id]})" for reader in readers[:_MAX_READERS]]
    if len(readers) > _MAX_READERS:
        named.append(f"{len(readers) - _MAX_READERS} more")
    listed = f"{', '.join(named[:-1])} and {named[-1]}" if len(named) > 1 else named[0]
    return f"{listed} {singular if len(named) == 1 else verb + singular.removeprefix('reads')}"


def find_read_operand(read: ReadFinding) -> HloInstruction | None:
    """The operand by which the reader gets the value, where it is known."""
    wrong = read.wrong
    if wrong is None or wrong.operand is None:
        return None
    return read.reader.operands[wrong.operand]


def name_instructions(context: Context, read: ReadFinding) -> tuple[str, ...]:
    """The kernel's call, the reader, and what it reads."""
    call = context.optimized_call(read.write)
    operand = find_read_operand(read)
    found = [i.name for i in (call, read.reader, operand and find_producer(operand)) if i is not None]
    return tuple(dict.fromkeys(found))


def find_path(start: HloInstruction, end: HloInstruction) -> tuple[HloInstruction, ...]:
    """Instructions from `start` (excluded) to `end` (included) along operands, shortest first; () when there is no path."""
    path = find_way([end], list_operands, lambda one: one is start, most=_MAX_PATH)
    return path[-2::-1]


def describe_value(value: HloInstruction) -> str:
    """`f32[4,8]`-like text of an instruction's shape."""
    return render_shape(value.shape)


def describe_callers(call: CallPlace, limit: int = 3) -> tuple[tuple[str, str], ...]:
    """Evidence lines: who called the line of the kernel call, innermost first."""
    lines = [f"{frame.file}:{frame.line} in {frame.function or 'the module'}" for frame in call.callers[:limit]]
    if lines and call.in_backward:
        lines[0] += ", in its backward pass"
    return tuple(("from", line) for line in lines)
