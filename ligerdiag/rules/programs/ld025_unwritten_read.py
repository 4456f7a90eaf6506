"""LD025 unwritten-read: a kernel reads an output before anything has been written there, and uses the arbitrary contents."""

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
_HELP = "or store one partial result per program without reading, and reduce them afterwards"


def check(context: Context) -> Iterator[Finding]:
    """Yields a finding for each output and each unwritten operand that a kernel surely reads before anything writes
    there.

    It yields none if no output of the program can depend on the read.
    """
    for call, effects in {one.id: (one, found) for one, found in context.calls}.values():
        aliased = set(call.operand_output_aliases.values())
        for output, (leaf, use) in enumerate(zip(iterate_leaves(call.shape), effects.output_uses, strict=False)):
            if use.old_read is None or leaf in aliased:
                continue
            reach = find_dependents(context, context.program, call, [leaf])
            if (
                not reach.is_used and not use.old_read.is_atomic
            ):  # the kernel may use what it reads for its other outputs
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
                message=f"`{read.effects.kernel}` reads its operand {read.operand} before anything is written there",
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
        f"%{name} allocates it{render_at(line)}, and nothing writes it first: it holds whatever was in that memory",
    )


_FILL = "fill the array or the Ref with zeros, `jax.new_ref(jnp.zeros(...))`, or write every element before any read"
_MEMORY = (
    "memory",
    "no operand aliases the output and the launcher does not zero it: it holds whatever was in that memory",
)


def _render(kernel: str, output: int, *, is_atomic: bool) -> str:
    does = "updates its output {} by atomic operations" if is_atomic else "reads its output {}"
    return f"`{kernel}` {does.format(output)} before anything is written there"


def _describe_static(read: OldRead, output: int) -> tuple[str, str]:
    verb = "updates" if read.is_atomic else "loads"
    return (
        "read",
        f"whatever the data, a grid program {verb} the previous contents of output {output}{render_at(read.line)}",
    )


def measure(measured: Measured) -> Iterator[Finding]:
    """Yields the findings of `check` with measurements from a replay added.

    Also yields a finding if only the replay shows that a kernel reads an output before it is written. A read on which no
    output of the program depends has no finding.
    """
    numbers = measured.numbers
    yield from _measure_allocations(measured)
    broken = {name for finding in measured.findings_of(_BROKEN) for name in finding.instructions}
    seen: dict[tuple[str, int], tuple[LaunchNumbers, UnwrittenRead]] = {
        (launch.instruction, read.output): (launch, read)
        for launch in (numbers.launches if numbers is not None else ())
        if launch.instruction not in broken  # LD022 reports an alias that XLA broke
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
    """Yields the findings of `check` about memory that the program allocates and never fills, then one for each
    additional such allocation whose accidental contents change an output of the replay.
    """
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
                ("replay", "these outputs differ if that memory holds other bytes"),
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
        evidence.append(("counts", "on the drawn inputs no output depends on it: the value read may not matter"))
    return replace(finding, evidence=tuple(evidence))


def _describe_replay(launch: LaunchNumbers, read: UnwrittenRead) -> tuple[str, str]:
    verb = "update" if read.is_atomic else "load"
    return (
        "replay",
        f"grid program {read.program} of %{launch.instruction} is the first to {verb} unwritten bytes, starting at byte"
        f" {read.first_byte}{render_at(read.line)}; {read.bytes} of {read.size} bytes in all",
    )


_SUM = """\
@triton.jit
def total_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr, tl.sum(tl.load(x_ptr + at)))


"""

SUM_ONTO_ANYTHING = make_example(
    about="Every program adds its part to an output that nobody has zeroed.",
    code=_SUM
    + """\
def step(x):
    cell = jax.ShapeDtypeStruct((1,), x.dtype)
    return {"total": jt.triton_call(x, kernel=total_kernel, out_shape=cell, grid=(8,), BLOCK=x.size // 8)}


CASE = Case(name="sum_onto_anything", function=step, args=(Arg(shape=(256,)),))
""",
)

_ACCUMULATE = """\
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
"""

ACCUMULATED = make_example(
    about="One program adds block after block to its output, starting from its previous contents.",
    code=_ACCUMULATE,
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
    about="The program stores zeros first, and reads back what it stored.",
    code=_ACCUMULATE.replace(
        "    for row", "    tl.store(out_ptr + columns, tl.zeros((COLUMNS,), tl.float32))\n    for row"
    ).replace("accumulated", "written_first"),
)

RULE = Rule(
    id="LD025",
    name="unwritten-read",
    severity=Severity.ERROR,
    leaves_undefined=True,
    party=Party.KERNEL,
    summary="a kernel reads an output that nobody has written",
    what_it_does="""\
Follows the addresses and masks of every load, store and atomic operation for all programs of the launch's grid. Reports
an output of which some program reads bytes that no program can have written by then; an atomic addition, maximum or
compare-and-swap reads what it updates. An output that aliases an operand or a Ref holds that one's values, and an
output that the launcher zeroes holds zeros: neither is reported. Memory that the program itself allocates and that
nobody has written (`jax.lax.empty`, `jax.empty_ref`) has no contents, and a kernel that reads it is reported. Replay
records every such read, even if addresses depend on data. It runs the launch from the first program to the last and
from the last to the first, and reports reads that find unwritten bytes both times. It also runs the schedule with other
bytes in memory that the program allocates, and reports memory whose contents change an output. An output of the program
that depends on such a read is never called fresh.""",
    why="""\
An output of a custom call is memory with arbitrary contents: zeros in a fresh process, an activation of the previous
step in a training run. The kernel adds its results to that. A test that runs once passes by luck; the second call is
wrong, or the first one in a process that has used the memory before.""",
    what_to_do="""\
With jax-triton before 0.4, let the launcher zero the output: `zeroed_outputs=(0,)`. Version 0.4 deprecates that: pass
`jax.new_ref(jnp.zeros(...))` and read the Ref after the call. With Pallas, alias the output to an operand of zeros,
`input_output_aliases={1: 0}`. Or store without reading: one partial result per program, reduced afterwards.""",
    limits="""\
If an address or a branch depends on data, the rule needs a replay, and the finding holds for the drawn inputs; without
one, what depends on such an output is unknown, and the report says so. An output that only atomic operations reach is
reported wherever they go: the bytes that they miss are as unwritten as those that they find. If one program writes,
without reading, what another reads, their order decides: see LD019. The static finding does not ask whether the value
read matters: it says so if the outputs of a replay do not depend on it.""",
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
            reproduced="nothing of the report itself; atomic additions in Pallas to an output without an alias are found",
            missing="the report's kernel, and the contents of the memory on its author's machine",
        ),
        Reproduction(
            report="triton-lang/triton#3755",
            case="",
            reproduced="nothing in PyTorch; a split-K product in jax-triton onto an output that nobody zeroes is found",
            missing="PyTorch, and the numbers: a GPU's memory has other contents each time",
        ),
    ),
)
