"""LD016 wrong-in-program-order: the program as written is not what its reference says, whatever the schedule."""

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
from ligerdiag.rules.wording import begin_sentence


def measure(measured: Measured) -> Iterator[Finding]:
    """Reports every output that program order gets wrong."""
    numbers = measured.numbers
    if numbers is None:
        return
    rounded = find_rounded(measured)
    gone = tuple(name for name in rounded if numbers.rounded.get(name, 0.0) >= FAR)
    if gone:
        yield Finding(
            rule=RULE.id,
            severity=RULE.severity,
            message=f"{begin_sentence(gone, 'is', 'are')} wrong in program order already:"
            " a workaround rounds away what it reads",
            outputs=gone,
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
            message=f"{begin_sentence(names, 'is', 'are')} wrong in program order already:"
            " the program is not what the reference says",
            outputs=names,
            evidence=tuple(
                ("replay", render_difference(name, error, "the reference", numbers.reference_tolerance.get(name, 0.0)))
                for name, error in wrong.items()
            ),
            help="mend the program, or its reference; the verdicts compare the schedule with program order",
        )


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
    about="With the write declared, `h` is what it was before the kernel.",
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
    summary="even as written, with every write visible, the program is not what it is meant to be",
    what_it_does="""\
Replay executes the program as written, one operation after the other, each value with storage of its own and every
kernel's writes visible. Where the case gives a reference in plain jnp, the two are compared, output by output. An error
that the rounding of a workaround explains is LD012's. Without a reference, an output is wrong that a workaround rounds
away: the same program without what it adds and subtracts gives another one, by half of its norm and more.""",
    why="""\
Every verdict asks whether the schedule does what the program says in its own order. A program can be wrong in that order:
it reads a value after a kernel has overwritten it and means the value from before; or it calls a kernel for its effect
that JAX has dropped, so that program order itself lacks it. Such a schedule is fresh, and the result is wrong.""",
    what_to_do="""\
Have the kernel return what it writes, and use the operand only where its old value is meant.""",
    limits="""\
Needs a replay, and a reference but for what a workaround rounds away. Where the reference itself is not finite, nothing is
compared. The tolerance follows the dtypes and the lengths of the sums of the program; a reference that computes something
else on purpose is reported.""",
    references=(
        "github.com/linkedin/Liger-Kernel/issues/272 (the PyTorch twin)",
        "github.com/phlippe/liger_kernels (last_layer=False: the cotangent is dropped)",
    ),
    reproduced=(
        Reproduction(
            report="linkedin/Liger-Kernel#272",
            case="loop_carry[descent-hidden]",
            reproduced="logits and gradient are needed, and both are one array: wrong whatever the schedule",
            missing="PyTorch; the issue's own program is `saved_residual[softmax-loss-hidden]`, stale by its schedule",
        ),
        Reproduction(
            report="phlippe/liger_kernels (last_layer=False)",
            case="dropped_backward[hidden]",
            reproduced="the gradients lack the factor of the cotangent",
            missing="nothing that the code says; no number of it was published",
        ),
    ),
    bad=(REFERENCE_OF_ANOTHER, NOTHING_LEFT),
    good=(SAME_AS_REFERENCE,),
    check=check_nothing,
    measure=measure,
    decided_by=DecidedBy.REPLAY,
)
