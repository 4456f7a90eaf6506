"""LD011 incidental-sharing: an output and an operand share bytes, and the kernel is not made for that."""

from collections.abc import Iterator

from ligerdiag.findings import Finding, Severity
from ligerdiag.hazards.measured import Measured, render_error
from ligerdiag.hazards.measured_examples import REVERSED_IN_PLACE, REVERSED_OUT_OF_PLACE
from ligerdiag.hazards.measured_reports import INCIDENTAL_SHARING
from ligerdiag.hazards.rule import Rule, Settled, check_nothing

ROUNDING = 1e-5
"""Relative difference that the order of atomic additions in f32 may make; a race moves whole elements."""


def measure(measured: Measured) -> Iterator[Finding]:
    """One finding for each call and operand whose sharing changes the call's results."""
    numbers = measured.numbers
    for launch in numbers.launches if numbers is not None else ():
        for operand, difference in launch.racing.items():
            if difference <= ROUNDING:
                continue
            yield Finding(
                rule=RULE.id,
                severity=RULE.severity,
                message=f"`{launch.kernel}` is not safe in place: operand {operand} shares bytes with an output",
                kernel=launch.kernel,
                operand=operand,
                instructions=(launch.instruction,),
                evidence=(
                    (
                        "replay",
                        f"the results of %{launch.instruction} differ by {render_error(difference)} when the programs of"
                        " its grid run in another order, or on bytes that are not shared",
                    ),
                ),
                help="give the output bytes of its own, or have each program read all that it overwrites, and only that",
            )


RULE = Rule(
    id="LD011",
    name="incidental-sharing",
    severity=Severity.ERROR,
    summary="an output shares bytes with an operand, and the kernel is not safe in place",
    what_it_does="""\
Replay runs each kernel on the bytes that XLA gave it. Where an output stands in the bytes of an operand, declared or
because XLA found the operand dead, it runs the kernel again, with the programs of its grid in another order and on bytes
that are not shared, and compares what comes out.""",
    why="""\
The programs of a grid run in any order, many at a time. One that reads what another has overwritten already sees the
result in the place of the input: a transposition in place, a neighbour's element, a row that is normalised by a sum read
later. Whether the bytes are shared is up to the buffer assignment, so that the same kernel is right in one program and
half wrong in another.""",
    what_to_do="""\
Do not alias what the kernel does not read and overwrite element by element. Or have each program load all of what it
stores over before it stores, and nothing of what others store over.""",
    limits="""\
Needs a replay. Two orders are tried, first to last and last to first; a race that needs another one, or two programs at
the same time, is not seen. Differences up to 1e-5 count as the rounding of atomic additions.""",
    references=(
        "github.com/NVIDIA/TransformerEngine/pull/2730 (half of the gradients wrong, in the full test suite only)",
        "github.com/NVIDIA/TransformerEngine/pull/2975",
    ),
    reproduced=INCIDENTAL_SHARING,
    bad=(REVERSED_IN_PLACE,),
    good=(REVERSED_OUT_OF_PLACE,),
    check=check_nothing,
    measure=measure,
    settled=Settled.BY_REPLAY,
)
