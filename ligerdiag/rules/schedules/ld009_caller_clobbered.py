"""LD009 caller-clobbered: a kernel overwrites a constant, or an argument that is not donated and that the caller still
uses.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.evaluation.label_memory import ActualWrite
from ligerdiag.hlo.buffers import list_same_arrays
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.shape import ShapeIndex
from ligerdiag.model.findings import Finding, Severity
from ligerdiag.rules.rule import Measured, Reproduction, Rule, RuleKind, make_example, render_error, report_write
from ligerdiag.rules.wording import begin_sentence, describe_write
from ligerdiag.text import join_words

_KEY = re.compile(r"\[(['\"]?)([^\[\]]*)\1\]")
_ARGUMENT_HELP = "declare the write, and XLA copies the argument first; or donate it, if the caller is done with it"
_CONSTANT_HELP = "declare the write, and XLA copies the constant first"


def check(context: Context) -> Iterator[Finding]:
    """Yields a finding for each hidden write into the bytes of a constant, or of an argument that is not donated."""
    donated = find_donated(context.optimized)
    for write in context.actual.writes:
        if context.writes[write.write].unknown:
            continue
        for allocation in sorted({context.buffers.slices[number].allocation for number in write.slices}):
            parameter = context.buffers.parameters.get(allocation)
            if parameter is not None and parameter not in donated:
                yield _report_argument(context, write, *parameter)
            elif allocation in context.buffers.constants:
                yield _report_constant(context, write)


def measure(measured: Measured) -> Iterator[Finding]:
    """Yields the findings of `check` with measurements from a replay added.

    Also yields findings about arguments that only the replay sees overwritten, and about outputs that differ if the
    program runs a second time.
    """
    numbers = measured.numbers
    changed = dict(numbers.changed_inputs) if numbers is not None else {}
    later = dict(numbers.second_run) if numbers is not None else {}
    for finding in measured.findings_of(RULE.id):
        evidence = finding.evidence
        for name in [name for name in changed if f"argument `{name}`" in finding.message]:
            evidence += (("replay", _describe_change(name, changed.pop(name))),)
        if later and "a constant" in finding.message:
            evidence += (("replay", _describe_second_run(later)),)
            later = {}
        yield replace(finding, evidence=evidence)
    for name, share in changed.items():
        yield Finding(
            rule=RULE.id,
            severity=RULE.severity,
            message=f"the argument `{name}`, which is not donated, is overwritten",
            evidence=(("replay", _describe_change(name, share)),),
            help=_ARGUMENT_HELP,
        )
    if later:
        yield Finding(
            rule=RULE.id,
            severity=RULE.severity,
            message=f"{begin_sentence(tuple(later), 'differs', 'differ')} in a second execution on the same constants",
            outputs=tuple(later),
            evidence=(("replay", _describe_second_run(later)),),
            help=_CONSTANT_HELP,
        )


def find_donated(module: HloModule) -> frozenset[tuple[int, ShapeIndex]]:
    """Returns each donated buffer of the module as (number of the entry parameter, index in its shape)."""
    return frozenset(
        (entry.parameter_number, tuple(entry.parameter_shape_index)) for entry in module.input_output_alias.entries
    )


def spell_argument(path: str) -> str:
    """Returns the name that replay gives to an argument, such as `state.0.w` for JAX's `state[0]['w']`."""
    return _KEY.sub(r".\2", path)


def _report_argument(context: Context, write: ActualWrite, number: int, index: ShapeIndex) -> Finding:
    hidden = context.writes[write.write]
    parameter = context.optimized.entry.parameters[number]
    name = _name_argument(parameter, index)
    others = [_name_argument(one, ()) for one in list_same_arrays(context.buffers, parameter, context.optimized)]
    also = ""
    if others:
        also = f" (one array with {join_words([f'argument `{other}`' for other in others])})"
    where = f"it is in the bytes of entry parameter %{parameter.name}, which no output aliases"
    return report_write(
        context,
        RULE,
        hidden,
        f"`{hidden.kernel}` overwrites the caller's argument `{name}`{also}, which is not donated",
        remedy=_ARGUMENT_HELP,
        instructions=tuple(dict.fromkeys((write.call.name, parameter.name))),
        evidence=(describe_write(context, hidden), ("memory", where)),
    )


def _name_argument(parameter: HloInstruction, index: ShapeIndex) -> str:
    number = parameter.proto.parameter_number
    return spell_argument(parameter.op_name) or f"{number}{''.join(f'.{step}' for step in index)}"


def _report_constant(context: Context, write: ActualWrite) -> Finding:
    hidden = context.writes[write.write]
    where = "its bytes hold a constant, which is loaded once for all executions"
    return report_write(
        context,
        RULE,
        hidden,
        f"`{hidden.kernel}` overwrites a constant: every later execution starts from what it wrote",
        remedy=_CONSTANT_HELP,
        instructions=(write.call.name,),
        evidence=(describe_write(context, hidden), ("memory", where)),
    )


def _describe_change(name: str, share: float) -> str:
    return f"{share:.0%} of the elements of `{name}` differ after the program has run"


def _describe_second_run(errors: dict[str, float]) -> str:
    figures = ", ".join(f"`{name}` by {render_error(error)}" for name, error in errors.items())
    return f"a second execution on the same constants differs from the first: {figures}"


OVERWRITTEN_ARGUMENT = make_example(
    about="The sums are right, and the caller's array is doubled.",
    code="""\
def step(x):
    return {"sums": sum_and_double(x)}


CASE = Case(name="argument", function=step, args=(Arg(shape=(8, 32)),))
""",
)

CONSTANT_LOGITS = make_example(
    about="Every execution doubles the program's own constant once more.",
    code="""\
def step(x):
    table = jnp.asarray(np.arange(256, dtype=np.float32).reshape(8, 32))
    return {"sums": sum_and_double(table) + x}


CASE = Case(name="constant_table", function=step, args=(Arg(shape=(8,)),))
""".replace("def step", "import numpy as np\n\n\ndef step", 1),
)

ARRAY_PASSED_TWICE = make_example(
    about="`y` is the same array as `x`, so `total` is computed from the doubled rows.",
    code="""\
def step(x, y):
    sums = sum_and_double(x)
    return {"sums": sums, "total": sums + jnp.sum(y, axis=1)}


ROWS = jnp.ones((8, 32))
CASE = Case(name="passed_twice", function=step, args=(ROWS, ROWS))
""",
)

DECLARED_ARGUMENT = make_example(
    about="With the write declared, the kernel doubles a copy.",
    declared=True,
    code="""\
def step(x):
    _, sums = sum_and_double_declared(x)
    return {"sums": sums}


CASE = Case(name="declared_argument", function=step, args=(Arg(shape=(8, 32)),))
""",
)

DONATED_ARGUMENT = make_example(
    about="The caller gives the array away, and its bytes become those of the doubled rows.",
    code="""\
def step(x):
    sums = sum_and_double(x)
    return {"sums": sums, "doubled": x}


CASE = Case(name="donated_argument", function=step, args=(Arg(shape=(8, 32), donate=True),))
""",
)

RULE = Rule(
    id="LD009",
    name="caller-clobbered",
    severity=Severity.ERROR,
    kind=RuleKind.CALLER_WRITE,
    summary="a kernel overwrites the bytes of an argument that is not donated, or of a constant",
    what_it_does="""\
Looks up in XLA's buffer assignment whose bytes each hidden write hits. Reports writes to an entry parameter that no
output aliases (module-level `input_output_alias`, which is how donation appears), and writes to a constant. If the
program was replayed, the finding adds how much of the argument changed, and how far a second execution is from the
first. If the call passes one JAX array as several arguments, the kernel overwrites all of them: an output that reads
another of these arguments after the kernel is clobbered.""",
    why="""\
XLA passes the kernel the caller's own array, because it believes that the kernel only reads it. Every output
may be right, but the array that the caller still holds is now a gradient, and the next call of the function
starts from it. A constant has one place for as long as the program is loaded: the first execution is right, and
every later one is not.""",
    what_to_do="""\
Declare the write: XLA then copies the argument or constant before the kernel gets it. A caller who no longer needs the
array can donate it (`donate_argnums`).""",
    limits="""\
If an array is donated but no output has its shape, XLA does not take it over: it stays the caller's and counts as not
donated. Whether the caller looks at the array again is unknown. That two arguments are one array is only known if the
case or the call of `ligerdiag.check` has the JAX arrays.""",
    references=("github.com/pytorch/xla/issues/8422",),
    reproduced=(
        Reproduction(
            report="pytorch/xla#8422",
            case="undonated_parameter[kept-hidden]",
            reproduced="a program overwrites bytes that somebody else still needs and that were not donated to it",
            missing="`xm.save`, which donates a lazy tensor by mistake: in JAX only the caller donates",
        ),
    ),
    bad=(OVERWRITTEN_ARGUMENT, CONSTANT_LOGITS, ARRAY_PASSED_TWICE),
    good=(DECLARED_ARGUMENT, DONATED_ARGUMENT),
    check=check,
    measure=measure,
)
