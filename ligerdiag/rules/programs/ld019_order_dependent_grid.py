"""LD019 order-dependent-grid: programs of one grid touch each other's bytes, and their order makes the result."""

from collections.abc import Iterator

from ligerdiag.model.findings import Finding, LaunchNumbers, ProgramMeeting, Severity
from ligerdiag.rules.rule import ALIASED, KERNEL, Example, Measured, Party, Rule, Settled, check_nothing, render_error
from ligerdiag.rules.wording import name_buffer, render_at
from ligerdiag.text import count_of

ROUNDING = 1e-5
"""Relative difference that the order of additions in f32 may make; another order of writes moves whole elements."""


def measure(measured: Measured) -> Iterator[Finding]:
    """One finding for each call whose results differ from the last program to the first.

    What LD011 says is not in `order_difference`.
    """
    numbers = measured.numbers
    for launch in numbers.launches if numbers is not None else ():
        if launch.order_difference <= ROUNDING:
            continue
        first = next(iter(launch.meetings), None)
        yield Finding(
            rule=RULE.id,
            severity=RULE.severity,
            message=f"what `{launch.kernel}` computes hangs on the order in which the programs of its grid run",
            source=first.line if first is not None else None,
            kernel=launch.kernel,
            instructions=(launch.instruction,),
            evidence=(*_describe(launch, first), _describe_difference(launch)),
            help="let no program touch what another one writes, but by atomics that commute; a second launch sees all of it",
        )


def _describe(launch: LaunchNumbers, meeting: ProgramMeeting | None) -> Iterator[tuple[str, str]]:
    if meeting is None:
        return
    buffer = name_buffer(launch, meeting.buffer)
    yield (
        "write",
        f"program {meeting.writer} writes {count_of(meeting.bytes, 'byte')} of {buffer} of %{launch.instruction}, from byte"
        f" {meeting.first_byte}{render_at(meeting.line)}",
    )
    verb = "writes" if meeting.other_writes else "reads"
    yield "meets", f"program {meeting.other} {verb} them, too{render_at(meeting.other_line)}"


def _describe_difference(launch: LaunchNumbers) -> tuple[str, str]:
    return (
        "replay",
        f"the results of %{launch.instruction} differ by {render_error(launch.order_difference)} when its programs run from"
        " the last to the first",
    )


NEIGHBOURS_ROW = Example(
    about="A running sum over rows: each program adds its row to what the program before it has stored.",
    code=KERNEL
    + """\
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

SAME_ROW = Example(
    about="Every program stores its row's sum to one and the same element.",
    code=KERNEL
    + """\
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

ROWS_IN_A_LOOP = Example(
    about="One program walks down the rows of its block of columns: what it reads again, it has written itself.",
    code=KERNEL
    + """\
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
    party=Party.KERNEL,
    summary="a kernel whose result hangs on the order of the programs of its grid",
    what_it_does="""\
Replay notes the bytes that each program of a launch reads and writes. Where one program writes what another one reads or
writes, atomic operations against each other aside, the programs run one by one, from the first to the last and from the
last to the first. A result that differs is reported, with two programs that meet and the lines of the kernel where they
do. Where programs meet in an operand that is overwritten in place, that is LD011's; where they meet elsewhere, too, and
what is not in that operand differs, both are reported.""",
    why="""\
A GPU starts the programs of a grid in no order that anybody promises, and many at once. On one GPU the result is the one
of the first order nearly always; with more programs, beside another kernel or on the next GPU it is another one.""",
    what_to_do="""\
Let each program write only what no other one touches. Where one needs another one's result, launch a second kernel, walk
in a loop within one program, or combine by atomics that commute.""",
    limits="""\
Holds for the inputs drawn, and for the first two launches of each call. Two orders are tried: what differs only in a third
one, or only as programs run at the same time, is not seen. Within a program nothing is looked for: the threads of one
program, and a missing `tl.debug_barrier` between them, are out of reach of the Triton IR on numbers. A kernel that waits
for another program of its grid is not replayed, and the report says so.""",
    references=(
        "docs.nvidia.com/cuda/cuda-c-programming-guide: thread blocks are required to execute independently",
        "docs/adr/0013-triton-ir-on-numbers.md",
    ),
    bad=(NEIGHBOURS_ROW, SAME_ROW),
    good=(ROWS_IN_A_LOOP, ALIASED),
    check=check_nothing,
    measure=measure,
    settled=Settled.BY_REPLAY,
)
