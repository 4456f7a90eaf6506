"""LD022 broken-alias: XLA fused a call with the slices around it and put an output into other bytes than the operand
that it aliases.
"""

from collections.abc import Iterator

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.writes import HiddenWrite
from ligerdiag.hlo.shape import render_index
from ligerdiag.model.findings import Finding, Severity, Verdict
from ligerdiag.rules.rule import Example, Party, Reproduction, Rule, report_write
from ligerdiag.rules.wording import UNFUSED, begin_sentence, describe_write


def check(context: Context) -> Iterator[Finding]:
    """Yields a finding for each declared write whose alias XLA does not keep.

    XLA then puts the output of the call into other bytes than the operand that it aliases. The finding names the outputs
    of the program that miss the write.
    """
    for write in context.writes:
        if write.output is None:
            continue
        stale = _list_outputs(context, write, Verdict.STALE)
        names = stale or _list_outputs(context, write, Verdict.UNKNOWN)
        if not names:
            continue
        call = context.optimized_call(write)
        who = begin_sentence(names, "misses", "miss") if stale else begin_sentence(names, "may miss", "may miss")
        yield report_write(
            context,
            RULE,
            write,
            f"{who} what `{write.kernel}` writes: the output that should alias operand {write.operand} is in other bytes",
            remedy=UNFUSED,
            outputs=names,
            instructions=() if call is None else (call.name,),
            evidence=(describe_write(context, write), ("alias", _describe_alias(context, write))),
        )


def _list_outputs(context: Context, write: HiddenWrite, verdict: Verdict) -> tuple[str, ...]:
    return tuple(
        name
        for name, output in context.verdicts.outputs.items()
        if any(cause.write == write.index and cause.verdict is verdict for cause in output.causes)
    )


def _describe_alias(context: Context, write: HiddenWrite) -> str:
    call, output = context.optimized_call(write), write.output or ()
    declared = f"output {render_index(output)}" if output else "its output"
    home = None if call is None else context.optimized.homes[call.id]
    fusions = context.optimized.callers.get(home.id, ()) if home is not None else ()
    where = f"%{fusions[0].name}" if fusions else "the schedule"
    return (
        f"{declared} is declared to alias operand {write.operand}; in {where} XLA put it in other bytes, without a copy"
    )


_BEFORE = """\
import jax
import jax.numpy as jnp
from jax.experimental.pallas import mosaic_gpu as plgpu

from ligerdiag import Arg, Case


def double_kernel(x_ref, plus_ref):
    x = x_ref[...]
    plus_ref[...] = x + 1
    x_ref[...] = 2 * x


def double(x):
    ref = jax.new_ref(x)  # a copy of x, which the kernel doubles
    plus = plgpu.kernel(double_kernel, out_type=jax.ShapeDtypeStruct(x.shape, x.dtype))(ref)
    return plus, jax.freeze(ref)


"""

STACKED = Example(
    about="A scan stacks the contents of a Ref. XLA stacks them without a copy, and the kernel writes elsewhere.",
    code=f"""{_BEFORE}def step(chunks):
    def body(total, x):
        plus, doubled = double(jnp.sin(x))
        return total + plus.sum(), doubled

    total, doubled = jax.lax.scan(body, 0.0, chunks)
    return {{"total": total, "doubled": doubled}}


CASE = Case(name="stacked", function=step, args=(Arg(shape=(4, 128)),))
""",
)

HALVES = Example(
    about="The kernel gets the halves of one array; XLA passes it their addresses instead of copies.",
    code=f"""{_BEFORE}def step(x):
    h = jnp.sin(x)
    first, doubled = double(h[:128])
    second, more = double(h[128:])
    return {{"plus": first + second, "doubled": doubled, "more": more}}


CASE = Case(name="halves", function=step, args=(Arg(shape=(256,)),))
""",
)

HELD_APART = Example(
    about="A barrier separates the kernel from the stack: XLA copies the kernel's result into the stack.",
    code=f"""{_BEFORE}def step(chunks):
    def body(total, x):
        plus, doubled = double(jnp.sin(x))
        return total + plus.sum(), jax.lax.optimization_barrier(doubled)

    total, doubled = jax.lax.scan(body, 0.0, chunks)
    return {{"total": total, "doubled": doubled}}


CASE = Case(name="held_apart", function=step, args=(Arg(shape=(4, 128)),))
""",
)

RULE = Rule(
    id="LD022",
    name="broken-alias",
    severity=Severity.ERROR,
    party=Party.XLA,
    for_maintainers=(
        "a dynamic-slice fusion gives an output of a custom call another buffer than the operand that it aliases by"
        " `output_to_operand_aliasing`"
    ),
    summary="the write is declared, but XLA put the declared output into other bytes",
    what_it_does="""\
Looks at custom calls that XLA fused with the slices around them (dynamic-slice fusions), and compares the bytes of each
operand with those of the output that is declared to alias it. If they differ, the analysis follows the real write: the
kernel overwrites the operand, and does not write the output.""",
    why="""\
A dynamic-slice fusion copies nothing: it passes the call addresses in the large arrays. XLA does not carry the call's
`output_to_operand_aliasing` over to the fusion, and gives the output a buffer of its own. A kernel with one pointer for
both, which every kernel with a Ref has, overwrites the operand, and the output keeps the old contents of its bytes. On
an H200 a scan that stacks the contents of a Ref returns zeros; nothing fails. This affects Refs of Pallas on Mosaic GPU
and of jax-triton 0.4 and later, whose calls XLA fuses; calls of jax-triton before 0.4 are never fused.""",
    what_to_do="""\
Put `jax.lax.optimization_barrier` between the call and the slice that it takes, and between the call and the stack that
its output goes into. Cover all operands and outputs: a slice of any of them is enough for the fusion.
`ligerdiag.in_place.call_in_place` does so for jax-triton kernels. Or disable the fusion:
`XLA_FLAGS=--xla_gpu_enable_dynamic_slice_fusion=false`. Both gave the right result on an H200.""",
    limits="""\
Without XLA's buffer assignment it is unknown whether the two share bytes, so outputs that depend on it are unknown. A
kernel that stores through the output's own pointer is right if it writes all of the output and reads none of it. cuBLAS
and cuDNN calls, which XLA makes itself, are not covered.""",
    references=("github.com/openxla/xla, xla/service/gpu/transforms/dynamic_slice_fusion_rewriter.cc",),
    reproduced=(
        Reproduction(
            report="docs/reports/dynamic-slice-fusion.md",
            case="fused_alias[stacked]",
            reproduced="on an H200, with JAX 0.11.2, the stacked Refs are zeros",
            missing="an answer of XLA's maintainers",
        ),
    ),
    bad=(STACKED, HALVES),
    good=(HELD_APART,),
    check=check,
    explains=Verdict.STALE,
)
