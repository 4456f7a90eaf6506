"""LD005 concurrent-access: something reads the operand while the kernel overwrites it."""

from collections.abc import Iterator

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.races import Race, RaceKind
from ligerdiag.hlo.module import find_user_line
from ligerdiag.model.findings import Finding, ReadPlace, Severity, SourceLine, Verdict
from ligerdiag.rules.rule import Party, Reproduction, Rule, RuleKind, make_example, report_write
from ligerdiag.rules.wording import describe_write, render_at


def check(context: Context) -> Iterator[Finding]:
    """Reports each reader that nothing keeps apart from a hidden write."""
    for race in context.concurrency.races:
        write = context.writes[race.write]
        outputs = context.verdicts.outputs
        place = ReadPlace(line=_find_line(context, race))
        kernel = context.optimized_call(write) or race.kernel
        yield report_write(
            context,
            RULE,
            write,
            f"`%{race.reader.name}` may read what `{write.kernel}` overwrites at the same time",
            remedy="declare the write (`ligerdiag.in_place.call_in_place`): XLA then orders the two, or gives one a copy",
            outputs=tuple(name for name, one in outputs.items() if any(race.key in c.raced for c in one.causes)),
            instructions=tuple(dict.fromkeys((kernel.name, race.reader.name))),
            evidence=(describe_write(context, write), ("read", _describe_overlap(context, race, place))),
            reader=place,
        )


def _find_line(context: Context, race: Race) -> SourceLine | None:
    """The user's line that reads; of what is in flight, that of the operation in it."""
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
    """Says why no order keeps the two apart."""
    times, at, reader = context.logical_times, render_at(place.line), race.reader
    if race.kind is RaceKind.ONE_COMMAND_BUFFER:
        why = "is a command of the same command buffer, and no buffer that the two declare puts one before the other"
        return f"%{reader.name} {why}{at}"
    start, done = race.start or reader, race.done
    what = "it" if race.kind is RaceKind.READER_IN_FLIGHT else "the kernel"
    end = f"done at {times.get(done.id)}, %{done.name}" if done is not None else "not done before the end"
    head = f"%{reader.name} reads at logical time {times.get(reader.id)}"
    return f"{head}: {what} is in flight from {times.get(start.id)}, %{start.name}, and {end}{at}"


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
    everyone = jax.lax.all_gather(h, "x")  # h is meant to be as it was
    sums = sum_and_double(h)"""

GATHERED_BESIDE = make_example(
    about="The gathering of the original rows is still under way when the kernel doubles them.",
    code=_PROGRAM.format(name="gathered_beside", body=_BESIDE),
)

_BESIDE_DECLARED = """\
    everyone = jax.lax.all_gather(h, "x")
    _, sums = sum_and_double_declared(h)"""

GATHERED_BESIDE_DECLARED = make_example(
    about="With the write declared, XLA gives the kernel a copy, and the gathering reads the original.",
    declared=True,
    code=_PROGRAM.format(name="gathered_beside_declared", body=_BESIDE_DECLARED),
)

_AFTER = """\
    doubled, sums = sum_and_double_declared(h)
    everyone = jax.lax.all_gather(doubled, "x")"""

GATHERED_AFTER = make_example(
    about="The gathering waits for the declared output.",
    declared=True,
    code=_PROGRAM.format(name="gathered_after", body=_AFTER),
)

RULE = Rule(
    id="LD005",
    name="concurrent-access",
    severity=Severity.ERROR,
    kind=RuleKind.RACE,
    party=Party.XLA,
    summary="something reads the operand while the kernel overwrites it",
    what_it_does="""\
Reports a hidden write and a reader of the same bytes that no order keeps apart, not even that of the schedule:

- the reader is in flight: between the start and the done of an asynchronous collective, copy, fusion or call, which runs on
  a stream of its own, stands the kernel;
- the kernel is in flight itself, and the reader stands between;
- both are commands of one command buffer (CUDA graph), and XLA runs it in no order but that of the buffers which the
  commands declare (`xla_gpu_command_buffer_scheduling_mode=CONCURRENT`).

Who shares bytes is read off XLA's buffer assignment: what shares none with the overwritten operand is left alone.""",
    why="""\
XLA believes that the kernel only reads its operand, and two reads may overlap. So the reader sees old elements, new ones,
or some of each, as the hardware pleases; the next run, with another load on the interconnect, may differ. Tests rarely
catch it.""",
    what_to_do="""\
Declare the write, and read the declared output where the new value is meant: a reader of the old value then keeps an
operand of its own, and one of the new value waits. A barrier does not help: it orders what is started, not what is in
flight.""",
    limits="""\
An output behind such a reader is never fresh. In the order of the schedule, in which an asynchronous operation reads at its
start, the output may be stale or clobbered; it is called so then. Where that order would make it right its verdict is
`unknown`, for the hardware does not keep it. What a device computes for such an output contradicts no verdict, and replay,
which runs an asynchronous operation at its start, cannot show the race.

By default (`LHS`), and with `SERIALIZE`, command buffers keep the order of the schedule, async operations apart, and are no
race. The flag is taken from the compile; for files from elsewhere XLA's default is assumed. Which commands get an edge is
worked out from the buffers that they declare, as XLA does: the thunk sequence that it prints names only the nearest ones.

Taken for granted: that a collective's done waits for the other devices' reads of this device's memory, and that a kernel
which is launched early (programmatic dependent launch) waits before it reads.""",
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
            missing="the order that async operations lose inside of a command buffer, which is XLA's own matter",
        ),
        Reproduction(
            report="ROCm/xla#839",
            case="in_flight[gathered-hidden]",
            reproduced="a collective on the communication stream, over two devices, while the kernel writes its operand",
            missing="AMD GPUs, and a command buffer as the other side: jax-triton 0.3.1's call is never inside of one",
        ),
        Reproduction(
            report="openxla/xla#27412",
            case="pallas_cross_entropy[products-hidden]",
            reproduced=(
                "a Pallas kernel inside of a command buffer; with the scheduling mode CONCURRENT it and the readers of its "
                "operand are found unordered (in a test of the analysis, for a case sets no flags)"
            ),
            missing="control dependences that get lost: XLA keeps them since",
        ),
    ),
    explains=Verdict.UNKNOWN,
)
