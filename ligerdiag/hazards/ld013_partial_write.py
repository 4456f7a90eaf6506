"""LD013 partial-write: the kernel leaves elements of an output as they were, and that is nothing in particular."""

from collections.abc import Iterator

from ligerdiag.findings import Finding, Severity
from ligerdiag.hazards.examples import ALIASED
from ligerdiag.hazards.measured import Measured
from ligerdiag.hazards.measured_examples import HALF_WRITTEN
from ligerdiag.hazards.rule import Rule, Settled, check_nothing


def measure(measured: Measured) -> Iterator[Finding]:
    """One finding for each output of a call with elements that no program of the grid wrote."""
    numbers = measured.numbers
    for launch in numbers.launches if numbers is not None else ():
        for output, (unwritten, elements) in launch.unwritten.items():
            if not unwritten:
                continue
            yield Finding(
                rule=RULE.id,
                severity=RULE.severity,
                message=f"`{launch.kernel}` leaves {unwritten} of {elements} elements of its output {output} unwritten",
                kernel=launch.kernel,
                instructions=(launch.instruction,),
                evidence=(("replay", f"%{launch.instruction}, worst of {launch.launches} launches"),),
                help="write every element, or alias the output to an operand that holds what is to stay there",
            )


RULE = Rule(
    id="LD013",
    name="partial-write",
    severity=Severity.WARNING,
    summary="an output that the kernel does not write completely",
    what_it_does="""\
Replay runs each kernel of the schedule and counts, output by output, the elements that no program of its grid stored to.
An output that is aliased to an operand holds the operand's values there, and is not counted.""",
    why="""\
XLA takes an output for written. What the kernel leaves out is whatever stood in those bytes before: zeros in a test,
somebody else's activations in a training run, NaN once in a while.""",
    what_to_do="""\
Make the grid and the masks cover the output; or alias the output to an operand that holds the values that are to stay.""",
    limits="""\
Needs a replay, and holds for the inputs drawn. Whether anybody reads those elements is not asked: padding that is cut off
later is reported all the same. That is why it is a warning.""",
    references=("github.com/jax-ml/jax/issues/20227", "github.com/jax-ml/jax/issues/24023"),
    bad=(HALF_WRITTEN,),
    good=(ALIASED,),
    check=check_nothing,
    measure=measure,
    settled=Settled.BY_REPLAY,
)
