"""LD001 stale-read: a reader that should see the kernel's result reads the same bytes before the kernel runs."""

from collections.abc import Iterator

from ligerdiag.analysis.context import Context
from ligerdiag.model.findings import Finding, Severity, Verdict
from ligerdiag.model.schedule_view import Place
from ligerdiag.rules.rule import Reproduction, Rule, RuleKind, make_example, report_read
from ligerdiag.rules.wording import begin_sentence, find_producer, find_read_operand


def check(context: Context) -> Iterator[Finding]:
    """Yields a finding for each reader that reads the bytes of the kernel's operand too early."""
    for read in context.verdicts.stale:
        operand = find_read_operand(read)
        if read.wrong is None or read.wrong.place is not Place.SAME_BYTES or operand is None:
            continue
        if read.write.output is not None:
            continue  # LD022 reports a declared write that is in other bytes
        value = find_producer(operand).name
        who = begin_sentence(read.outputs, "is", "are")
        message = f"{who} computed from `%{value}` before `{read.write.kernel}` overwrites it"
        time = context.logical_times.get(read.reader.id)
        sentence = f"%{read.reader.name} reads %{value} at logical time {time}, before the write"
        yield report_read(context, RULE, read, message, sentence)


SCANNED_GRADIENT = make_example(
    about="XLA runs the product that should see the doubled rows before the kernel that doubles them.",
    code="""\
def step(chunks, w):
    def body(total, x):
        h = x @ w
        sums = sum_and_double(h)
        return total + sums.sum(), h @ w.T  # h is meant to be doubled by now

    total, back = jax.lax.scan(body, 0.0, chunks)
    return {"total": total, "back": back}


CASE = Case(name="scanned", function=step, args=(Arg(shape=(4, 8, 16)), Arg(shape=(16, 32))))
""",
)

ALIASED_SCAN = make_example(
    about="The doubled rows are a declared output of the kernel, and the product reads that output.",
    declared=True,
    code="""\
def step(chunks, w):
    def body(total, x):
        h = x @ w
        doubled, sums = sum_and_double_declared(h)
        return total + sums.sum(), doubled @ w.T

    total, back = jax.lax.scan(body, 0.0, chunks)
    return {"total": total, "back": back}


CASE = Case(name="declared_scan", function=step, args=(Arg(shape=(4, 8, 16)), Arg(shape=(16, 32))))
""",
)

RULE = Rule(
    id="LD001",
    name="stale-read",
    severity=Severity.ERROR,
    kind=RuleKind.EARLY_READ,
    summary="a reader that should see the kernel's result reads the same memory before the kernel runs",
    what_it_does="""\
Compares, for every output and every operation, the hidden writes that it depends on: once in the program as written
(program order, each value in storage of its own), once in the schedule that XLA made (schedule order, XLA's buffer
assignment). Reports a reader that has lost its dependence on a write and that reads the very bytes that the kernel
overwrites, but earlier.""",
    why="""\
XLA believes that the kernel only reads its operand. Two readers of one value have no order between them, so the
scheduler may run the program's own reader first. That reader then sees the old contents: raw logits instead of their
gradient. The loss is right, nothing raises, and the model trains on wrong gradients.""",
    what_to_do="""\
Tell XLA about the write: make the overwritten operand an output of the call with `ligerdiag.in_place.call_in_place`,
and read that output. The finding's help shows how. A `Ref` does not help in code that `jax.checkpoint` recomputes, or
in a differentiated loop.""",
    limits="""\
The verdict holds for one compiled schedule: one target, one toolchain, one set of flags. A compile that autotunes on a
GPU may pick other GEMMs and hence another order; check the artifact of that compile, too.""",
    references=(
        "github.com/phlippe/liger_kernels (README: gradients computed from logits)",
        "github.com/NVIDIA/warp/issues/745",
        "github.com/flatironinstitute/jaxmg/issues/12",
    ),
    reproduced=(
        Reproduction(
            report="phlippe/liger_kernels (README: the failing table)",
            case="seed_flce[False-float32-True-1-4-32-16]",
            reproduced=(
                "the failing rows as cases under the same ids; gradients computed from the logits, in the schedule, "
                "in replay and on H200s"
            ),
            missing=(
                "the table itself, made in late 2024 with JAX 0.4.34: with today's toolchain more rows fail than the "
                "four published"
            ),
        ),
        Reproduction(
            report="linkedin/Liger-Kernel#272",
            case="saved_residual[softmax-loss-hidden]",
            reproduced="softmax, then the cross entropy that overwrites its result: the gradient is stale (LD002)",
            missing=(
                "PyTorch, where the saved tensor itself is overwritten; JAX's softmax saves none, and XLA recomputes it"
            ),
        ),
        Reproduction(
            report="NVIDIA/warp#745",
            case="accumulated_sum[twice-hidden]",
            reproduced=(
                "the second call does not build on the result of the first: stale (LD002), because XLA merges the two "
                "calls (LD008)"
            ),
            missing=(
                "Warp and the FFI: the kernel here is Triton's; also, in the bug report nothing reads before the kernel "
                "writes"
            ),
        ),
        Reproduction(
            report="flatironinstitute/jaxmg#12 (fixes #11)",
            case="undonated_parameter[kept-hidden]",
            reproduced=(
                "a call overwrites an argument that it declares to read (LD009), and the cure, an alias: "
                "`undonated_parameter[kept-aliased]`"
            ),
            missing="cuSOLVERMg, several GPUs and shard_map; also, in the bug report nothing reads before the kernel writes",
        ),
    ),
    bad=(SCANNED_GRADIENT,),
    good=(ALIASED_SCAN,),
    check=check,
    explains=Verdict.STALE,
)
