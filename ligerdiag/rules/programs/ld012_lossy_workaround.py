"""LD012 lossy-workaround: the program adds a term to a value and subtracts it again, so that readers wait for the kernel;
this rounds small values away.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ligerdiag.analysis.context import Context
from ligerdiag.hlo.module import find_user_line
from ligerdiag.model.findings import FAR, Attribution, Finding, Replay, Severity, Verdict
from ligerdiag.rules.rule import (
    ALIASED,
    DecidedBy,
    Measured,
    Reproduction,
    Rule,
    RuleKind,
    make_example,
    render_difference,
    render_error,
)
from ligerdiag.rules.wording import begin_sentence

_NOT_MEASURED = "; the loss is not measured"
HELP = "declare the write, and read the declared output, which needs no workaround"


def check(context: Context) -> Iterator[Finding]:
    """Yields a finding for each overwritten value that is read only after a term was added to it and subtracted again."""
    for found in context.roundings:
        write = found.write
        subject = f"the result of `{write.kernel}` in operand {write.operand}"
        yield Finding(
            rule=RULE.id,
            severity=RULE.severity,
            message=f"{subject} is read through an addition and a subtraction that round it{_NOT_MEASURED}",
            outputs=found.outputs,
            source=find_user_line(context.program, found.subtraction),
            kernel=write.kernel,
            operand=write.operand,
            instructions=(write.call.name, found.addition.name, found.subtraction.name),
            evidence=(
                ("added", f"%{found.addition.name} adds %{found.term.name}, which depends on the kernel's output"),
                (
                    "subtracted",
                    f"%{found.subtraction.name} subtracts this term again: values that are small beside it are rounded away",
                ),
            ),
            help=HELP,
        )


def measure(measured: Measured) -> Iterator[Finding]:
    """Yields the findings of `check` with the measured loss of precision of their outputs.

    A finding is dropped if the case's reference confirms all of its outputs. A finding is added for lossy outputs that
    have none yet.
    """
    numbers = measured.numbers
    if numbers is None:
        yield from measured.findings_of(RULE.id)
        return
    lossy = _find_lossy(measured)
    explained: set[str] = set()
    for finding in measured.findings_of(RULE.id):
        names = tuple(name for name in finding.outputs if name in lossy)
        explained.update(names)
        if names:
            evidence = (*finding.evidence, *(("replay", lossy[name]) for name in names))
            is_gone = any(numbers.rounded.get(name, 0.0) >= FAR for name in names)
            yield replace(
                finding,
                message=_describe(names, is_gone=is_gone),
                outputs=names,
                evidence=evidence,
            )
        elif not all(_is_near(numbers, name) for name in finding.outputs) or not finding.outputs:
            yield _with_measured(finding, numbers)
    rest = tuple(name for name in lossy if name not in explained)
    if rest:
        yield Finding(
            rule=RULE.id,
            severity=RULE.severity,
            message=_describe(rest),
            outputs=rest,
            source=measured.find_line(rest),
            evidence=tuple(("replay", lossy[name]) for name in rest),
            help="check the precision of the operations on the path; declare the write if these operations are a workaround",
        )


def find_rounded(measured: Measured) -> Mapping[str, str]:
    """Returns the outputs that the workaround already rounds in program order, each with a sentence about its error.

    A run in program order executes the addition and the subtraction, too. So the loss of precision shows only in a
    comparison with a run without them, or with the case's reference.
    """
    numbers = measured.numbers
    if numbers is None:
        return {}
    found: dict[str, str] = {}
    for name in dict.fromkeys(name for finding in measured.findings_of(RULE.id) for name in finding.outputs):
        lost, explained = numbers.rounded.get(name, 0.0), _find_tolerance(numbers, name)
        if lost > explained and not measured.outputs.get(name, Verdict.UNKNOWN).is_wrong:
            found[name] = (
                f"`{name}` in program order differs by {render_error(lost)} from its value without the addition and the"
                f" subtraction; rounding explains {render_error(explained)}"
            )
            continue
        error, tolerance = numbers.reference.get(name, 0.0), numbers.reference_tolerance.get(name, 0.0)
        if tolerance < error < FAR:
            found[name] = (
                f"`{name}` in program order differs by {render_error(error)} from the reference;"
                f" rounding explains {render_error(tolerance)}"
            )
    return found


def _find_lossy(measured: Measured) -> Mapping[str, str]:
    """Returns a map from output name to a sentence about the output's error, for each output that is rounded in program
    order or only in the schedule.

    A sum with one stale term among many looks like a rounded one, so outputs that miss a write are left out.
    """
    numbers = measured.numbers
    if numbers is None:
        return {}
    found = {
        name: render_difference(name, output.error, "program order", output.tolerance)
        for name, output in numbers.outputs.items()
        if output.attribution is Attribution.LOSSY
        and output.error > output.tolerance
        and not measured.outputs.get(name, Verdict.UNKNOWN).is_wrong
    }
    return found | dict(find_rounded(measured))


def _find_tolerance(numbers: Replay, name: str) -> float:
    return numbers.outputs[name].tolerance if name in numbers.outputs else FAR


def _with_measured(finding: Finding, numbers: Replay) -> Finding:
    """Returns the finding, or, if the loss of all its outputs is known and small, a copy whose message and evidence say
    so.
    """
    lost = {name: numbers.rounded[name] for name in finding.outputs if name in numbers.rounded}
    if not lost or len(lost) < len(finding.outputs):
        return finding
    if not all(error <= _find_tolerance(numbers, name) for name, error in lost.items()):
        return finding
    message = f"{finding.message.removesuffix(_NOT_MEASURED)}; on these arguments the loss is within rounding"
    evidence = (
        "replay",
        f"relative error {render_error(max(lost.values()))} compared with the program without this addition and subtraction",
    )
    return replace(finding, message=message, evidence=(*finding.evidence, evidence))


def _is_near(numbers: Replay, name: str) -> bool:
    """Returns whether the output's values in program order equal those of the case's reference, up to rounding."""
    return name in numbers.reference and numbers.reference[name] <= numbers.reference_tolerance.get(name, 0.0)


def _describe(names: tuple[str, ...], *, is_gone: bool = False) -> str:
    how = "rounded away by the workaround" if is_gone else "rounded more than the arithmetic explains"
    return f"{begin_sentence(names, 'is', 'are')} {how}"


LOSSY_SUM = make_example(
    about="A large sum orders the reader after the kernel, and most of the value that it reads is rounded away.",
    code="""\
def step(x, w):
    h = x @ w
    sums = sum_and_double(h)
    large = 1e5 * jnp.abs(sums).sum()
    h = h + large
    h = h - large
    return {"sums": sums, "back": h @ w.T}


def reference(x, w):
    h = x @ w
    return {"sums": h.sum(1), "back": 2 * h @ w.T}


CASE = Case(name="lossy", function=step, args=(Arg(shape=(8, 16)), Arg(shape=(16, 32))), reference=reference)
""",
)

NOTHING_LEFT = make_example(
    about="The whole value is rounded away, which needs no reference to show.",
    code="""\
def step(x, w):
    h = x @ w
    sums = sum_and_double(h)
    large = 1e10 * jnp.abs(sums).sum()
    h = h + large
    h = h - large
    return {"sums": sums, "back": h @ w.T}


CASE = Case(name="nothing_left", function=step, args=(Arg(shape=(8, 16)), Arg(shape=(16, 32))))
""",
)

RULE = Rule(
    id="LD012",
    name="lossy-workaround",
    severity=Severity.WARNING,
    kind=RuleKind.ROUNDING,
    summary="a term that is added and subtracted to make readers wait for a kernel rounds away small values",
    what_it_does="""\
Looks in the program as written for a value that a kernel overwrites and that is then read through `x + s - s`, where
`s` depends on the kernel's output: the trivial operations. A replay measures the loss. It runs program order once more
without the addition and the subtraction, and reports outputs that are farther from that than rounding explains; from
0.5 on they are wrong, see LD016. The rule also reports an output that is nearer to program order than to stale, and an
output that in program order is near the case's reference, if rounding does not explain the distance. If the reference
confirms every output that the pattern reaches, the rule reports nothing.""",
    why="""\
`x + s - s` makes every reader wait for the kernel, and on paper equals `x`. In floating point, `x + s` keeps only what
is not small beside `s`: with a loss of several thousand and gradients of a millionth, nothing remains. At a vocabulary
of 50304 the bias gradients were off by 25 %, with every schedule right. A Llama of 100M parameters had a gradient of
exactly zero on one H200, with every schedule right, and learned nothing.""",
    what_to_do="""\
Declare the write and read the declared output; it costs nothing and is exact.""",
    limits="""\
Other workarounds that round (a multiplication and a division) are found only by their numbers. Without a replay the
loss of the addition itself is unknown, and the finding says that it is not measured. A replay draws its arguments:
gradients that become small beside the loss as a model learns lose more. An error of 0.5 and more against the reference
alone is not rounding: see LD016.""",
    references=(
        "github.com/phlippe/liger_kernels (add_trivial_operations)",
        "docs/measurements: bias gradients on H200s",
    ),
    reproduced=(
        Reproduction(
            report="phlippe/liger_kernels (add_trivial_operations)",
            case="seed_flce[True-float32-True-4-2048-50304-1024]",
            reproduced=(
                "the gradient of the bias is off by 25 % on an H200, within the seed's own tolerance. Replay needs "
                "`--full`; `sharded_flce[batch-trivial]` is the small form"
            ),
            missing="a training run that it harms",
        ),
    ),
    bad=(LOSSY_SUM, NOTHING_LEFT),
    good=(ALIASED,),
    check=check,
    measure=measure,
    decided_by=DecidedBy.REPLAY,
)
