"""LD011 incidental-sharing: a kernel reads and overwrites the same bytes, so that its result depends on the order in which
its grid programs run.
"""

from collections.abc import Iterator
from dataclasses import replace

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.dependents import find_dependents, name_reached
from ligerdiag.analysis.evaluation.memory_uses import SharedBuffers, find_shared_buffers
from ligerdiag.effects.access import CallEffects, InPlace, Neighbours
from ligerdiag.hlo.module import HloInstruction, find_user_line
from ligerdiag.hlo.reach import Reach
from ligerdiag.hlo.shape import iterate_leaves
from ligerdiag.model.findings import Finding, LaunchNumbers, OrderTried, Severity
from ligerdiag.rules.rule import (
    DecidedBy,
    Measured,
    Party,
    Reproduction,
    Rule,
    make_example,
    render_error,
)
from ligerdiag.rules.wording import (
    LOST,
    UPDATE_HELP,
    describe_equal_results,
    describe_meeting,
    find_producer,
    render_at,
)

HELP = "give the output its own bytes, or let each program read only the elements that it overwrites"

ROUNDING = 1e-5
"""Relative difference that the order of atomic additions in f32 may cause; a race differs by more, because it changes
whole elements.
"""


def check(context: Context) -> Iterator[Finding]:
    """Yields a finding for each operand on which two programs of a kernel's grid race.

    One program surely reads bytes that the other one surely writes.
    """
    for call, effects in context.optimized_calls:
        if all(pair.neighbours is not Neighbours.SHARED for pair in effects.in_place):
            continue
        sharing = list(find_shared_buffers(call, context.positions))
        for operand in range(len(call.operands)):
            same = SharedBuffers(operand=operand, buffer=operand, declared=False)
            pairs = (same, *(pair for pair in sharing if pair.operand == operand))
            met = [
                (pair, found)
                for pair in pairs
                for reader in dict.fromkeys((operand, pair.buffer))
                if (found := effects.get_in_place(reader, pair.buffer)) is not None
                and found.neighbours is Neighbours.SHARED
            ]
            if met:
                yield _report(context, call, effects, *met[0])


def _report(
    context: Context, call: HloInstruction, effects: CallEffects, pair: SharedBuffers, found: InPlace
) -> Finding:
    count = len(call.operands)
    other = f"operand {pair.buffer}" if pair.buffer < count else f"output {pair.buffer - count}"
    grid = " x ".join(map(str, effects.grid))
    through = other if found.reader == pair.buffer else f"operand {pair.operand}"
    reads = "loads, changes and stores" if found.is_update else "reads"
    evidence = [
        (
            "kernel",
            f"in grid {grid}, one program {reads} bytes through {through} that another writes through {other},"
            f" whatever the data{render_at(found.line)}",
        )
    ]
    if found.is_update:
        evidence.append(("order", LOST))
    names = name_reached(context, _find_reach(context, call, pair))
    if pair.buffer != pair.operand:
        value = find_producer(call.operands[pair.operand])
        why = "as declared" if pair.declared else "by XLA's buffer assignment"
        evidence.append(
            ("bytes", f"operand {pair.operand}, %{value.name}, and {other} of %{call.name} share bytes, {why}")
        )
    return Finding(
        rule=RULE.id,
        severity=RULE.severity,
        message=f"`{effects.kernel}` is not safe in place: {_describe(pair, count, is_update=found.is_update)}",
        outputs=names,
        source=find_user_line(context.optimized, call),
        kernel=effects.kernel,
        operand=pair.operand,
        instructions=(call.name,),
        evidence=tuple(evidence),
        help=UPDATE_HELP if found.is_update else HELP,
    )


def _find_reach(context: Context, call: HloInstruction, pair: SharedBuffers) -> Reach:
    leaves = list(iterate_leaves(call.shape))
    operands = [] if pair.operand in call.operand_output_aliases else [pair.operand]
    return find_dependents(context, context.optimized, call, leaves, operands)


def _describe(pair: SharedBuffers, operands: int, *, is_update: bool) -> str:
    if is_update:
        return f"its programs load, change and store the same bytes of operand {pair.operand}"
    if pair.buffer == pair.operand:
        return f"its programs read bytes of operand {pair.operand} that others overwrite"
    other = "an output" if pair.buffer >= operands else f"operand {pair.buffer}, which it overwrites"
    return f"operand {pair.operand} shares bytes with {other}"


def measure(measured: Measured) -> Iterator[Finding]:
    """Yields the findings of `check` with measurements from a replay added.

    Also yields a finding for each operand if only the replay shows that it races.
    """
    numbers = measured.numbers
    launches = numbers.launches if numbers is not None else ()
    racing: dict[tuple[str, int | None], tuple[LaunchNumbers, float]] = {
        (launch.instruction, operand): (launch, difference)
        for launch in launches
        for operand, difference in launch.racing.items()
        if difference > ROUNDING
    }
    quiet = {launch.instruction: launch for launch in launches if launch.checked}
    for finding in measured.findings_of(RULE.id):
        name = next(iter(finding.instructions), "")
        seen = racing.pop((name, finding.operand), None)
        if seen is not None:
            reached = seen[0].reached_by_order
            outputs = finding.outputs if reached is None else reached
            yield replace(finding, outputs=outputs, evidence=(*finding.evidence, _describe_race(*seen)))
        elif name in quiet:
            yield replace(finding, outputs=(), evidence=(*finding.evidence, describe_equal_results(quiet[name])))
        else:
            yield finding
    for (_, operand), (launch, difference) in racing.items():
        if launch.reached_by_order == ():
            continue
        is_update = launch.order_tried is OrderTried.TOGETHER
        what = f"its programs read bytes of operand {operand} that others overwrite"
        if is_update:
            what = f"its programs load, change and store the same bytes of operand {operand}"
        yield Finding(
            rule=RULE.id,
            severity=RULE.severity,
            message=f"`{launch.kernel}` is not safe in place: {what}",
            outputs=launch.reached_by_order or (),
            source=launch.line,
            kernel=launch.kernel,
            operand=operand,
            instructions=(launch.instruction,),
            evidence=(*describe_meeting(launch), _describe_race(launch, difference)),
            help=UPDATE_HELP if is_update else HELP,
        )


def _describe_race(launch: LaunchNumbers, difference: float) -> tuple[str, str]:
    when = {
        OrderTried.BACKWARD: "from the last to the first",
        OrderTried.TOGETHER: "at the same time",
        OrderTried.CROSSED: "at the same time, with the first one storing last",
        OrderTried.APART: "on bytes that are not shared",
    }.get(launch.order_tried, "in another order, or on bytes that are not shared")
    how = f"by {render_error(difference)} when the programs of its grid run {when}"
    return "replay", f"the results of %{launch.instruction} differ {how}"


NEIGHBOURS_BEHIND_XLA = make_example(
    about="Each element becomes the mean of its neighbours, in place; other programs write those at a block's edges.",
    code="""\
@triton.jit
def smooth_kernel(x_ptr, sum_ptr, N: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(x_ptr + at - 1, mask=at > 0, other=0.0)
    right = tl.load(x_ptr + at + 1, mask=at < N - 1, other=0.0)
    tl.store(x_ptr + at, (left + right) / 2)
    tl.store(sum_ptr + tl.program_id(0), tl.sum(left))


def step(x):
    sums = jax.ShapeDtypeStruct((4,), x.dtype)
    return {"sums": jt.triton_call(x + 1, kernel=smooth_kernel, out_shape=sums, grid=(4,), N=x.size, BLOCK=x.size // 4)}


CASE = Case(name="smoothed_in_place", function=step, args=(Arg(shape=(256,)),))
""",
)

SCALED_IN_PLACE = make_example(
    about="Input and output share bytes, and each program reads what it overwrites, and only that.",
    code="""\
@triton.jit
def scale_kernel(x_ptr, spare_ptr, COLUMNS: tl.constexpr):
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at)
    tl.store(x_ptr + at, x / tl.sum(x * x))


def step(x):
    (scaled,) = call_in_place(x + 1, written=0, kernel=scale_kernel, outputs=(), grid=x.shape[:1], COLUMNS=x.shape[1])
    return {"scaled": scaled}


CASE = Case(name="scaled_in_place", function=step, args=(Arg(shape=(8, 32)),))
""",
)

REVERSED_IN_PLACE = make_example(
    about="Rows are reversed in place: the last rows are read after the first ones were stored over them.",
    code="""\
@triton.jit
def reverse_kernel(x_ptr, spare_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, COLUMNS)
    tl.store(x_ptr + row * COLUMNS + column, tl.load(x_ptr + (ROWS - 1 - row) * COLUMNS + column))


def step(x):
    rows, columns = x.shape
    (backwards,) = call_in_place(
        x + 1, written=0, kernel=reverse_kernel, outputs=(), grid=(rows,), ROWS=rows, COLUMNS=columns
    )
    return {"reversed": backwards}


CASE = Case(name="reversed_in_place", function=step, args=(Arg(shape=(8, 32)),))
""",
)

REVERSED_OUT_OF_PLACE = make_example(
    about="The same kernel with a separate output.",
    code="""\
@triton.jit
def reverse_kernel(x_ptr, out_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, COLUMNS)
    tl.store(out_ptr + row * COLUMNS + column, tl.load(x_ptr + (ROWS - 1 - row) * COLUMNS + column))


def step(x):
    rows, columns = x.shape
    backwards = jt.triton_call(x + 1, kernel=reverse_kernel, out_shape=x, grid=(rows,), ROWS=rows, COLUMNS=columns)
    return {"reversed": backwards}


CASE = Case(name="reversed_out_of_place", function=step, args=(Arg(shape=(8, 32)),))
""",
)

RULE = Rule(
    id="LD011",
    name="incidental-sharing",
    severity=Severity.ERROR,
    leaves_undefined=True,
    party=Party.KERNEL,
    summary="a kernel reads and overwrites the same bytes, and is not safe in place",
    what_it_does="""\
Follows the addresses and masks of every load and store for all programs of the launch's grid. Reports an operand of
which some program reads what another writes, whatever the data: through the operand's own pointer, or through the
pointer of an output or another operand in the same bytes, because an alias is declared or because XLA found the operand
dead.

Replay also runs each kernel on the bytes that XLA gave it. If bytes are shared, it runs the kernel again with the
programs of its grid in another order, all at the same time, and on bytes that are not shared, and compares the results.
An output of the program that differs is never called fresh.""",
    why="""\
The programs of a grid run in any order, many at a time. A program that reads bytes that another has already overwritten
sees a result instead of the input: in an in-place transposition, in a stencil, in a row that is normalised by a sum
which is read later. The buffer assignment decides whether the bytes are shared, so the same kernel is right in one
program and half wrong in another.""",
    what_to_do="""\
Alias an output to an operand only if the kernel reads and overwrites it element by element. Or let each program load
everything that it stores over before it stores, and nothing that other programs store over. If all programs add to the
same bytes, use an atomic addition, or one partial sum per program.""",
    limits="""\
If addresses depend on data (a permutation, rows of a ragged batch), the rule needs a replay, and the finding holds for
the drawn inputs. Replay tries first to last, last to first, and all programs at the same time, operation by operation;
differences up to 1e-5 count as the rounding of atomic additions. A kernel whose programs may wait for each other (an
atomic whose result is used, a loop that memory ends) is never reported without numbers. Bytes that programs only add to
atomically, or only write, are no reason for a finding.

Not found: an output that overlaps an operand partly; sharing inside a fusion, where XLA passes the kernel a slice; and
threads of one program that read what others of the same program wrote. The rule does not ask whether the value read
matters: elements that are loaded and then masked away are reported, and the finding says so if replay sees no
difference.""",
    references=(
        "github.com/NVIDIA/TransformerEngine/pull/2730 (half of the gradients wrong, in the full test suite only)",
        "github.com/NVIDIA/TransformerEngine/pull/2975",
    ),
    reproduced=(
        Reproduction(
            report="NVIDIA/TransformerEngine#2730",
            case="permuted_rows[aliased]",
            reproduced=(
                "a permutation of rows whose input and output share bytes: rows are read after others were stored over them"
            ),
            missing=(
                "why they shared bytes undeclared: in `permuted_rows[out_of_place]` the operand is dead, and "
                "XLA gives the output separate bytes. Neither autotuning nor the dependence on the rest of the test "
                "suite"
            ),
        ),
        Reproduction(
            report="NVIDIA/TransformerEngine#2975",
            case="permuted_rows[out_of_place]",
            reproduced="the same kernel without the dummy buffer that the thread keeps for it: right here",
            missing="a grid for each autotuned configuration, which is what the change adds",
        ),
    ),
    bad=(REVERSED_IN_PLACE, NEIGHBOURS_BEHIND_XLA),
    good=(REVERSED_OUT_OF_PLACE, SCALED_IN_PLACE),
    check=check,
    measure=measure,
    decided_by=DecidedBy.REPLAY,
)
