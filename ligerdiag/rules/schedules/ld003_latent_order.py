"""LD003 latent-order: a read gets the intended version in this schedule, but nothing forces its order with the kernel."""

from collections.abc import Iterator

from ligerdiag.analysis.context import Context
from ligerdiag.model.findings import Finding, Severity, Verdict
from ligerdiag.rules.rule import ALIASED, Reproduction, Rule, RuleKind, make_example, report_read
from ligerdiag.rules.wording import begin_sentence, describe_keeping_remedy, name_call


def check(context: Context) -> Iterator[Finding]:
    """Yields a finding for each read that is right only by luck and on which a latent output depends."""
    for read in context.verdicts.latent:
        names = tuple(name for name in read.outputs if context.verdicts.outputs[name].verdict is Verdict.LATENT)
        if read.lucky is None or not names:
            continue  # an output that is wrong for another reason is not right by luck
        side = "after" if read.lucky.after else "before"
        who, reader = begin_sentence(names, "is", "are"), read.reader
        call, place = name_call(context, read.write)
        message = f"{who} right only because `%{reader.name}` happens to run {side} {call}"
        time = context.logical_times.get(reader.id)
        sentence = f"%{reader.name} reads at logical time {time}, {side} the write"
        sentence += "" if call == f"`{read.write.kernel}`" else f" by {call}{place}"
        sentence += "; no data or control dependence orders the two"
        needs_old = not read.lucky.after
        remedy = describe_keeping_remedy(context, read.write) if needs_old else ""
        yield report_read(context, RULE, read, message, sentence, remedy=remedy, outputs=names, needs_old=needs_old)


LUCKY_READER = make_example(
    about="The reduction happens to be scheduled after the kernel; no edge forces that.",
    code="""\
def step(x, w):
    h = x @ w
    sums = sum_and_double(h)
    return {"sums": sums, "columns": h.sum(0)}


CASE = Case(name="lucky", function=step, args=(Arg(shape=(8, 16)), Arg(shape=(16, 32))))
""",
)

MERGED_TWIN = make_example(
    about="XLA computes the product once. The second reader needs the original: it runs first by luck, or is clobbered.",
    code="""\
def step(x, w):
    h = x @ w
    sums = sum_and_double(h)
    return {"sum": sums.sum() + (x @ w).sum()}


CASE = Case(name="merged_sums", function=step, args=(Arg(shape=(8, 16)), Arg(shape=(16, 32))))
""",
)

RULE = Rule(
    id="LD003",
    name="latent-order",
    severity=Severity.WARNING,
    kind=RuleKind.LUCKY_READ,
    summary="an output is right today, but only because of how the schedule happens to be ordered",
    what_it_does="""\
Reports a reader that sees a hidden write as intended (or, if it needs the original, does not yet see it), although no
path of data or control edges between the kernel call and the reader forces that order. The reader need not use the
overwritten value under the author's name: if the author computes the same value twice, XLA computes it once, and the
kernel overwrites both. No output that depends on such a read is fresh.""",
    why="""\
The next XLA, another flag, another GPU or an autotuned GEMM may reverse the order. Tests that pass on the A100 in the
lab fail on the H100 in the cluster.""",
    what_to_do="""\
As for LD001: make the overwritten operand an output of the call and read that output. A reader that needs the original
continues with the operand, which XLA then keeps for it.""",
    limits="""\
The rule does not say how likely another order is. `ligerdiag check --orders 20` replays the schedule in twenty other
orders of the same instructions, and says which outputs change. An output that depends on the read is called latent even
if its value is the same in either order, for instance because the read is multiplied by zero.""",
    references=('github.com/phlippe/liger_kernels (README: "seems to be by chance")',),
    reproduced=(
        Reproduction(
            report='phlippe/liger_kernels (README: "seems to be by chance")',
            case="seed_flce[False-float32-True-1-4-32-16]",
            reproduced="besides stale gradients one, `weight`, that is right in this schedule although nothing forces it",
            missing="the schedule of the author's GPU",
        ),
    ),
    bad=(LUCKY_READER, MERGED_TWIN),
    good=(ALIASED,),
    check=check,
    explains=Verdict.LATENT,
)
