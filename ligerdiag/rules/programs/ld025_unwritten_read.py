"""LD025 unwritten-read: a kernel reads an output before anything is written there, and computes with what it finds."""

from collections.abc import Iterator
from dataclasses import replace

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.dependents import find_dependents, name_reached
from ligerdiag.analysis.unwritten_memory import find_unwritten_memory
from ligerdiag.effects.access import OldRead
from ligerdiag.hlo.custom_calls import ALLOCATES
from ligerdiag.hlo.module import find_user_line
from ligerdiag.hlo.shape import iterate_leaves
from ligerdiag.model.findings import Finding, LaunchNumbers, Severity, SourceLine, UnwrittenRead
from ligerdiag.rules.rule import DecidedBy, Measured, Party, Reproduction, Rule, make_example
from ligerdiag.rules.wording import advise_zeros, render_at

_BROKEN = "LD022"
_HELP = "or store without reading, one partial result a program, and reduce them afterwards"


def check(context: Context) -> Iterator[Finding]:
    """Reports each output that a kernel surely reads before anybody has written it, where something comes of the output."""
    for call, effects in {one.id: (one, found) for one, found in context.calls}.values():
        aliased = set(call.operand_output_aliases.values())
        for output, (leaf, use) in enumerate(zip(iterate_leaves(call.shape), effects.output_uses, strict=False)):
            if use.old_read is None or leaf in aliased:
                continue
            reach = find_dependents(context, context.program, call, [leaf])
            if not reach.is_used and not use.old_read.is_atomic:  # the kernel computes its other outputs with it
                reach = find_dependents(context, context.program, call, iterate_leaves(call.shape))
            if not reach.is_used:
                continue
            yield Finding(
                rule=RULE.id,
                severity=RULE.severity,
                message=_render(effects.kernel, output, is_atomic=use.old_read.is_atomic),
                outputs=name_reached(context, reach),
                source=find_user_line(context.program, call) or use.old_read.line,
                kernel=effects.kernel,
                instructions=(call.name,),
                evidence=(_describe_static(use.old_read, output), _MEMORY),
                help=f"{advise_zeros(call.proto.custom_call_target, (output,))}; {_HELP}",
            )
    for read in find_unwritten_memory(context):
        reach = find_dependents(context, context.program, read.allocation, [()])
        if reach.is_used:
            yield Finding(
                rule=RULE.id,
                severity=RULE.severity,
                message=f"`{read.effects.kernel}` reads its operand {read.operand} where nobody has written before",
                outputs=name_reached(context, reach),
                source=find_user_line(context.program, read.call),
                kernel=read.effects.kernel,
                operand=read.operand,
                instructions=(read.call.name, read.allocation.name),
                evidence=(
                    _describe_allocation(read.allocation.name, find_user_line(context.program, read.allocation)),
                ),
                help=_FILL,
            )


def _describe_allocation(name: str, line: SourceLine | None) -> tuple[str, str]:
    return (
        "memory",
        f"%{name} allocates it{render_at(line)}, and nothing writes it before: it holds whatever stood there",
    )


_FILL = (
    "make the array or the Ref of zeros, `jax.new_ref(jnp.zeros(...))`, or write every element before anything reads it"
)
_MEMORY = ("memory", "no operand aliases the output and the launcher does not zero it: it holds whatever stood there")


def _render(kernel: str, output: int, *, is_atomic: bool) -> str:
    does = "updates its output {} by atomic operations" if is_atomic else "reads its output {}"
    return f"`{kernel}` {does.format(output)} where nobody has written before"


def _describe_static(read: OldRead, output: int) -> tuple[str, str]:
    verb = "updates" if read.is_atomic else "loads"
    return "read", f"whatever the data, a program {verb} what stood in output {output} before{render_at(read.line)}"


def measure(measured: Measured) -> Iterator[Finding]:
    """Adds what replay saw to the static findings, and reports each other output that is read before it is written.

    A read of which no output of the program depends is left out.
    """
    numbers = measured.numbers
    yield from _measure_allocations(measured)
    broken = {name for finding in measured.findings_of(_BROKEN) for name in finding.instructions}
    seen: dict[tuple[str, int], tuple[LaunchNumbers, UnwrittenRead]] = {
        (launch.instruction, read.output): (launch, read)
        for launch in (numbers.launches if numbers is not None else ())
        if launch.instruction not in broken  # what is declared to be an operand, and is not
        for read in launch.old_reads
    }
    for finding in measured.findings_of(RULE.id):
        if finding.help == _FILL:
            continue
        same = next((key for key, found in seen.items() if _is_same(finding, *found)), None)
        yield finding if same is None else _add(finding, *seen.pop(same))
    for launch, read in seen.values():
        if launch.reached_by_garbage == ():
            continue
        yield Finding(
            rule=RULE.id,
            severity=RULE.severity,
            message=_render(launch.kernel, read.output, is_atomic=read.is_atomic),
            outputs=launch.reached_by_garbage or (),
            source=launch.line or read.line,
            kernel=launch.kernel,
            instructions=(launch.instruction,),
            evidence=(_describe_replay(launch, read), _MEMORY),
            help=f"let the launcher zero it, or alias it to a Ref or operand that holds zeros; {_HELP}",
        )


def _measure_allocations(measured: Measured) -> Iterator[Finding]:
    """The findings on memory that the program allocates, and one for each other that outputs depend on."""
    known = [finding for finding in measured.findings_of(RULE.id) if finding.help == _FILL]
    yield from known
    names = {name for finding in known for name in finding.instructions}
    for launch in measured.numbers.launches if measured.numbers is not None else ():
        if launch.kernel != ALLOCATES or not launch.reached_by_garbage or launch.instruction in names:
            continue
        yield Finding(
            rule=RULE.id,
            severity=RULE.severity,
            message="the program reads memory that nobody has written",
            outputs=launch.reached_by_garbage,
            source=launch.line,
            instructions=(launch.instruction,),
            evidence=(
                _describe_allocation(launch.instruction, launch.line),
                ("replay", "with other bytes there these outputs differ"),
            ),
            help=_FILL,
        )


def _is_same(finding: Finding, launch: LaunchNumbers, read: UnwrittenRead) -> bool:
    is_same_line = finding.source is None or launch.line is None or _place(finding.source) == _place(launch.line)
    return finding.kernel == launch.kernel and f" its output {read.output} " in finding.message and is_same_line


def _place(line: SourceLine) -> tuple[str, int]:
    return line.file, line.line


def _add(finding: Finding, launch: LaunchNumbers, read: UnwrittenRead) -> Finding:
    evidence = [*finding.evidence, _describe_replay(launch, read)]
    if launch.reached_by_garbage == ():
        evidence.append(("counts", "on the inputs drawn no output depends on it: what is read may not count"))
    return replace(finding, evidence=tuple(evidence))


def _describe_replay(launch: LaunchNumbers, read: UnwrittenRead) -> tuple[str, str]:
    verb = "updates" if read.is_atomic else "loads"
    return (
        "replay",
        f"program {read.program} of %{launch.instruction} is the first that {verb} such bytes, from byte {read.first_byte}"
        f"{render_at(read.line)}; {read.bytes} of {read.size} bytes in all",
    )


_SUM = """\
@triton.jit
def total_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr, tl.sum(tl.load(x_ptr + at)))


"""

SUM_ONTO_ANYTHING = make_example(
    about="Every program adds its part to an output that nobody has set to zero.",
    code=_SUM
    + """\
def step(x):
    cell = jax.ShapeDtypeStruct((1,), x.dtype)
    return {"total": jt.triton_call(x, kernel=total_kernel, out_shape=cell, grid=(8,), BLOCK=x.size // 8)}


CASE = Case(name="sum_onto_anything", function=step, args=(Arg(shape=(256,)),))
""",
)

ACCUMULATED = make_example(
    about="One program adds block after block to its output, beginning with what it finds there.",
    code="""\
@triton.jit
def accumulate_kernel(x_ptr, out_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    columns = tl.arange(0, COLUMNS)
    for row in range(ROWS):
        total = tl.load(out_ptr + columns) + tl.load(x_ptr + row * COLUMNS + columns)
        tl.store(out_ptr + columns, total)


def step(x):
    rows, columns = x.shape
    sums = jax.ShapeDtypeStruct((columns,), x.dtype)
    return {"sums": jt.triton_call(x, kernel=accumulate_kernel, out_shape=sums, grid=(1,), ROWS=rows, COLUMNS=columns)}


CASE = Case(name="accumulated", function=step, args=(Arg(shape=(8, 32)),))
""",
)

SUM_ONTO_ZERO = make_example(
    about="The launcher sets the output to zero before the kernel runs.",
    code=_SUM
    + """\
def step(x):
    cell = jax.ShapeDtypeStruct((1,), x.dtype)
    total = jt.triton_call(x, kernel=total_kernel, out_shape=cell, zeroed_outputs=(0,), grid=(8,), BLOCK=x.size // 8)
    return {"total": total}


CASE = Case(name="sum_onto_zero", function=step, args=(Arg(shape=(256,)),))
""",
)

WRITTEN_FIRST = make_example(
    about="The program stores zeros, and reads back what it has stored.",
    code="""\
@triton.jit
def accumulate_kernel(x_ptr, out_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    columns = tl.arange(0, COLUMNS)
    tl.store(out_ptr + columns, tl.zeros((COLUMNS,), tl.float32))
    for row in range(ROWS):
        total = tl.load(out_ptr + columns) + tl.load(x_ptr + row * COLUMNS + columns)
        tl.store(out_ptr + columns, total)


def step(x):
    rows, columns = x.shape
    sums = jax.ShapeDtypeStruct((columns,), x.dtype)
    return {"sums": jt.triton_call(x, kernel=accumulate_kernel, out_shape=sums, grid=(1,), ROWS=rows, COLUMNS=columns)}


CASE = Case(name="written_first", function=step, args=(Arg(shape=(8, 32)),))
""",
)

RULE = Rule(
    id="LD025",
    name="unwritten-read",
    severity=Severity.ERROR,
    leaves_undefined=True,
    party=Party.KERNEL,
    summary="a kernel reads an output that nobody has written",
    what_it_does="""\
Follows the addresses and masks of every load, store and atomic operation for all programs of the launch's grid. It reports
an output of which some program reads bytes that no program can have written by then; an atomic addition, maximum or
compare-and-swap reads what it updates. An output that is aliased to an operand or a Ref holds that one's values, and one
that the launcher zeroes holds zeros: neither is reported. Memory that the program itself allocates and that nobody has
written (`jax.lax.empty`, `jax.empty_ref`) holds nothing, and a kernel that reads it is reported. Replay notes every such
read, too, also where addresses depend on data. It runs the launch from the first program to the last and from the last to
the first, and reports what is read unwritten in both; it runs the schedule with other bytes in memory that the program
allocates, and reports what makes an output differ. No output of the program that depends on it is called fresh.""",
    why="""\
An output of a custom call is memory that holds anything: zeros in a fresh process, an activation of the step before in a
training run. Everything that is added to it is added to that. A test that runs once passes by luck, and the second call is
wrong, or the first one in a process that has used the memory before.""",
    what_to_do="""\
With jax-triton before 0.4 let the launcher zero the output: `zeroed_outputs=(0,)`. Since 0.4 that is deprecated: pass
`jax.new_ref(jnp.zeros(...))` and read the Ref after the call. With Pallas alias the output to an operand of zeros,
`input_output_aliases={1: 0}`. Or store without reading: one partial result a program, reduced afterwards.""",
    limits="""\
Where an address or a branch depends on data it needs a replay, and holds for the inputs drawn; without one, what depends
on such an output is unknown, and the report says so. An output that only atomic
operations reach is reported wherever they go: what they miss is as unwritten as what they find. Where one program writes
without reading what another one reads, the order of the two decides: that is LD019's. Whether what is read counts is not
asked of the static finding: it says so where the replay's outputs do not depend on it.""",
    references=(
        "github.com/jax-ml/jax/pull/18574, github.com/jax-ml/jax/pull/19399, github.com/jax-ml/jax/issues/24117",
        "github.com/triton-lang/triton/issues/3755, github.com/triton-lang/triton/issues/3004",
        "github.com/ByteDance-Seed/Triton-distributed/issues/182",
    ),
    bad=(SUM_ONTO_ANYTHING, ACCUMULATED),
    good=(SUM_ONTO_ZERO, WRITTEN_FIRST),
    check=check,
    measure=measure,
    decided_by=DecidedBy.SCHEDULE,
    reproduced=(
        Reproduction(
            report="jax-ml/jax#24117",
            case="",
            reproduced="nothing of the report's own; Pallas' atomic additions onto an output without an alias are found",
            missing="the report's kernel, and what stood in the memory on its author's machine",
        ),
        Reproduction(
            report="triton-lang/triton#3755",
            case="",
            reproduced="nothing in PyTorch; a split-K product by jax-triton that adds to an output nobody zeroes is found",
            missing="PyTorch, and the numbers: a GPU's memory holds something else each time",
        ),
    ),
)
