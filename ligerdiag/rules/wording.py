"""Finds source lines and words for findings: sentences that several rules share."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, islice

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.verdict.blame import ReadFinding
from ligerdiag.analysis.verdict.merged_reads import MergedRead, find_merged_output
from ligerdiag.analysis.writes import HiddenWrite
from ligerdiag.hlo.custom_calls import CallTrait, has_trait
from ligerdiag.hlo.dataflow import find_shortest_path, list_operands, look_through
from ligerdiag.hlo.module import (
    HloInstruction,
    HloModule,
    find_reading_line,
    find_user_line,
    iterate_user_frames,
    strip_tags,
)
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import iterate_leaves, render_shape
from ligerdiag.model.findings import CallPlace, LaunchNumbers, ReadPlace, SourceLine
from ligerdiag.source_text import join_place
from ligerdiag.text import count_of, join_words

_PLACES = having(Trait.FORWARDS, Trait.TAKES_ELEMENT)
_MAX_PATH = 256
_MAX_READERS = 8
_MAX_CALLERS = 8
JAX_TRITON = CallTrait.JAX_TRITON | CallTrait.JAX_TRITON_FFI
_BACKWARD = "transpose("
"""Text in the name of an operation that differentiation made from an operation of the forward pass."""


def name_outputs(names: Sequence[str]) -> str:
    """Returns the names as text, each in backticks, such as "`a`, `b` and `c`"."""
    return join_words([f"`{name}`" for name in names]) or "no output"


def begin_sentence(names: Sequence[str], singular: str, plural: str) -> str:
    """Returns the subject and the verb of a sentence, such as "`a` is" or "`a` and `b` are"."""
    return f"{name_outputs(names)} {plural if len(names) > 1 else singular}"


def find_producer(value: HloInstruction) -> HloInstruction:
    """Returns the instruction that computes the value. Bitcasts and tuple elements between the two are skipped."""
    return look_through(value, _PLACES)


def describe_write(context: Context, write: HiddenWrite) -> tuple[str, str]:
    """Returns evidence as a (label, sentence) pair: which call overwrites which operand, and when."""
    call = context.optimized_call(write)
    if call is None:
        return "write", f"%{write.call.name} of the program as written overwrites operand {write.operand}"
    value = find_producer(call.operands[write.operand])
    time = context.logical_times.get(call.id)
    sentence = f"%{call.name} overwrites operand {write.operand}, %{value.name}"
    if time is not None:  # a call inside a fusion has none
        sentence += f", at logical time {time}"
    return "write", f"{sentence}{render_at(locate_call(context, write).line)}"


def name_call(context: Context, write: HiddenWrite) -> tuple[str, str]:
    """Returns a name for the call of a hidden write, and its place as text.

    If the program calls the kernel once, these are the kernel's name and an empty text. Otherwise the name is a text such
    as "the second of 3 calls of `k`". The place is then the innermost line that only this call has, as ` (FILE:LINE)`.
    """
    calls = {
        one.frames: one for one in context.writes if one.kernel == write.kernel and one.module is write.module
    }  # a call that overwrites two operands makes two writes
    if len(calls) == 1:
        return f"`{write.kernel}`", ""
    ordered = sorted(calls.values(), key=lambda one: (one.tag_path, one.index))
    number = next(place for place, one in enumerate(ordered) if one.frames == write.frames)
    lines = [[context.find_call_line(one), *iterate_user_frames(one.module, one.call)] for one in ordered]
    others = {(line.file, line.line) for place, of in enumerate(lines) if place != number for line in of if line}
    own = next((line for line in lines[number] if line is not None and (line.file, line.line) not in others), None)
    return f"the {_name_ordinal(number)} of {len(ordered)} calls of `{write.kernel}`", render_at(own)


def _name_ordinal(number: int) -> str:
    """Returns the word for a position, which is counted from 0."""
    words = ("first", "second", "third", "fourth", "fifth")
    return words[number] if number < len(words) else f"number {number + 1}"


def locate_call(context: Context, write: HiddenWrite) -> CallPlace:
    """Returns the place of the kernel call that makes a hidden write.

    It has the source line of the call, and the lines of the kernel that write the operand.
    """
    site = context.sites.get(write.tag_path[-1]) if write.tag_path else None
    effects = next((one for call, one in (*context.calls, *context.optimized_calls) if call is write.call), None)
    written = _list_written(context, write)
    return replace(
        locate_instruction(write.module, write.call, site),
        stores=() if effects is None else effects.operand_stores[write.operand],
        number=write.index,
        target=write.call.proto.custom_call_target,
        operands=len(write.call.operands),
        outputs=sum(1 for _ in iterate_leaves(write.call.shape)),
        is_declared=write.operand in write.call.operand_output_aliases,
        written=written,
        parameters=() if effects is None else tuple(effects.operand_names[operand] for operand in written),
        kernel=write.kernel,
    )


def _list_written(context: Context, write: HiddenWrite) -> tuple[int, ...]:
    """Returns the numbers of all operands that the call of this write surely overwrites behind XLA's back."""
    others = (
        one.operand for one in context.writes if one.call is write.call and one.output is None and not one.unknown
    )
    return tuple(sorted({write.operand, *others}))


def locate_instruction(module: HloModule, call: HloInstruction, site: SourceLine | None = None) -> CallPlace:
    """Returns the source line of a call and of its callers.

    site: the line of the call according to the trace of the program, which is more reliable than the HLO; None if the
    trace has no line. Several frames in a row at one line are one caller: a loop of JAX traces its body in frames of its
    own.
    """
    every = (frame for frame, _ in groupby(iterate_user_frames(module, call)))
    frames = (
        *islice(every, _MAX_CALLERS),
        *deque(every, 1),
    )  # the outermost frame is the user's own, however deep a library is
    in_backward = is_in_backward(call)
    line = site or next(iter(frames), None)
    if line is not None and frames and (frames[0].file, frames[0].line) == (line.file, line.line):
        frames = frames[1:]  # a backward function that was traced in its own right, or a forward call
        in_backward = in_backward and site is None
    return CallPlace(line=line, callers=frames, in_backward=in_backward)


def is_in_backward(instruction: HloInstruction) -> bool:
    """Returns whether differentiation made the instruction, from an operation of the forward pass."""
    return _BACKWARD in instruction.op_name


def locate_read(context: Context, read: ReadFinding, merged: MergedRead | None = None) -> ReadPlace:
    """Returns the line of the user's code that reads, and whether the read is in the backward pass.

    merged: if XLA merged two operations into the reader, the one that gets the wrong version; otherwise None. The reader
    may have the name of the one that gets the right version.
    """
    if merged is not None:
        place = locate_merged(context, merged)
        if place.line is not None:
            return place
    found = (read.reader,) if read.wrong is None else (read.wrong.occurrence.instruction, read.reader)
    line = find_reading_line(context.optimized, found)
    named = next((one for one in found if find_user_line(context.optimized, one) is not None), found[-1])
    return ReadPlace(line=line, in_backward=line is not None and is_in_backward(named))


def locate_merged(context: Context, merged: MergedRead) -> ReadPlace:
    """Returns the place in the user's program of an operation that XLA merged with a second operation."""
    line = find_user_line(context.program, merged.operation)
    return ReadPlace(line=line, in_backward=line is not None and is_in_backward(merged.operation))


def describe_merged(context: Context, merged: MergedRead) -> tuple[str, str]:
    """Returns evidence, a (label, sentence) pair, about two operations that XLA wrongly merged.

    The two operations mean different versions of a value. The sentence has, for each, the innermost source line that only
    this operation has.
    """
    both = merged.operation, merged.twin
    frames = [tuple(iterate_user_frames(context.program, one)) for one in both]
    pairs = list(zip(*frames, strict=False))
    lines = next((pair for pair in pairs if len({(one.file, one.line) for one in pair}) == 2), next(iter(pairs), None))
    places = [
        render_at(line, in_backward=is_in_backward(one)) for line, one in zip(lines or (None, None), both, strict=True)
    ]
    first, second = (f"`{strip_tags(one.op_name).rsplit('/', 1)[-1] or one.opcode}`" for one in both)
    if first == second and places[0] == places[1]:
        named = f"two operations {first}{places[0]}"
    else:
        named = f"{first}{places[0]} and {second}{places[1]}"
    return "merged", f"XLA merged {named} into %{merged.kept.name}, although they mean different versions"


def group_by_merged(
    context: Context, write: HiddenWrite, names: Sequence[str]
) -> Iterator[tuple[tuple[str, ...], MergedRead | None]]:
    """Yields the outputs in groups, as pairs of (names of outputs, operation that makes them wrong).

    The operation is one that XLA merged with a second one. It is None for the outputs without such an operation.
    """
    outputs = list(context.verdicts.outputs)
    found: dict[int | None, tuple[tuple[str, ...], MergedRead | None]] = {}
    for name in names:
        merged = find_merged_output(context, context.verdicts.comparison, write.index, outputs.index(name))
        key = None if merged is None else merged.operation.id
        found[key] = ((*found.get(key, ((), None))[0], name), merged)
    yield from found.values()


LOST = "programs of a grid run at the same time: if two load the old value, one update is lost"
UPDATE_HELP = (
    "update with an atomic operation such as `tl.atomic_add`, or store one partial result per program and reduce them"
)


def describe_meeting(launch: LaunchNumbers) -> Iterator[tuple[str, str]]:
    """Yields (label, sentence) pairs about the first two grid programs that access the same bytes in a replay.

    Yields nothing if there are none.
    """
    meeting = next(iter(launch.meetings), None)
    if meeting is None:
        return
    buffer = name_buffer(launch, meeting.buffer)
    verb = "updates" if meeting.are_atomic else "writes"
    yield (
        "write",
        f"grid program {meeting.writer} {verb} {count_of(meeting.bytes, 'byte')} of {buffer} of %{launch.instruction},"
        f" starting at byte {meeting.first_byte}{render_at(meeting.line)}",
    )
    verb = "updates" if meeting.are_atomic else "writes" if meeting.other_writes else "reads"
    drawn = ", and the result depends on which comes first" if meeting.are_atomic else ""
    yield "meets", f"grid program {meeting.other} {verb} them, too{render_at(meeting.other_line)}{drawn}"


def describe_equal_results(launch: LaunchNumbers) -> tuple[str, str]:
    """Returns evidence, a (label, sentence) pair, that the results of a launch are equal in all orders that replay tried."""
    return (
        "replay",
        f"on the drawn inputs, running the grid's programs of %{launch.instruction} in reverse order or all at once gives"
        f" the same results, in {launch.checked} of {launch.launches} launches: the value read may not matter",
    )


def name_buffer(launch: LaunchNumbers, buffer: int | None) -> str:
    """Returns the name of a kernel's buffer, such as `operand 0` or `output 0`, or `no operand` for None.

    buffer: the number of the buffer. The operands of the call are counted first, then its outputs.
    """
    if buffer is None:
        return "no operand"
    return f"operand {buffer}" if buffer < launch.operands else f"output {buffer - launch.operands}"


def advise_zeros(target: str, outputs: Sequence[int]) -> str:
    """Returns the help of a finding, which says how to fill these outputs with zeros before the kernel runs.

    target: the custom call's target. It identifies the library that made the call.
    """
    numbers = "".join(f"{number}, " for number in outputs).strip()
    numbers = numbers if len(outputs) == 1 else numbers.removesuffix(",")
    if has_trait(target, CallTrait.JAX_TRITON_FFI):
        return (
            "pass `jax.new_ref(jnp.zeros(...))` instead and read that Ref after the call (jax-triton 0.4 and later; its"
            f" `zeroed_outputs=({numbers})` is deprecated)"
        )
    if has_trait(target, CallTrait.JAX_TRITON):
        return f"let the launcher zero it with `zeroed_outputs=({numbers})`"
    return "alias it to an operand of zeros with `input_output_aliases`"


def render_at(line: SourceLine | None, *, in_backward: bool = False) -> str:
    """Returns a source line for the end of a sentence, such as ` (train.py:41)`. Empty for None."""
    if line is None:
        return ""
    place = join_place(line.file, line.line)
    return f" ({place}, in the backward pass of this line)" if in_backward else f" ({place})"


UNFUSED = (
    "put `jax.lax.optimization_barrier` around operands of the call that are slices and around results that are stacked, or"
    " compile with `XLA_FLAGS=--xla_gpu_enable_dynamic_slice_fusion=false`"
)


SPARE = "before jax-triton 0.4 the kernel also needs a spare pointer for each new value, after those of its outputs"


def describe_keeping_remedy(context: Context, write: HiddenWrite) -> str:
    """Returns the help of a finding about a reader that needs the old contents.

    It says how to declare the write at the kernel call and keep the old contents.
    """
    return f"{describe_remedy(context, write)}: XLA then keeps the original for its other readers"


def describe_remedy(context: Context, write: HiddenWrite) -> str:
    """Returns the help of a finding, which says how the kernel call can declare the write."""
    if write.output is not None:
        return UNFUSED
    call = locate_call(context, write)
    number = write.operand
    if has_trait(call.target, JAX_TRITON):
        s = "" if len(call.written) == 1 else "s"
        return (
            f"call `{write.kernel}` through `ligerdiag.in_place.call_in_place`, with {describe_written(call)}, and use the"
            f" new value{s} that it returns after the outputs ({SPARE})"
        )
    if has_trait(call.target, CallTrait.TILE_IR):
        return (
            f"wrap operand {number}, which `{write.kernel}` overwrites, in `cuda.tile.jax.InputOutput`, and use the array"
            " that `cutile_call` returns for it"
        )
    return f"declare an output that aliases operand {number}, which the call overwrites, and use that output"


def describe_written(call: CallPlace) -> str:
    """Returns a phrase for the argument `written` of `call_in_place`, such as "`written='x_ptr'`".

    If the names of the kernel's parameters are unknown, the phrase names the positions of the operands.
    """
    if call.parameters and all(call.parameters):
        return f"`written={render_names(call.parameters)}`"
    one = len(call.written) == 1
    named = join_words([str(operand) for operand in call.written])
    position = "its position" if one else "their positions"
    return f"operand{'' if one else 's'} {named} as `written` ({position} among all arguments of the call, scalars included)"


def render_names(names: Sequence[str]) -> str:
    """Returns names of a kernel's parameters as Python source, for the argument `written` of `call_in_place`.

    One name becomes a string, and several become a tuple of strings.
    """
    texts = [f'"{name}"' for name in names]
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


def describe_accesses(context: Context, write: HiddenWrite) -> tuple[tuple[str, str], ...]:
    """Returns evidence, (label, sentence) pairs, about the readers of the operand before and after the write.

    It is for dumps that have the schedule without the program as written. Empty if the program is known: then the
    verdicts say which version each reader should get.
    """
    found = context.accesses.get(write.index)
    if found is None:
        return ()
    times = context.logical_times
    lines = [
        ("before", _list_readers(found.before, times, "the operand before the kernel")),
        ("after", _list_readers(found.after, times, "the operand after the kernel")),
    ]
    for source in dict.fromkeys(source for _, source in found.sources):
        readers = tuple(reader for reader, one in found.sources if one is source)
        lines.append(("copy", _list_readers(readers, times, f"%{source.name}, from which the operand was made")))
    return tuple((label, line) for label, line in lines if line)


def _list_readers(readers: Sequence[HloInstruction], times: Mapping[int, int], what: str) -> str:
    """Returns a sentence about readers, such as `%a (logical time 7) and %b (logical time 9) read WHAT`; empty if there
    are none.
    """
    if not readers:
        return ""
    named = [f"%{reader.name} (logical time {times[reader.id]})" for reader in readers[:_MAX_READERS]]
    if len(readers) > _MAX_READERS:
        named.append(f"{len(readers) - _MAX_READERS} more")
    return f"{join_words(named)} {'reads' if len(named) == 1 else 'read'} {what}"


def find_read_operand(read: ReadFinding) -> HloInstruction | None:
    """Returns the operand through which the reader gets the value, or None if this operand is unknown."""
    wrong = read.wrong
    if wrong is None or wrong.operand is None:
        return None
    return read.reader.operands[wrong.operand]


def name_instructions(context: Context, read: ReadFinding) -> tuple[str, ...]:
    """Returns the names of the instructions in a wrong read: the kernel call, the reader, and the producer of the value."""
    call = context.optimized_call(read.write)
    operand = find_read_operand(read)
    found = [i.name for i in (call, read.reader, operand and find_producer(operand)) if i is not None]
    return tuple(dict.fromkeys(found))


def find_path(start: HloInstruction, end: HloInstruction) -> tuple[HloInstruction, ...]:
    """Returns the instructions on a shortest path along operands from `start` to `end`.

    `end` is included and `start` is not. Returns () if there is no path.
    """
    path = find_shortest_path([end], list_operands, lambda one: one is start, most=_MAX_PATH)
    return path[-2::-1]


def describe_value(value: HloInstruction) -> str:
    """Returns the shape of an instruction's value, such as `f32[4,8]`."""
    return render_shape(value.shape)


_MOST_CALLERS = 3
"""Evidence lists at most this many callers of a line."""


def describe_callers(call: CallPlace) -> tuple[tuple[str, str], ...]:
    """Returns evidence, (label, sentence) pairs, about the functions from which the kernel's call is reached.

    The innermost callers come first, then the outermost.
    """
    callers = call.callers
    shown = callers if len(callers) <= _MOST_CALLERS else (*callers[: _MOST_CALLERS - 1], callers[-1])
    lines = [f"{frame.file}:{frame.line} in {frame.function or 'the module'}" for frame in shown]
    if len(shown) < len(callers):
        lines[-1] += ", the outermost caller"
    if lines and call.in_backward:
        lines[0] += ", in its backward pass"
    return tuple(("from", line) for line in lines)
