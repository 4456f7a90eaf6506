"""LD027 copied-alias: XLA copies a whole array so that an operation can work in place."""

from collections.abc import Iterator, Mapping

from ligerdiag.analysis.context import Context
from ligerdiag.memory.copy_reason import CopyForm
from ligerdiag.memory.memory_use import ExplainedCopy
from ligerdiag.memory.value_uses import ASYNC_STARTS
from ligerdiag.model.findings import Finding, Severity
from ligerdiag.model.memory import CopyCause
from ligerdiag.rules.memory_findings import COLLECTED, group_copies, report_copies
from ligerdiag.rules.rule import Example, Rule, RuleKind

_RETURNED_AFTER = (
    "return the unchanged argument before the output that replaces it: JAX gives the bytes of a donated argument to the"
    " first output of its shape and dtype"
)
REMEDIES: Mapping[CopyCause, str] = {
    CopyCause.UNDONATED: "donate the argument with `donate_argnums` if the caller no longer needs it",
    CopyCause.CONSTANT: "make the array in the program, for example by `jnp.zeros`, or pass it as a donated argument",
    CopyCause.READ_LATER: (
        "read the old value before the write, and keep that order:"
        " `x, old = jax.lax.optimization_barrier((x, read(x)))`, then write to `x`"
    ),
    CopyCause.LAYOUT: (
        "return the array in the layout in which it is passed in, or pass it in the layout in which it is returned"
    ),
    CopyCause.RETURNED: _RETURNED_AFTER,
    CopyCause.PAIRING: (
        "return the outputs in the order, and with the shardings, of the donated arguments that they replace, or donate"
        " only those that an output replaces; split a structure whose order does not allow that into several arguments"
    ),
    CopyCause.DONATION: (
        "do not donate this argument, so that XLA computes the output in bytes of its own; or compute each element of the"
        " output from the same element of the argument alone"
    ),
    CopyCause.UNKNOWN: "compare the schedule around the copy with the program, and report it if it is a mistake of XLA's",
}


_OTHER_LAYOUT = (
    "give the value the layout of the argument by `jax.experimental.layout.with_layout_constraint`, or avoid the"
    " operation for which XLA chooses another layout, such as a product with the transposed array"
)
_REPEATED = (
    "pass the result of the write through `jax.lax.optimization_barrier`, so that its reader does not compute it again"
)
_BACKWARD = (
    "XLA chose this order: try `unroll` for the scan, or write the derivative by `jax.custom_vjp`, with an"
    " `optimization_barrier` between the reader and the write"
)
_ROTATED = (
    "pass the array that is returned unchanged and the array that gives the bytes as two donated arguments, not in one"
    " structure, and return the unchanged one first: `def step(weights, spare): return weights, weights - update`; give"
    " `jax.jit` `keep_unused=True`, since it drops an argument that is never read; the caller then passes the second result"
    " as `weights` and the first one as `spare`"
)
_NEEDS_BOTH = (
    "compare only the part that changes: read it before the write, as in"
    " `x, old = jax.lax.optimization_barrier((x, x[i]))`, and compare `old` with the new part; if the reader needs all of"
    " both values, one copy has to stay"
)
_BY_FORM: Mapping[CopyForm, str] = {
    CopyForm.RETURNED_ELSEWHERE: _ROTATED,
    CopyForm.RETURNED_AFTER: _RETURNED_AFTER,
    CopyForm.NEEDS_BOTH: _NEEDS_BOTH,
    CopyForm.COLLECTED: f"{COLLECTED}; or do not donate it",
    CopyForm.OTHER_LAYOUT: _OTHER_LAYOUT,
    CopyForm.REPEATED_UPDATE: _REPEATED,
}
_NOTED = (CopyCause.UNDONATED, CopyCause.CONSTANT, CopyCause.UNKNOWN)
"""Causes whose findings are only notes: the author may know the cause, or there may be none to remove."""


def check(context: Context) -> Iterator[Finding]:
    """Yields a finding for each group of copies that XLA makes so that an operation can work in place."""
    for group in group_copies(context, REMEDIES):
        first = group[0]
        severity = Severity.NOTE if first.copy.cause in _NOTED or is_of_the_backward_pass(first) else None
        yield report_copies(context, RULE, group, choose_remedy(first), severity=severity)


def choose_remedy(one: ExplainedCopy) -> str:
    """Returns the remedy for the cause of a copy, as text.

    The text has more detail if more is known about the reason for the copy.
    """
    if one.reason.form in _BY_FORM:
        return _BY_FORM[one.reason.form]
    if one.copy.cause is CopyCause.READ_LATER and is_of_the_backward_pass(one):
        return _BACKWARD
    return REMEDIES[one.copy.cause]


def is_of_the_backward_pass(one: ExplainedCopy) -> bool:
    """Returns whether XLA copies a value in a loop for a later reader that JAX or XLA made, and not the author.

    Such a reader is an operation of a derivative, or an asynchronous operation. It reads after the write.
    """
    if one.copy.cause is not CopyCause.READ_LATER or one.copy.trips == 1:
        return False
    return any("transpose(jvp(" in reader.op_name or reader.opcode in ASYNC_STARTS for reader in one.reason.blamed[:1])


_BEFORE = """\
import jax
import jax.numpy as jnp

from ligerdiag import Arg, Case


"""

READ_AFTER_THE_WRITE = Example(
    about="The old cache is read after the write, so XLA saves it, and copies it back unchanged.",
    code=f"""{_BEFORE}def write(cache, row):
    new = jax.lax.dynamic_update_slice(cache, row, (3, 0))
    return new, jnp.abs(new - cache).sum(), jnp.cumsum(cache, axis=0)


CASE = Case(name="read_after", function=write, args=(Arg(shape=(512, 512), donate=True), Arg(shape=(1, 512))))
""",
)

ROTATED = Example(
    about="""\
The old weights are returned as those of the step before. JAX gives this output the bytes of `previous`, so \
the weights are copied there.""",
    code=f"""{_BEFORE}def step(state, gradient):
    return {{"weights": state["weights"] - 0.1 * gradient, "previous": state["weights"]}}


W = Arg(shape=(512, 512), donate=True)
STATE = {{"weights": W, "previous": W}}
CASE = Case(name="rotated", function=step, args=(STATE, Arg(shape=(512, 512))), keep_unused=True)
""",
)

NOT_DONATED = Example(
    about="The caller keeps `x`, so the update works on a copy.",
    code=f"""{_BEFORE}def update(pages, row):
    return pages.at[3].set(row)


CASE = Case(name="kept_by_the_caller", function=update, args=(Arg(shape=(512, 512)), Arg(shape=(512,))))
""",
)

TRANSPOSED = Example(
    about="The array is written and returned transposed.",
    code=f"""{_BEFORE}def write(cache, row):
    return jnp.swapaxes(cache, 0, 1).at[:, 3].set(row)


CASE = Case(name="transposed", function=write, args=(Arg(shape=(512, 512), donate=True), Arg(shape=(512,))))
""",
)

CANNOT_OVERWRITE = Example(
    about="The output is computed in other bytes, and then copied into the donated argument.",
    code=f"""{_BEFORE}def accumulate(x):
    return jnp.cumsum(x, axis=-1)


CASE = Case(name="scanned_in_place", function=accumulate, args=(Arg(shape=(256, 4096), donate=True),))
""",
)

DONATED = Example(
    about="The argument is donated: the update writes into its bytes.",
    code=f"""{_BEFORE}def update(pages, row):
    return pages.at[3].set(row)


CASE = Case(name="donated", function=update, args=(Arg(shape=(512, 512), donate=True), Arg(shape=(512,))))
""",
)

READ_FIRST = Example(
    about="The old values are read first, and a barrier keeps that order.",
    code=f"""{_BEFORE}def write(cache, row):
    old, total = cache[3], jnp.cumsum(cache, axis=0)
    cache, total, old = jax.lax.optimization_barrier((cache, total, old))
    new = jax.lax.dynamic_update_slice(cache, row, (3, 0))
    return new, jnp.abs(row - old).sum(), total


CASE = Case(name="read_first", function=write, args=(Arg(shape=(512, 512), donate=True), Arg(shape=(1, 512))))
""",
)

SPLIT = Example(
    about="""\
Two arguments, and the unchanged one is returned first: it keeps its bytes, and the new weights take those of `spare`. The \
caller swaps the names: `previous, weights = step(weights, previous, gradient)`. Its `jax.jit`, like this case, needs \
`keep_unused=True`, because the program never reads `spare`.""",
    code=f"""{_BEFORE}def step(weights, spare, gradient):
    return weights, weights - 0.1 * gradient


W = Arg(shape=(512, 512), donate=True)
CASE = Case(name="split", function=step, args=(W, W, Arg(shape=(512, 512))), keep_unused=True)
""",
)

RULE = Rule(
    id="LD027",
    name="copied-alias",
    severity=Severity.WARNING,
    summary="a whole array is copied, because an operation in place must not overwrite the original",
    what_it_does="""\
Lists the copies of 64 KiB and more that XLA put into the schedule for an update, an aliased call, a loop or a donated
argument, and explains each by its source, its target and the other readers of the value: a reader after the write, an
argument that the caller keeps, a constant, a layout, donated arguments that JAX paired crosswise with the outputs, an
argument that is returned unchanged after the output that replaces it, or an output that is computed elsewhere and then
copied into a donated argument. An argument that is not donated is only a note.
Copies that the program needs are in the report, and are no finding.""",
    why="""\
The program asks for an operation in place, and XLA makes it right by a copy without a word. The numbers are right; memory
and time are not. A copy of a cache in each step of decoding, or of all parameters in each step of training, often costs
more than the operation itself.""",
    what_to_do="""\
The help of the finding names one remedy for its cause. Read the old value before the write, with
`jax.lax.optimization_barrier` to keep the order; donate arguments that the caller no longer needs, and only these; return
outputs in the order and in the layout of the donated arguments. JAX goes through the outputs in order and gives each one
the bytes of the first donated argument of its shape and dtype that is still free. A dictionary is in the order of its sorted
keys, so a structure that is passed in and returned may fix an order that costs copies. If an output returns an argument
unchanged, as in double buffering, split the structure into several donated arguments and return the unchanged one
first. Give `jax.jit` `keep_unused=True` then: it drops an argument that the program never reads, and neither deletes nor
reuses it.""",
    limits="""\
Copies below 64 KiB do not count. The schedule is that of the described GPU: autotuning on the machine may choose other
layouts. Where XLA moves a value for a reason that neither the schedule nor the buffer assignment shows, the cause is
`unknown`, and the finding a note. The time is a lower bound: each byte is read and written once.""",
    references=(
        "github.com/openxla/xla, xla/service/copy_insertion.cc",
        "docs.jax.dev/en/latest/buffer_donation.html",
        "github.com/jax-ml/jax/issues/39449",
    ),
    bad=(READ_AFTER_THE_WRITE, NOT_DONATED, TRANSPOSED, CANNOT_OVERWRITE, ROTATED),
    good=(DONATED, READ_FIRST, SPLIT),
    check=check,
    kind=RuleKind.COPY,
)
