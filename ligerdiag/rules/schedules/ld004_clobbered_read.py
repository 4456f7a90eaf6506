"""LD004 clobbered-read: a reader that needs the original value reads its bytes after the kernel has overwritten them."""

from collections.abc import Iterator

from ligerdiag.analysis.context import Context
from ligerdiag.model.findings import Finding, Severity, Verdict
from ligerdiag.rules.rule import Reproduction, Rule, RuleKind, make_example, report_outputs, report_read
from ligerdiag.rules.wording import begin_sentence, describe_keeping_remedy


def check(context: Context) -> Iterator[Finding]:
    """Yields a finding for each clobbered read: one that needs the old contents and gets the new ones.

    For each hidden write, there is also a finding about the clobbered outputs that no known read explains.
    """
    for read in context.verdicts.clobbered:
        kernel = read.write.kernel
        who = begin_sentence(
            read.outputs, f"reads what `{kernel}` wrote and needs", f"read what `{kernel}` wrote and need"
        )
        message = f"{who} the original"
        time = context.logical_times.get(read.reader.id)
        sentence = f"%{read.reader.name} reads the overwritten bytes at logical time {time}"
        remedy = describe_keeping_remedy(context, read.write)
        yield report_read(context, RULE, read, message, sentence, remedy=remedy, needs_old=True)
    for write in context.writes:
        names = context.verdicts.list_unexplained(write.index, Verdict.CLOBBERED)
        yield from report_outputs(
            context,
            RULE,
            write,
            names,
            lambda some, kernel=write.kernel: (
                f"{begin_sentence(some, 'depends', 'depend')} on what `{kernel}` writes, but should not"
            ),
            remedy=describe_keeping_remedy(context, write) if names else "",
            needs_old=True,
        )


MERGED_OPERANDS = make_example(
    about="XLA merges two casts of one value; the second kernel reads what the first wrote.",
    code="""\
def step(x):
    first = x.astype(jnp.float32)
    one = sum_and_double(first)
    second = x.astype(jnp.float32)
    two = sum_and_double(second + 0 * one.sum())
    return {"one": one, "two": two}


CASE = Case(name="merged", function=step, args=(Arg(shape=(8, 32), dtype="bfloat16"),))
""",
)

TWO_COPIES = make_example(
    about="With the write declared, XLA gives each kernel bytes of its own.",
    declared=True,
    code="""\
def step(x):
    _, one = sum_and_double_declared(x.astype(jnp.float32))
    _, two = sum_and_double_declared(x.astype(jnp.float32))
    return {"one": one, "two": two}


CASE = Case(name="copies", function=step, args=(Arg(shape=(8, 32), dtype="bfloat16"),))
""",
)

_DERIVATIVE = """\
@jax.custom_vjp
def row_sums(x):
    return forward(x)[0]


def forward(x):
    return {sums}, None


def backward(_, cotangent):
    return (jnp.broadcast_to(cotangent[:, None], (8, 32)),)


row_sums.defvjp(forward, backward)


def step(x):
    def loss_of(x):
        return (row_sums(jnp.tanh(x)) ** 2).sum()

    loss, gradient = jax.value_and_grad(loss_of)(x)
    return {{"loss": loss, "gradient": gradient}}


CASE = Case(name="{name}", function=step, args=(Arg(shape=(8, 32)),))
"""

SAVED_RESIDUAL = make_example(
    about="The derivative of tanh is computed from its result, which autodiff saved and the kernel has doubled since.",
    code=_DERIVATIVE.format(sums="sum_and_double(x)", name="saved"),
)

COPIED_RESIDUAL = make_example(
    about="With the write declared, XLA keeps the result of tanh for the derivative.",
    declared=True,
    code=_DERIVATIVE.format(sums="sum_and_double_declared(x)[1]", name="saved_copy"),
)

RULE = Rule(
    id="LD004",
    name="clobbered-read",
    severity=Severity.ERROR,
    kind=RuleKind.LATE_READ,
    summary="a reader that needs the original reads after the kernel has overwritten it",
    what_it_does="""\
Makes the comparison of LD001 the other way round. Reports a value that does not depend on the hidden write in the
program as written and does in the compiled schedule, and a value that depends on the original there and only on the new
contents here. XLA had every right to put both values into the same bytes, because it knows of no write.""",
    why="""\
Take two losses on the same logits: common subexpression elimination merges their operands, the first kernel overwrites
the one buffer, and the second computes its loss from a gradient. Or autodiff saves a result for the backward pass, the
loss kernel overwrites it with its gradient, and the derivative is computed from that gradient.""",
    what_to_do="""\
Declare what the kernel writes; XLA then inserts the copy that the other reader needs. Or pass the kernel a value that
nobody else reads.""",
    limits="""\
The trace shows which values autodiff saved and a kernel then overwrote. For a dump ligerdiag infers it from the source
line, if a derivative shares its line with a forward operation that used the value before the kernel; otherwise the
output is unknown.""",
    references=(
        "github.com/linkedin/Liger-Kernel/issues/272 (the PyTorch twin)",
        "github.com/linkedin/Liger-Kernel/issues/1251",
    ),
    reproduced=(
        Reproduction(
            report="linkedin/Liger-Kernel#272",
            case="saved_residual[exp-perplexity-hidden]",
            reproduced=(
                "the explanation in the thread: `exp` saves its result, the loss overwrites it, the backward pass "
                "reads it, and is clobbered"
            ),
            missing="PyTorch, and its version check, which does not notice",
        ),
        Reproduction(
            report="linkedin/Liger-Kernel#1251",
            case="saved_residual[softmax-loss-out_of_place]",
            reproduced="the cure, a gradient with memory of its own: fresh, for every activation and objective",
            missing="the second point, a clone that loses `requires_grad`: JAX has no such flag",
        ),
    ),
    bad=(MERGED_OPERANDS, SAVED_RESIDUAL),
    good=(TWO_COPIES, COPIED_RESIDUAL),
    check=check,
    explains=Verdict.CLOBBERED,
)
