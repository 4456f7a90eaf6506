"""LD008 double-write: XLA made one value of the operands that two kernel calls overwrite, made one call of two, or made two
calls of one.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.evaluation.label_memory import ActualWrite
from ligerdiag.analysis.reaching_definitions import resolve_operand
from ligerdiag.analysis.writes import Frames, HiddenWrite
from ligerdiag.hlo.dataflow import Definition
from ligerdiag.model.findings import Finding, Severity
from ligerdiag.rules.rule import Reproduction, Rule, RuleKind, make_example, report_write
from ligerdiag.rules.wording import describe_write, find_producer

_HELP = "declare what the kernel writes (`ligerdiag.in_place.call_in_place`): XLA then copies a value that both need"


def check(context: Context) -> Iterator[Finding]:
    """Yields a finding for each pair of kernel calls that XLA treats in a way that loses or repeats a write.

    The two calls overwrite one value, or XLA merged them into one call, or XLA made both from one call.
    """
    yield from _find_shared(context)
    yield from _find_merged(context)
    yield from _find_duplicated(context)


def _find_shared(context: Context) -> Iterator[Finding]:
    """Yields a finding for each pair of values of the program that XLA merged into one although a kernel call overwrites
    each of them.
    """
    known = [write for write in context.actual.writes if not context.writes[write.write].unknown]
    for a, b in _pair_alike(known, lambda write: _resolve_actual(context, write)):
        first, second = sorted((context.writes[a.write], context.writes[b.write]), key=lambda w: w.index)
        if a.call is b.call or a.write == b.write or _are_exclusive(a.frames, b.frames):
            continue
        if _is_one_value(first, second):
            continue
        value = find_producer(a.call.operands[first.operand if a.write == first.index else second.operand])
        yield report_write(
            context,
            RULE,
            second,
            f"{_name_kernels(first, second)} two values that XLA merged into one, `%{value.name}`",
            remedy=_HELP,
            instructions=tuple(dict.fromkeys((a.call.name, b.call.name, value.name))),
            evidence=(describe_write(context, first), describe_write(context, second)),
        )


def _find_merged(context: Context) -> Iterator[Finding]:
    """Yields a finding for each pair of calls in the program that get the same value and that XLA merged into one call."""
    merged = context.matching.merged_into
    for late, early in merged.items():
        gone, kept = context.writes[late], context.writes[early]
        if gone.unknown or not _is_one_value(gone, kept):
            continue
        call = context.optimized_call(kept)
        equal = [one for one, other in merged.items() if other == early and _is_one_value(context.writes[one], kept)]
        times, calls = ("twice", "two") if len(equal) == 1 else (f"{len(equal) + 1} times", f"{len(equal) + 1}")
        found = report_write(
            context,
            RULE,
            gone,
            f"`{gone.kernel}` is called {times} on one value and runs once: XLA merged the {calls} equal calls",
            remedy=_HELP,
            instructions=() if call is None else (call.name,),
            evidence=(
                describe_write(context, kept),
                (
                    "call",
                    f"%{gone.call.name} of the program as written has the same operands and was merged into it",
                ),
            ),
        )
        yield replace(found, lost_writes=(gone.index, kept.index))


def _find_duplicated(context: Context) -> Iterator[Finding]:
    """Yields a finding for each of the program's kernel calls that occurs twice in the schedule. Leaves out calls in
    loops: an unrolled loop rightly repeats its calls.
    """
    candidates = [
        one
        for one in context.actual.writes
        if not context.writes[one.write].unknown and not context.writes[one.write].loop_depth
    ]
    for a, b in _pair_alike(candidates, lambda one: one.write):
        write = context.writes[a.write]
        if a.call is b.call:
            continue
        if _are_exclusive(a.frames, b.frames) or write.index in context.matching.merged_into.values():
            continue
        yield report_write(
            context,
            RULE,
            write,
            f"`{write.kernel}` is called once and runs twice: XLA duplicated the call, because it knows of no side effects",
            remedy=_HELP,
            instructions=(a.call.name, b.call.name),
            evidence=(
                describe_write(context, write),
                ("call", f"%{b.call.name} is the same call of the program"),
            ),
        )


def _pair_alike(
    writes: Sequence[ActualWrite], key_of: Callable[[ActualWrite], Hashable]
) -> Iterator[tuple[ActualWrite, ActualWrite]]:
    """Yields each pair of writes that have the same key, in the order of `itertools.combinations`."""
    alike: dict[Hashable, list[int]] = {}
    for place, write in enumerate(writes):
        alike.setdefault(key_of(write), []).append(place)
    for first, second in sorted(pair for places in alike.values() for pair in combinations(places, 2)):
        yield writes[first], writes[second]


def _name_kernels(first: HiddenWrite, second: HiddenWrite) -> str:
    if first.kernel == second.kernel:
        return f"two calls of `{first.kernel}` overwrite"
    return f"`{first.kernel}` and `{second.kernel}` overwrite"


def _resolve_actual(context: Context, write: ActualWrite) -> Definition:
    return resolve_operand(context.optimized, write.frames, context.writes[write.write].operand)


def _is_one_value(a: HiddenWrite, b: HiddenWrite) -> bool:
    """Returns whether the author passes the same value to both calls."""
    return resolve_operand(a.module, a.frames, a.operand) == resolve_operand(b.module, b.frames, b.operand)


def _are_exclusive(a: Frames, b: Frames) -> bool:
    """Returns whether only one of two call paths can run, because they go through different branches of one
    conditional.
    """
    for one, other in zip(a, b, strict=False):
        if one.computation is not other.computation:
            return True
        if one.instruction is not other.instruction:
            return False
    return False


TWO_ROWS = make_example(
    about="Each call reshapes the values; XLA merges the two results, and the second kernel gets doubled rows.",
    code="""\
@triton.jit
def negate_kernel(x_ptr, sum_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    at = row * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at)
    tl.store(sum_ptr + row, tl.sum(x))
    tl.store(x_ptr + at, -x)


def sum_and_negate(x):
    sums = jax.ShapeDtypeStruct(x.shape[:1], x.dtype)
    return jt.triton_call(x, kernel=negate_kernel, out_shape=sums, grid=x.shape[:1], COLUMNS=x.shape[1])


def step(x, w):
    h = x @ w
    one = sum_and_double(h.reshape(-1, 32))
    two = sum_and_negate(h.reshape(-1, 32))
    return {"one": one, "two": two}


CASE = Case(name="two_rows", function=step, args=(Arg(shape=(2, 4, 16)), Arg(shape=(16, 32))))
""",
)

TWICE_ON_ONE_VALUE = make_example(
    about="The author doubles the rows twice; XLA merges the second call with the first.",
    code="""\
def step(x, w):
    h = x @ w
    one = sum_and_double(h)
    two = sum_and_double(h)
    return {"one": one, "two": two}


CASE = Case(name="twice", function=step, args=(Arg(shape=(8, 16)), Arg(shape=(16, 32))))
""",
)

TWO_DECLARED_ROWS = make_example(
    about="The doubled rows are an output of the first call, and the second call gets rows that nobody has overwritten.",
    declared=True,
    code="""\
def step(x, w):
    h = x @ w
    doubled, one = sum_and_double_declared(h.reshape(-1, 32))
    again, two = sum_and_double_declared(doubled)
    _, three = sum_and_double_declared(h.reshape(-1, 32) + 1)
    return {"one": one, "two": two, "three": three, "again": again}


CASE = Case(name="two_declared_rows", function=step, args=(Arg(shape=(2, 4, 16)), Arg(shape=(16, 32))))
""",
)

MEANT_TWICE = make_example(
    about="Two kernels overwrite one value, and the operands of the second make it run after the first, as intended.",
    code="""\
@triton.jit
def shift_kernel(x_ptr, by_ptr, sum_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    at = row * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at) + tl.load(by_ptr + row)
    tl.store(sum_ptr + row, tl.sum(x))
    tl.store(x_ptr + at, x)


def sum_and_shift(x, by):
    return jt.triton_call(x, by, kernel=shift_kernel, out_shape=by, grid=x.shape[:1], COLUMNS=x.shape[1])


def step(x, w):
    h = x @ w
    return {"shifted": sum_and_shift(h, sum_and_double(h))}


CASE = Case(name="meant_twice", function=step, args=(Arg(shape=(8, 16)), Arg(shape=(16, 32))))
""",
)

RULE = Rule(
    id="LD008",
    name="double-write",
    severity=Severity.ERROR,
    kind=RuleKind.DOUBLE_WRITE,
    summary="two kernels overwrite one buffer, or one kernel call was merged with another or duplicated",
    what_it_does="""\
Compares, for every pair of hidden writes, which value each overwrites in the program as written and in the schedule.
Reports two calls that get a value each in the program and the same value in the schedule; two equal calls on one value
that common subexpression elimination merged into one; and one call that the schedule contains twice.""",
    why="""\
To XLA, a kernel call is a function of its operands. Equal reshapes or casts of one value are one value to it, and equal
calls on equal operands are one call. Two losses on one set of logits then meet in one buffer, and the second kernel
starts from the gradient of the first.""",
    what_to_do="""\
Declare the write. XLA then knows that each call makes a new value, and copies what another call still needs.""",
    limits="""\
The rule assumes that two different kernels that overwrite one value one after the other are intended; LD001, LD003 and
LD004 report what their order does to readers. Two equal calls on two equal values, merged into one, have the effect that
both would have had, and are not reported. A duplicated call is theoretical so far: nobody has reported one. The rule
does not look for it inside loops, where unrolling legitimately repeats calls. It does not recognise a value that one
kernel overwrites outside a loop and another inside.""",
    references=(
        "github.com/pytorch/pytorch/issues/196657",
        "github.com/EnzymeAD/Enzyme-JAX/issues/2968",
    ),
    reproduced=(
        Reproduction(
            report="EnzymeAD/Enzyme-JAX#2968",
            case="same_buffer_twice[hidden]",
            reproduced=(
                "one buffer for what a kernel reads and what it overwrites. XLA passes the same bytes twice, "
                "and the update arrives only by luck of the schedule (LD003)"
            ),
            missing="the lost update: the runtime of Reactant kept the wrong one of the two views",
        ),
        Reproduction(
            report="pytorch/pytorch#196657",
            case="",
            reproduced="nothing: the thread could not be read",
            missing="all of it. The rule's own cases are `two_losses[same-hidden]` and `two_losses[rows-hidden]`",
        ),
    ),
    bad=(TWO_ROWS, TWICE_ON_ONE_VALUE),
    good=(TWO_DECLARED_ROWS, MEANT_TWICE),
    check=check,
)
