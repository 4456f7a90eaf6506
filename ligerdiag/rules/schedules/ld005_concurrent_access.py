"""LD005 concurrent-access: an operation may read the kernel's operand while the kernel overwrites it."""

from collections.abc import Iterator

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.races import Race, RaceKind
from ligerdiag.hlo.module import find_user_line
from ligerdiag.model.findings import Finding, ReadPlace, Severity, SourceLine, Verdict
from ligerdiag.rules.rule import Party, Reproduction, Rule, RuleKind, make_example, report_write
from ligerdiag.rules.wording import describe_write, render_at


def check(context: Context) -> Iterator[Finding]:
    """Yields a finding for each reader that may run while a hidden write overwrites the bytes that it reads."""
    for race in context.concurrency.races:
        write = context.writes[race.write]
        outputs = context.verdicts.outputs
        place = ReadPlace(line=_find_line(context, race))
        kernel = context.optimized_call(write) or race.kernel
        yield report_write(
            context,
            RULE,
            write,
            f"`%{race.reader.name}` may read operand {write.operand} of `{write.kernel}` while the kernel overwrites it",
            remedy="declare the write (`ligerdiag.in_place.call_in_place`): XLA then orders the two or makes a copy",
            outputs=tuple(name for name, one in outputs.items() if any(race.key in c.raced for c in one.causes)),
            instructions=tuple(dict.fromkeys((kernel.name, race.reader.name))),
            evidence=(describe_write(context, write), ("read", _describe_overlap(context, race, place))),
            reader=place,
        )


def _find_line(context: Context, race: Race) -> SourceLine | None:
    """Returns the user's line that reads; for an asynchronous instruction, the line of the operation that it starts."""
    inner = [
        context.optimized.computations[callee].root
        for callee in race.reader.called_computations
        if race.reader.opcode != "fusion"
    ]
    for instruction in (race.reader, *inner):
        found = find_user_line(context.optimized, instruction)
        if found is not None:
            return found
    return None


def _describe_overlap(context: Context, race: Race, place: ReadPlace) -> str:
    """Returns a sentence on why nothing orders the read with the write."""
    times, at, reader = context.logical_times, render_at(place.line), race.reader
    if race.kind is RaceKind.ONE_COMMAND_BUFFER:
        why = "is a command of the same command buffer, and the buffers that the two commands declare do not order them"
        return f"%{reader.name} {why}{at}"
    start, done = race.start or reader, race.done
    what = "it" if race.kind is RaceKind.READER_IN_FLIGHT else "the kernel"
    end = f"{times.get(done.id)} (%{done.name})" if done is not None else "the end of the program"
    head = f"%{reader.name} reads at logical time {times.get(reader.id)}"
    return f"{head}: {what} is in flight from {times.get(start.id)} (%{start.name}) to {end}{at}"


_PROGRAM = """\
def on_each(x, w):
    h = x @ w
{body}
    return sums, everyone.sum(0)


def step(x, w):
    rows, whole = jax.sharding.PartitionSpec("x"), jax.sharding.PartitionSpec()
    run = jax.shard_map(on_each, in_specs=(rows, whole), out_specs=(rows, whole), check_vma=False)
    sums, total = run(x, w)
    return {{"sums": sums, "total": total}}


CASE = Case(
    name="{name}",
    function=step,
    args=(Arg(shape=(16, 16), partition=("x",)), Arg(shape=(16, 32))),
    mesh={{"x": 2}},
)
"""

_BESIDE = """\
    everyone = jax.lax.all_gather(h, "x")  # needs the original h
    sums = sum_and_double(h)"""

GATHERED_BESIDE = make_example(
    about="The all-gather of the original rows is still in flight when the kernel doubles them.",
    code=_PROGRAM.format(name="gathered_beside", body=_BESIDE),
)

_BESIDE_DECLARED = """\
    everyone = jax.lax.all_gather(h, "x")
    _, sums = sum_and_double_declared(h)"""

GATHERED_BESIDE_DECLARED = make_example(
    about="With the write declared, XLA gives the kernel a copy, and the all-gather reads the original.",
    declared=True,
    code=_PROGRAM.format(name="gathered_beside_declared", body=_BESIDE_DECLARED),
)

_AFTER = """\
    doubled, sums = sum_and_double_declared(h)
    everyone = jax.lax.all_gather(doubled, "x")"""

GATHERED_AFTER = make_example(
    about="The all-gather waits for the declared output.",
    declared=True,
    code=_PROGRAM.format(name="gathered_after", body=_AFTER),
)

RULE = Rule(
    id="LD005",
    name="concurrent-access",
    severity=Severity.ERROR,
    kind=RuleKind.RACE,
    party=Party.XLA,
    summary="an operation reads the operand while the kernel overwrites it",
    what_it_does="""\
Reports a hidden write and a reader of the same bytes that nothing orders, not even the schedule:

- the reader is in flight: the kernel runs between the start and the done of an asynchronous collective, copy, fusion or
  call, which has a stream of its own;
- the kernel itself is in flight, and the reader runs in between;
- both are commands of one command buffer (CUDA graph) that XLA orders only by the buffers that the commands declare
  (`xla_gpu_command_buffer_scheduling_mode=CONCURRENT`).

XLA's buffer assignment decides which values share bytes: a reader of other bytes is not reported.""",
    why="""\
XLA believes that the kernel only reads its operand, and two reads may overlap. So the reader sees old elements, new
ones, or some of each, depending on timing; the next run, with another load on the interconnect, may differ. Tests
rarely catch it.""",
    what_to_do="""\
Declare the write, and read the declared output wherever you mean the new value. A reader of the old value then keeps
its own operand, and a reader of the new value waits. A barrier does not help: it orders when operations start, not when
they finish.""",
    limits="""\
An output that depends on such a reader is never fresh. In schedule order, in which an asynchronous operation reads at
its start, the output may be stale or clobbered, and then has that verdict. If it would be right in schedule order, its
verdict is `unknown`, because the hardware does not keep that order. Whatever a device computes for such an output
contradicts no verdict. Replay runs an asynchronous operation at its start, so it cannot show the race.

By default (`LHS`), and with `SERIALIZE`, command buffers keep the order of the schedule except for asynchronous
operations, so there is no race. The flag comes from the compile; for foreign files ligerdiag assumes XLA's default. It
derives the order of the commands from the buffers that they declare, as XLA does: the thunk sequence that XLA prints
names only the nearest dependences.

The rule assumes that a collective's done waits until the other devices have read this device's memory, and that a
kernel which is launched early (programmatic dependent launch) waits before it reads.""",
    references=(
        "github.com/openxla/xla/pull/27412 (concurrent command buffers forgot control dependences)",
        "github.com/openxla/xla/pull/48900 (async operations inside command buffers lost their order)",
        "github.com/ROCm/xla/pull/839 (a command buffer and a collective on two streams)",
        "xla/backends/gpu/runtime/command_executor.cc in github.com/openxla/xla (which commands get an edge)",
    ),
    bad=(GATHERED_BESIDE,),
    good=(GATHERED_BESIDE_DECLARED, GATHERED_AFTER),
    check=check,
    reproduced=(
        Reproduction(
            report="openxla/xla#48900",
            case="in_flight[stacked-hidden]",
            reproduced=(
                "an async operation that the schedule leaves in flight around the kernel: the copy of the logits into a "
                "scan's stack, on a computation stream, with default flags"
            ),
            missing="the order that async operations lose inside a command buffer, which is internal to XLA",
        ),
        Reproduction(
            report="ROCm/xla#839",
            case="in_flight[gathered-hidden]",
            reproduced="a collective on the communication stream, over two devices, while the kernel writes its operand",
            missing="AMD GPUs, and a command buffer as the other side: a call of jax-triton 0.3.1 is never inside one",
        ),
        Reproduction(
            report="openxla/xla#27412",
            case="pallas_cross_entropy[products-hidden]",
            reproduced=(
                "a Pallas kernel inside a command buffer; with the scheduling mode CONCURRENT it and the readers of its "
                "operand are unordered (in a test of the analysis, because a case sets no flags)"
            ),
            missing="control dependences that get lost: XLA keeps them since then",
        ),
    ),
    explains=Verdict.UNKNOWN,
)
