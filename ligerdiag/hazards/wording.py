"""The sentences that several rules share: names, places and times, in the form of the findings."""

from collections.abc import Mapping, Sequence

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.search import ReadFinding
from ligerdiag.analysis.writes import HiddenWrite
from ligerdiag.findings import SourceLine
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.shape import render_shape
from ligerdiag.hlo.source import find_user_line, iterate_user_frames

_PLACES = frozenset({"bitcast", "get-tuple-element"})
_MAX_PATH = 64
_MAX_READERS = 8


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
    while value.opcode in _PLACES:
        value = value.operands[0]
    return value


def describe_write(context: Context, write: HiddenWrite) -> tuple[str, str]:
    """Evidence line: which call overwrites what, and when."""
    call = context.optimized_call(write)
    if call is None:
        return "write", f"%{write.call.name} of the program as written overwrites operand {write.operand}"
    value = find_producer(call.operands[write.operand])
    time = context.logical_times.get(call.id)
    return "write", f"%{call.name} overwrites operand {write.operand}, %{value.name}, at logical time {time}"


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


def find_source(context: Context, read: ReadFinding) -> SourceLine | None:
    """The user's line that reads."""
    if read.wrong is not None:
        found = find_user_line(context.optimized, read.wrong.sighting.instruction)
        if found is not None:
            return found
    return find_user_line(context.optimized, read.reader)


def name_instructions(context: Context, read: ReadFinding) -> tuple[str, ...]:
    """The kernel's call, the reader, and what it reads."""
    call = context.optimized_call(read.write)
    operand = find_read_operand(read)
    found = [i.name for i in (call, read.reader, operand and find_producer(operand)) if i is not None]
    return tuple(dict.fromkeys(found))


def find_path(start: HloInstruction, end: HloInstruction) -> tuple[HloInstruction, ...]:
    """Instructions from `start` (excluded) to `end` (included) along operands, shortest first; () when there is no path."""
    came_from: dict[int, tuple[HloInstruction, HloInstruction | None]] = {end.id: (end, None)}
    pending = [end]
    for current in pending:
        if current is start or len(came_from) > _MAX_PATH * 4:
            break
        for operand in current.operands:
            if operand.id not in came_from:
                came_from[operand.id] = (operand, current)
                pending.append(operand)
    if start.id not in came_from or start is end:
        return ()
    path: list[HloInstruction] = []
    step = came_from[start.id][1]
    while step is not None:
        path.append(step)
        step = came_from[step.id][1]
    return tuple(path)


def describe_value(value: HloInstruction) -> str:
    """`f32[4,8]`-like text of an instruction's shape."""
    return render_shape(value.shape)


def describe_callers(module: HloModule, call: HloInstruction, limit: int = 3) -> tuple[tuple[str, str], ...]:
    """Evidence lines: who called the function that the finding's line is in, innermost first."""
    frames = list(iterate_user_frames(module, call))[1 : limit + 1]
    return tuple(("from", f"{frame.file}:{frame.line} in {frame.function or 'the module'}") for frame in frames)
