"""LD019 order-dependent-grid: programs of one grid access the same bytes, and the result depends on the order in which
they run.
"""

from collections.abc import Iterator
from dataclasses import replace

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.dependents import find_dependents, name_reached
from ligerdiag.analysis.evaluation.memory_uses import find_shared_buffers
from ligerdiag.effects.access import Neighbours
from ligerdiag.hlo.module import find_user_line
from ligerdiag.hlo.shape import iterate_leaves
from ligerdiag.model.findings import Finding, LaunchNumbers, OrderTried, Severity
from ligerdiag.rules.rule import ALIASED, DecidedBy, Measured, Party, Rule, make_example, render_error
from ligerdiag.rules.wording import LOST, UPDATE_HELP, describe_equal_results, describe_meeting

ROUNDING = 1e-5
"""Relative difference that the order of additions in f32 may cause; another order of writes differs by more, because it
changes whole elements.
"""

HELP = (
    "let no program of the grid access bytes that another one writes, except by atomics that commute; a second launch sees"
    " all writes of the first"
)
TICKET_HELP = (
    "derive the place of a result from the program's number or a prefix sum of counts, or sort the results afterwards: an"
    " atomic counter hands out places in order of arrival"
)


def check(context: Context) -> Iterator[Finding]:
    """Yields a finding for each output of a kernel on which two programs of the grid race.

    One program surely reads bytes that the other one surely writes. Outputs that share bytes with an operand are left out
    (LD011).
    """
    for call, effects in context.optimized_calls:
        count = len(call.operands)
        shared = {pair.buffer for pair in find_shared_buffers(call, context.positions)}
        for output, leaf in enumerate(iterate_leaves(call.shape)):
            buffer = count + output
            pair = effects.get_in_place(buffer, buffer)
            if buffer in shared or pair is None or pair.neighbours is not Neighbours.SHARED:
                continue
            reach = find_dependents(context, context.optimized, call, [leaf])
            if not reach.is_used:
                continue
            grid = " x ".join(map(str, effects.grid))
            reads = "loads, changes and stores" if pair.is_update else "reads"
            evidence = [
                (
                    "kernel",
                    f"in grid {grid}, one program {reads} bytes of output {output} that another writes, whatever the data",
                )
            ]
            if pair.is_update:
                evidence.append(("order", LOST))
            yield Finding(
                rule=RULE.id,
                severity=RULE.severity,
                message=_render(effects.kernel, output if pair.is_update else None),
                outputs=name_reached(context, reach),
                source=pair.line or find_user_line(context.optimized, call),
                kernel=effects.kernel,
                instructions=(call.name,),
                evidence=tuple(evidence),
                help=UPDATE_HELP if pair.is_update else HELP,
            )
            break


def _render(kernel: str, output: int | None) -> str:
    if output is not None:
        return f"`{kernel}` loses updates of its output {output}: its programs load, change and store the same bytes"
    return f"the result of `{kernel}` depends on the order in which the programs of its grid run"


def measure(measured: Measured) -> Iterator[Finding]:
    """Yields the findings of `check` with measurements from a replay added.

    Also yields a finding for each call if only the replay shows that its results depend on the order. An output of the
    program must depend on the difference. This rule uses `LaunchNumbers.order_difference`. Differences through an operand
    that is overwritten, or shares bytes with an output, are in `LaunchNumbers.racing` instead, and LD011 reports them.
    """
    numbers = measured.numbers
    launches = {one.instruction: one for one in (numbers.launches if numbers is not None else ())}
    static = {next(iter(finding.instructions), ""): finding for finding in measured.findings_of(RULE.id)}
    for name, finding in static.items():
        launch = launches.get(name)
        if launch is not None and launch.order_difference > ROUNDING:
            outputs = finding.outputs if launch.reached_by_order is None else launch.reached_by_order
            evidence = (*finding.evidence, *describe_meeting(launch), _describe_difference(launch))
            yield replace(finding, outputs=outputs, evidence=evidence)
        elif launch is not None and launch.checked:
            yield replace(finding, outputs=(), evidence=(*finding.evidence, describe_equal_results(launch)))
        else:
            yield finding
    for launch in launches.values():
        if launch.order_difference > ROUNDING and launch.instruction not in static and launch.reached_by_order != ():
            yield _report(launch)


def _report(launch: LaunchNumbers) -> Finding:
    first = next(iter(launch.meetings), None)
    is_update = launch.order_tried is OrderTried.TOGETHER
    output = first.buffer - launch.operands if first is not None and is_update else None
    advice = HELP
    if first is not None and first.are_atomic:
        advice = TICKET_HELP
    return Finding(
        rule=RULE.id,
        severity=RULE.severity,
        message=_render(launch.kernel, output if output is not None and output >= 0 else None),
        outputs=launch.reached_by_order or (),
        source=(first.line if first is not None else None) or launch.line,
        kernel=launch.kernel,
        instructions=(launch.instruction,),
        evidence=(*describe_meeting(launch), _describe_difference(launch)),
        help=UPDATE_HELP if is_update else advice,
    )


def _describe_difference(launch: LaunchNumbers) -> tuple[str, str]:
    when = {
        OrderTried.TOGETHER: "at the same time",
        OrderTried.CROSSED: "at the same time, with the first one storing last",
    }.get(launch.order_tried, "from the last to the first")
    how = f"by {render_error(launch.order_difference)} when its programs run {when}"
    return "replay", f"the results of %{launch.instruction} differ {how}"


NEIGHBOURS_ROW = make_example(
    about="A running sum over rows: each program adds its row to what the previous program stored.",
    code="""\
@triton.jit
def running_kernel(x_ptr, out_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, COLUMNS)
    above = tl.load(out_ptr + (row - 1) * COLUMNS + columns, mask=row > 0, other=0.0)
    tl.store(out_ptr + row * COLUMNS + columns, above + tl.load(x_ptr + row * COLUMNS + columns))


def step(x):
    sums = jt.triton_call(x, kernel=running_kernel, out_shape=x, grid=x.shape[:1], COLUMNS=x.shape[1])
    return {"sums": sums}


CASE = Case(name="running_sum", function=step, args=(Arg(shape=(8, 32)),))
""",
)

SAME_ROW = make_example(
    about="Every program stores its row's sum to the same element.",
    code="""\
@triton.jit
def last_kernel(x_ptr, out_ptr, COLUMNS: tl.constexpr):
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    tl.store(out_ptr, tl.sum(tl.load(x_ptr + at)))


def step(x):
    total = jax.ShapeDtypeStruct((1,), x.dtype)
    return {"total": jt.triton_call(x, kernel=last_kernel, out_shape=total, grid=x.shape[:1], COLUMNS=x.shape[1])}


CASE = Case(name="last_wins", function=step, args=(Arg(shape=(8, 32)),))
""",
)

LOST_SUMS = make_example(
    about="Every program loads the sum, adds its row's, and stores it: if two run at the same time, one is lost.",
    code="""\
@triton.jit
def total_kernel(x_ptr, out_ptr, COLUMNS: tl.constexpr):
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    tl.store(out_ptr, tl.load(out_ptr) + tl.sum(tl.load(x_ptr + at)))


def step(x):
    total = jax.ShapeDtypeStruct((1,), x.dtype)
    sums = jt.triton_call(
        x, kernel=total_kernel, out_shape=total, zeroed_outputs=(0,), grid=x.shape[:1], COLUMNS=x.shape[1]
    )
    return {"total": sums}


CASE = Case(name="lost_sums", function=step, args=(Arg(shape=(8, 32)),))
""",
)

TICKETS = make_example(
    about="An atomic counter says where each program stores its row; the GPU decides which comes first.",
    code="""\
@triton.jit
def ticket_kernel(x_ptr, count_ptr, out_ptr, COLUMNS: tl.constexpr):
    columns = tl.arange(0, COLUMNS)
    place = tl.atomic_add(count_ptr, 1)
    tl.store(out_ptr + place * COLUMNS + columns, tl.load(x_ptr + tl.program_id(0) * COLUMNS + columns))


def step(x):
    outputs = (jax.ShapeDtypeStruct((1,), jnp.int32), x)
    count, rows = jt.triton_call(
        x, kernel=ticket_kernel, out_shape=outputs, zeroed_outputs=(0,), grid=x.shape[:1], COLUMNS=x.shape[1]
    )
    return {"count": count, "rows": rows}


CASE = Case(name="tickets", function=step, args=(Arg(shape=(8, 32)),))
""",
)

ROWS_IN_A_LOOP = make_example(
    about="One program walks down the rows of its block of columns, and reads again only what it wrote itself.",
    code="""\
@triton.jit
def running_kernel(x_ptr, out_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(ROWS):
        total += tl.load(x_ptr + row * COLUMNS + columns)
        tl.store(out_ptr + row * COLUMNS + columns, total)


def step(x):
    rows, columns = x.shape
    sums = jt.triton_call(
        x, kernel=running_kernel, out_shape=x, grid=(columns // 16,), ROWS=rows, COLUMNS=columns, BLOCK=16
    )
    return {"sums": sums}


CASE = Case(name="rows_in_a_loop", function=step, args=(Arg(shape=(8, 32)),))
""",
)


RULE = Rule(
    id="LD019",
    name="order-dependent-grid",
    severity=Severity.ERROR,
    leaves_undefined=True,
    party=Party.KERNEL,
    summary="the result of a kernel depends on the order in which the programs of its grid run",
    what_it_does="""\
Replay records the bytes that each program of a launch reads and writes. If one program writes what another reads or
writes, replay runs the programs one by one, from the first to the last and from the last to the first. It does the same
if several programs meet in atomic operations whose order shows: the returned value is used, for instance as a place in
a list, or the last operation wins. If both orders agree and one program reads what another writes, replay runs all
programs at the same time, operation by operation: two programs that load, add and store lose one of the two sums. If
two programs write the same bytes, replay does so once more, and the program that came first stores last: it may have
drawn its ticket first and be late. If the kernel's result and an output of the program differ, the rule reports two
programs that meet and their lines in the kernel. Programs that meet in an operand that is overwritten in place are
reported by LD011; if they also meet elsewhere, and something outside that operand differs, both rules report it.

Without numbers, the rule follows the addresses of all programs of the launch: it reports an output of which one program
surely reads what another surely writes, unless atomic operations may make one wait for the other. An output of the
program that differs is never called fresh.""",
    why="""\
A GPU starts the programs of a grid in no promised order, and many at once. On one GPU the result is nearly always that
of the first order; with more programs, beside another kernel or on the next GPU it is a different one.""",
    what_to_do="""\
Let each program write only what no other program touches. If a program needs the result of another, launch a second
kernel, loop within one program, or combine results by atomics that commute. If programs add to one place, use an atomic
addition, or store one partial sum per program. Derive the place of a result from the program's number or from a prefix
sum of counts: a counter hands out places in order of arrival.""",
    limits="""\
The finding holds for the drawn inputs and for the first two launches of each call. Replay tries four orders, and misses
a difference that only a fifth one shows. Programs that wait for each other, as at a lock, do not run at the same time.
Sums by atomic operations may differ by rounding, which does not count. The rule does not look inside a program: its
threads, and a missing `tl.debug_barrier` between them, cannot be seen in Triton IR on numbers. A kernel that waits for
another program of its grid is not replayed, and the report says so.""",
    references=(
        "github.com/triton-lang/triton/issues/7402 (places from an atomic counter)",
        "github.com/triton-lang/triton/issues/558, github.com/pytorch/helion/pull/2615 (sums by load and store)",
        "docs.nvidia.com/cuda/cuda-c-programming-guide: thread blocks are required to execute independently",
        "docs/adr/0013-triton-ir-on-numbers.md",
    ),
    bad=(NEIGHBOURS_ROW, SAME_ROW, LOST_SUMS, TICKETS),
    good=(ROWS_IN_A_LOOP, ALIASED),
    check=check,
    measure=measure,
    decided_by=DecidedBy.REPLAY,
)
