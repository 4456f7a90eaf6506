"""LD016 wrong-in-program-order: the program as written already computes other values than its reference, whatever the
schedule.
"""

from collections.abc import Iterator

from ligerdiag.model.findings import FAR, Finding, Severity
from ligerdiag.rules.programs.ld012_lossy_workaround import HELP, NOTHING_LEFT, find_rounded
from ligerdiag.rules.rule import (
    DecidedBy,
    Measured,
    Reproduction,
    Rule,
    RuleKind,
    check_nothing,
    make_example,
    render_difference,
)
from ligerdiag.rules.wording import begin_sentence, render_at


def measure(measured: Measured) -> Iterator[Finding]:
    """Yields a finding for each output that differs from the reference even if the program runs in program order."""
    numbers = measured.numbers
    if numbers is None:
        return
    rounded = find_rounded(measured)
    gone = tuple(name for name in rounded if numbers.rounded.get(name, 0.0) >= FAR)
    if gone:
        yield Finding(
            rule=RULE.id,
            severity=RULE.severity,
            message=f"{begin_sentence(gone, 'is', 'are')} wrong even if the program runs as written:"
            " a workaround rounds away the value that is read",
            outputs=gone,
            source=measured.find_line(gone),
            evidence=tuple(("replay", rounded[name]) for name in gone),
            help=HELP,
        )
    wrong = {
        name: error
        for name, error in numbers.reference.items()
        if error > numbers.reference_tolerance.get(name, 0.0) and name not in rounded
    }
    if wrong:
        names = tuple(wrong)
        yield Finding(
            rule=RULE.id,
            severity=RULE.severity,
            message=f"{begin_sentence(names, 'is', 'are')} wrong even if the program runs as written:"
            f" {'they differ' if len(names) > 1 else 'it differs'} from the case's reference",
            outputs=names,
            source=measured.find_line(names),
            evidence=tuple(
                _describe_wrong(measured, name, error, is_alone=len(wrong) == 1) for name, error in wrong.items()
            ),
            help="fix the program or its reference; the verdicts compare the schedule with program order. Do you need"
            " the contents that a kernel writes to its operand, or those from before? `ligerdiag.in_place.call_in_place`"
            " returns the new contents, and the operand's own name keeps the old ones",
        )


def _describe_wrong(measured: Measured, name: str, error: float, *, is_alone: bool) -> tuple[str, str]:
    """Returns evidence, a (label, sentence) pair, about an output that differs from the reference. is_alone: whether
    this is the only output that differs; the finding itself then has the output's line.
    """
    tolerance = 0.0 if measured.numbers is None else measured.numbers.reference_tolerance.get(name, 0.0)
    sentence = render_difference(name, error, "the reference", tolerance)
    return "replay", sentence if is_alone else f"{sentence}{render_at(measured.output_lines.get(name))}"


REFERENCE_OF_ANOTHER = make_example(
    about="The author means the rows from before the kernel; as written, the product reads the doubled ones.",
    code="""\
def step(x, w):
    h = x @ w
    sums = sum_and_double(h)
    return {"sums": sums, "back": h @ w.T}


def reference(x, w):
    h = x @ w
    return {"sums": h.sum(1), "back": h @ w.T}


CASE = Case(name="meant_before", function=step, args=(Arg(shape=(8, 16)), Arg(shape=(16, 32))), reference=reference)
""",
)

SAME_AS_REFERENCE = make_example(
    about="With the write declared, `h` keeps its value from before the kernel.",
    declared=True,
    code="""\
def step(x, w):
    h = x @ w
    _, sums = sum_and_double_declared(h)
    return {"sums": sums, "back": h @ w.T}


def reference(x, w):
    h = x @ w
    return {"sums": h.sum(1), "back": h @ w.T}


CASE = Case(name="kept_before", function=step, args=(Arg(shape=(8, 16)), Arg(shape=(16, 32))), reference=reference)
""",
)

RULE = Rule(
    id="LD016",
    name="wrong-in-program-order",
    severity=Severity.ERROR,
    kind=RuleKind.REFERENCE,
    summary="the program as written, run in its own order with every write visible, differs from its reference",
    what_it_does="""\
Replay executes the program as written, one operation after the other, each value in storage of its own and every
kernel's writes visible. If the case gives a reference in plain jnp, the rule compares the two, output by output. An
error that the rounding of a workaround explains is reported by LD012. Without a reference, the rule reports an output
that a workaround rounds away: the same program without the added and subtracted term gives another result, by half of
its norm or more.""",
    why="""\
Every verdict asks whether the schedule does what the program says in its own order. A program can be wrong in that
order: it reads a value after a kernel has overwritten it and means the old one; or it calls a kernel for its effect and
JAX drops the call, so that program order lacks it. Such a schedule is fresh, and the result is wrong.""",
    what_to_do="""\
Have the kernel return what it writes, and use the operand only where you mean its old value.""",
    limits="""\
Needs a replay and, except for values that a workaround rounds away, a reference. Nothing is compared if the reference
itself is not finite. The tolerance follows from the dtypes and the lengths of the program's sums; a reference that
computes something else on purpose is reported.""",
    references=(
        "github.com/linkedin/Liger-Kernel/issues/272 (the PyTorch twin)",
        "github.com/phlippe/liger_kernels (last_layer=False: the cotangent is dropped)",
    ),
    reproduced=(
        Reproduction(
            report="linkedin/Liger-Kernel#272",
            case="loop_carry[descent-hidden]",
            reproduced="the program needs logits and gradient, and both are one array: wrong whatever the schedule",
            missing="PyTorch; the issue's own program is `saved_residual[softmax-loss-hidden]`, which is stale",
        ),
        Reproduction(
            report="phlippe/liger_kernels (last_layer=False)",
            case="dropped_backward[hidden]",
            reproduced="the gradients lack the factor of the cotangent",
            missing="nothing of the code; no numbers were published",
        ),
    ),
    bad=(REFERENCE_OF_ANOTHER, NOTHING_LEFT),
    good=(SAME_AS_REFERENCE,),
    check=check_nothing,
    measure=measure,
    decided_by=DecidedBy.REPLAY,
)
