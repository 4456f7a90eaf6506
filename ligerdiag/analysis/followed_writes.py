"""The hidden writes that a schedule performs, and the ways of the values that they overwrite."""

from collections.abc import Iterator
from dataclasses import dataclass

from ligerdiag.analysis.evaluated_pair import EvaluatedPair
from ligerdiag.analysis.memory import ActualWrite
from ligerdiag.analysis.value_flow import ValueFlow
from ligerdiag.analysis.value_readers import Overwritten, ValueReaders
from ligerdiag.analysis.writes import HiddenWrite


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Performed:
    """A hidden write that the schedule performs, and the value that it hits."""

    write: HiddenWrite
    actual: ActualWrite
    overwritten: Overwritten
    kernel: int
    """Id of the step that runs the kernel."""


@dataclass(frozen=True, slots=True, eq=False)
class FollowedWrites:
    """What is computed from what in a schedule, kernels included."""

    flow: ValueFlow
    performed: tuple[Performed, ...]
    """In program order, the calls of one write by LogicalTime; () without a schedule."""


def follow_writes(pair: EvaluatedPair) -> FollowedWrites:
    """Finds every overwritten value, and adds the kernels to the flow of the schedule."""
    flow = ValueFlow(ValueReaders(pair))
    performed = tuple(_list_performed(pair, flow)) if pair.optimized.is_scheduled else ()
    for one in performed:
        flow.add_write(one.write.index, one.overwritten)
    return FollowedWrites(flow, performed)


def _list_performed(pair: EvaluatedPair, flow: ValueFlow) -> Iterator[Performed]:
    times = flow.readers.times
    for write in pair.writes:
        calls = [actual for actual in pair.matching.actual if actual.write == write.index]
        for actual in sorted(calls, key=lambda one: times.get(one.call.id, 0)):
            overwritten = flow.readers.find_overwritten(write, actual)
            kernel = flow.find_step(overwritten.kernel.id)
            yield Performed(write=write, actual=actual, overwritten=overwritten, kernel=kernel)
