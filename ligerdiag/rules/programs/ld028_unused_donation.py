"""LD028 unused-donation: an argument is donated, and no output takes its bytes."""

from collections.abc import Iterator

from ligerdiag.analysis.context import Context
from ligerdiag.model.findings import Finding, Severity, SourceLine
from ligerdiag.model.memory import Donation, DonationFault
from ligerdiag.rules.rule import Example, Rule
from ligerdiag.text import join_words, render_bytes

_SMALLEST = 4096
"""Smallest total size, in bytes, at which donated arguments with the same fault are reported; an optimizer's state has
tiny counters that are not worth a finding.
"""
_MOST_NAMED = 4
_ABOUT_ONE_OUTPUT = (DonationFault.DTYPE, DonationFault.SHARDING, DonationFault.MEMORY)
"""Faults whose reason names the output that is meant to replace the argument: each argument has another one."""


def check(context: Context) -> Iterator[Finding]:
    """Yields findings about the donated arguments whose bytes no output takes: one for each reason."""
    if context.memory is None:
        return
    groups: dict[tuple[DonationFault, str, SourceLine | None], list[Donation]] = {}
    for _, donation in context.memory.donations:
        if donation.fault is not None:
            has_own_output = donation.fault in _ABOUT_ONE_OUTPUT
            why = "" if has_own_output else donation.why.partition(":")[0]
            line = donation.line if donation.fault is DonationFault.DTYPE else None
            groups.setdefault((donation.fault, why, line), []).append(donation)
    for (fault, *_), found in groups.items():
        size = sum(one.bytes for one in found)
        if size < _SMALLEST:
            continue
        found.sort(key=lambda one: -one.bytes)
        names = [f"`{one.argument}`" for one in found[:_MOST_NAMED]]
        if len(found) > _MOST_NAMED:
            names.append(f"{len(found) - _MOST_NAMED} more")
        verb = "are" if len(found) > 1 else "is"
        rest = (
            "; the same holds for the others"
            if len({one.why for one in found}) > 1 and fault in _ABOUT_ONE_OUTPUT
            else ""
        )
        yield Finding(
            rule=RULE.id,
            severity=RULE.severity,
            message=(
                f"{join_words(names)} ({render_bytes(size)}) {verb} donated, but no output takes these bytes:"
                f" {found[0].why}{rest}"
            ),
            source=next((one.line for one in found if one.line is not None), None),
            evidence=tuple(_list_evidence(context, found)),
            help=_HELP[fault],
        )


def _list_evidence(context: Context, found: list[Donation]) -> Iterator[tuple[str, str]]:
    for one in found[:_MOST_NAMED]:
        yield "donation", f"`{one.argument}`, {render_bytes(one.bytes)}: {one.why}"
    if context.memory is not None and context.memory.use.warning and found[0].fault is not DonationFault.DROPPED:
        yield "JAX", " ".join(context.memory.use.warning.split())


_DO_NOT = "do not donate it: the donation saves no memory while the program runs, and takes the array from the caller"
_HELP = {
    DonationFault.NO_OUTPUT: _DO_NOT,
    DonationFault.SHAPE: _DO_NOT,
    DonationFault.SURPLUS: "donate only as many arguments as there are outputs to take them",
    DonationFault.UNUSED: "do not pass it, or do not donate it",
    DonationFault.DROPPED: (
        "do not pass it, or read it in the function; if an output is to take its bytes, give `jax.jit` `keep_unused=True`"
    ),
    DonationFault.DTYPE: "return that output in the dtype of the argument, or do not donate the argument",
    DonationFault.SHARDING: "give the output the sharding of the argument, for example by `out_shardings`",
    DonationFault.MEMORY: (
        "do not donate it: bytes of one memory cannot hold an output in the other, and JAX may end the process when it tries"
    ),
    DonationFault.LAYOUT: "give the output the layout of the argument",
    DonationFault.UNKNOWN: "compare the shapes, dtypes and shardings of argument and output, or do not donate it",
}

_BEFORE = """\
import jax
import jax.numpy as jnp

from ligerdiag import Arg, Case


"""

ONLY_A_LOSS = Example(
    about="The parameters are donated to a function that returns a number.",
    code=f"""{_BEFORE}def evaluate(w, x):
    return jnp.mean((x @ w) ** 2)


CASE = Case(name="evaluate", function=evaluate, args=(Arg(shape=(512, 512), donate=True), Arg(shape=(64, 512))))
""",
)

OTHER_DTYPE = Example(
    about="The output has the argument's shape and another dtype.",
    code=f"""{_BEFORE}def quantize(w):
    return w.astype(jnp.bfloat16)


CASE = Case(name="quantize", function=quantize, args=(Arg(shape=(512, 512), donate=True),))
""",
)

TWO_FOR_ONE = Example(
    about="Two arrays are donated, and one output has their shape.",
    code=f"""{_BEFORE}def blend(a, b):
    return 0.9 * a + 0.1 * b


CASE = Case(name="blend", function=blend, args=(Arg(shape=(512, 512), donate=True), Arg(shape=(512, 512), donate=True)))
""",
)

TO_THE_HOST = Example(
    about="The output lies in the host's memory, and the argument in that of the device.",
    code=f"""{_BEFORE}def offload(x):
    return jax.device_put(2.0 * x, jax.memory.Space.Host)


CASE = Case(name="offload", function=offload, args=(Arg(shape=(512, 512), donate=True),))
""",
)

NEVER_READ = Example(
    about="The function never reads `old`, so JAX drops it: its bytes are neither reused nor freed.",
    code=f"""{_BEFORE}def shrink(old, new):
    return 0.5 * new


CASE = Case(name="shrink", function=shrink, args=(Arg(shape=(512, 512), donate=True), Arg(shape=(512, 512))))
""",
)

MOVED_BY_ONE = Example(
    about="`a` becomes bfloat16, so it takes the output that `b` should take.",
    code=f"""{_BEFORE}def step(a, b):
    return {{"a": jnp.cos(a).astype(jnp.bfloat16), "b": jnp.sin(b)}}


CASE = Case(name="step", function=step, args=(Arg(shape=(512, 512), donate=True), Arg(shape=(512, 512), donate=True)))
""",
)

KEPT = Example(
    about="The function never reads `old`, which only provides its bytes: `jax.jit` keeps it because of `keep_unused=True`.",
    code=f"""{_BEFORE}def shrink(old, new):
    return 0.5 * new


CASE = Case(
    name="kept_unread",
    function=jax.jit(shrink, donate_argnums=0, keep_unused=True),
    args=(Arg(shape=(512, 512)), Arg(shape=(512, 512))),
)
""",
)

SUCCESSOR = Example(
    about="An output of the same shape and dtype takes the bytes.",
    code=f"""{_BEFORE}def descend(w, gradient):
    return w - 0.1 * gradient


CASE = Case(name="descend", function=descend, args=(Arg(shape=(512, 512), donate=True), Arg(shape=(512, 512))))
""",
)

RULE = Rule(
    id="LD028",
    name="unused-donation",
    severity=Severity.WARNING,
    summary="no output takes the bytes of a donated argument",
    what_it_does="""\
Compares the donated arguments with `input_output_alias` of the compiled module. For each one that no output takes, it
looks for the reason: no output of this shape, another dtype, too few outputs, another sharding or layout, an output in the
other memory of host and device, or a function that never reads the argument, so that JAX drops it. It keeps JAX's own
warning.""",
    why="""\
A donated argument is gone after the call. Donating it pays only if an output takes its bytes; otherwise the program needs
as much memory as before, and a step that fits without donation in tests does not fit where it counts. JAX warns once, as a
Python warning among others, names shapes and no arguments, and says nothing where it leaves the decision to XLA, nor of
an argument that it drops. That one is not even gone after the call: its bytes stay in use as long as somebody holds it.
An argument that is not committed to a device is paired even with an output in the host's memory. Such a call ends the
process, or is not compiled.""",
    what_to_do="""\
Do not donate what no output replaces. If an output should replace it, give both the same shape, dtype, sharding and
layout; if the function never reads it, give `jax.jit` `keep_unused=True` as well.""",
    limits="""\
A dump says only where arrays are split over devices which arguments were donated in vain; of other programs JAX alone
knows. Where an argument on the device could also give its bytes to an output on the device, the rule trusts that JAX pairs
these two, as it does if the argument is committed to its device (by `jax.device_put` with a device or a sharding). It does
not see that only `out_shardings` put an output into the host's memory. Donated
arguments with one reason that have less than 4 KiB together do not count.""",
    references=("docs.jax.dev/en/latest/buffer_donation.html",),
    bad=(ONLY_A_LOSS, OTHER_DTYPE, TWO_FOR_ONE, TO_THE_HOST, NEVER_READ, MOVED_BY_ONE),
    good=(SUCCESSOR, KEPT),
    check=check,
)
