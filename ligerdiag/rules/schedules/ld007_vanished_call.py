"""LD007 vanished-call: a kernel is called only to overwrite an operand, and the compiled program does not run it."""

from collections.abc import Iterator

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.lost_refs import LostRef
from ligerdiag.analysis.write_correspondence import DroppedBy
from ligerdiag.model.findings import Finding, Severity, Verdict
from ligerdiag.rules.rule import ALIASED, Reproduction, Rule, RuleKind, make_example
from ligerdiag.rules.wording import render_at


def check(context: Context) -> Iterator[Finding]:
    """Yields a finding for each kernel call of the program that is missing from the schedule or never runs in it."""
    for call in context.vanished:
        if call.write in context.matching.merged_into:
            continue  # it runs, merged with an equal call: LD008 reports that
        if call.write in context.matching.idle:
            reason = "the schedule calls it only in a branch or a loop that never runs"
        elif call.is_repeated:
            reason = _AGAIN
        elif call.dropped_by is DroppedBy.XLA:
            reason = "XLA found no use for its outputs and removed it"
        elif call.outputs == 0:
            reason = "it has no outputs, and JAX drops such a call before XLA sees it"
        else:
            reason = "nothing uses its outputs, and JAX drops such a call before XLA sees it"
        message = f"`{call.kernel}` is called for its effect and is not in the compiled program"
        remedy = "give the call an output that aliases what it writes, and use that output"
        if call.write in context.matching.idle:
            message = f"the program calls `{call.kernel}`, but the schedule never does"
            remedy = "compile the program again: XLA by itself does not move a call to where it never runs"
        elif call.unknown:
            message = f"`{call.kernel}` is not in the compiled program, and what it overwrites is unknown"
        yield Finding(
            rule=RULE.id,
            severity=RULE.severity,
            message=message,
            outputs=tuple(context.verdicts.outputs) if call.is_unseen else (),
            source=call.source,
            kernel=call.kernel,
            evidence=(("call", reason), *([_UNSEEN] if call.is_unseen else [])),
            help=remedy,
            lost_writes=call.lost,
        )
    for lost in context.lost_refs:
        if lost.is_dropped(context.moved_refs):
            yield _report_lost(context, lost)


def _report_lost(context: Context, lost: LostRef) -> Finding:
    """Returns the finding about a kernel call on a Ref that JAX runs in the forward pass, and drops when it computes
    the forward pass again for the backward pass.
    """
    move = next(iter(lost.find_moves(context.moved_refs)), None)
    site = next((context.sites[tag] for tag in lost.tags if tag in context.sites), None)
    if site is None and move is not None:
        site = move.write
    read = None if move is None else move.read
    seen = f"the Ref is created and read again{render_at(read)}, and holds its initial value"
    who = f"`{lost.kernel}`" if lost.kernel else "a store into a Ref"
    return Finding(
        rule=RULE.id,
        severity=RULE.severity,
        message=f"{who} is called for its effect on a Ref, and JAX recomputes the forward pass without the call",
        outputs=lost.outputs,
        source=site,
        kernel=lost.kernel,
        evidence=(("call", _AGAIN), ("read", seen)),
        help=(
            "return what the kernel writes as an output (`out_type`), or keep the reader of the Ref out of `jax.checkpoint`"
        ),
    )


_UNSEEN = ("outputs", "the program as written lacks the call, too, so it is unknown which outputs need its writes")
_AGAIN = "JAX runs it in the forward pass, and drops it when `jax.checkpoint` recomputes that pass"

NO_OUTPUTS = make_example(
    about="A kernel that scales in place and returns nothing is dropped by JAX.",
    code="""\
@triton.jit
def scale_kernel(x_ptr, COLUMNS: tl.constexpr):
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    tl.store(x_ptr + at, 3 * tl.load(x_ptr + at))


def step(x):
    h = x + 1
    jt.triton_call(h, kernel=scale_kernel, out_shape=(), grid=h.shape[:1], COLUMNS=h.shape[1])
    return {"scaled": h}


CASE = Case(name="vanishes", function=step, args=(Arg(shape=(8, 32)),))
""",
)

UNUSED_SUM = make_example(
    about="The author wants the doubled rows; the sums are not used, and JAX drops the call.",
    code="""\
def step(x):
    h = x + 1
    sum_and_double(h)
    return {"doubled": h}


CASE = Case(name="unused_sum", function=step, args=(Arg(shape=(8, 32)),))
""",
)

UNUSED_RESULT = make_example(
    about="The kernel overwrites none of its operands: dropping an unused result loses nothing.",
    code="""\
@triton.jit
def sum_kernel(x_ptr, sum_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    tl.store(sum_ptr + row, tl.sum(tl.load(x_ptr + row * COLUMNS + tl.arange(0, COLUMNS))))


def step(x):
    h = x + 1
    sums = jax.ShapeDtypeStruct(h.shape[:1], h.dtype)
    jt.triton_call(h, kernel=sum_kernel, out_shape=sums, grid=h.shape[:1], COLUMNS=h.shape[1])
    return {"h": h}


CASE = Case(name="unused_result", function=step, args=(Arg(shape=(8, 32)),))
""",
)

REPLACED_FUNCTION = make_example(
    about=(
        "In the body of `lax.map`, JAX traces a `custom_vjp` function and then replaces it by its forward rule. The "
        "function's call is gone, but the forward rule makes the same call, so nothing is lost."
    ),
    declared=True,
    code="""\
@jax.custom_vjp
def squares(x):
    return sum_and_double_declared(x)[1].sum()


def forward(x):
    doubled, sums = sum_and_double_declared(x)
    return sums.sum(), doubled


squares.defvjp(forward, lambda doubled, g: (g * doubled,))


def step(chunks, w):
    def loss(w):
        return jax.lax.map(lambda x: squares(x @ w), chunks).sum()

    value, gradient = jax.value_and_grad(loss)(w)
    return {"loss": value, "gradient": gradient}


CASE = Case(name="replaced", function=step, args=(Arg(shape=(4, 8, 16)), Arg(shape=(16, 32))))
""",
)

RULE = Rule(
    id="LD007",
    name="vanished-call",
    severity=Severity.ERROR,
    kind=RuleKind.CHANGED_BY_JAX,
    summary="a kernel called for its effect is missing from the compiled program",
    what_it_does="""\
Compares the kernel calls of the traced jaxpr with those of the module that JAX lowered, and these with the optimized
module. Reports a call that has no outputs at all, and one that overwrites an operand that none of its outputs aliases,
if something may read one of its operands later. Calls of a function whose `custom_vjp` or `custom_jvp` rule replaces it
were never meant to run and are not reported. A call that JAX runs in the forward pass and drops when `jax.checkpoint`
recomputes that pass is reported if an output needs its result, in an operand or in a Ref, which JAX creates and reads
again. If JAX drops a call while it traces, as in a loop that it differentiates, no program contains the call, and no
output is fresh.""",
    why="""\
JAX and XLA remove calls that nobody uses. To them, a kernel whose only purpose is to scale a gradient in place is a
call that does nothing: the gradient stays unscaled, silently.""",
    what_to_do="""\
Return what the kernel writes as an output that aliases the operand, and use that output.""",
    limits="""\
The rule identifies a call by its place in the program (a part of a line) and by its callers. It distinguishes
the calls from one place in a Python loop by their order.""",
    references=(
        "github.com/jax-ml/jax/issues/3829",
        "github.com/jax-ml/jax/issues/11620",
        "github.com/NVIDIA/warp/pull/1240",
    ),
    reproduced=(
        Reproduction(
            report="phlippe/liger_kernels (the backward pass)",
            case="dropped_backward[hidden]",
            reproduced=(
                "the three kernels without outputs that should scale the gradients: none is in the program, whose "
                "gradients lack the factor of the cotangent"
            ),
            missing="nothing of the code; no numbers were published",
        ),
        Reproduction(
            report="jax-ml/jax#3829",
            case="dropped_backward[hidden]",
            reproduced="a call without outputs, dropped by JAX",
            missing="messages between processes: the call here is a kernel, and its effect is in memory",
        ),
        Reproduction(
            report="jax-ml/jax#11620",
            case="accumulated_sum[unused-hidden]",
            reproduced="a call whose outputs nobody uses, dropped by JAX",
            missing="MPI, and a call that declares side effects, which jax-triton 0.3 cannot do",
        ),
        Reproduction(
            report="NVIDIA/warp#1240",
            case="accumulated_sum[unused-hidden]",
            reproduced="a call whose outputs nobody uses, gone from the program",
            missing="pmap, and `has_side_effect` as the cure",
        ),
        Reproduction(
            report="pytorch/pytorch#170808",
            case="unknown_effect[hidden]",
            reproduced="a kernel that cannot be analysed is in the compiled program, and counts as unknown (LD014)",
            missing="the kernel that Inductor removes because it has no analysis: XLA does not look into kernels",
        ),
        Reproduction(
            report="ROCm/pytorch#3398",
            case="unknown_effect[hidden]",
            reproduced="as for pytorch/pytorch#170808",
            missing="as for pytorch/pytorch#170808",
        ),
    ),
    bad=(NO_OUTPUTS, UNUSED_SUM),
    good=(ALIASED, UNUSED_RESULT, REPLACED_FUNCTION),
    check=check,
    explains=Verdict.STALE,
    leaves_undefined=True,
)
