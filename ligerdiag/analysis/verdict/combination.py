"""One verdict out of several.

A program whose order of operations is not known stands for several programs of one schedule.
  (1) An output in which they differ is unknown.
  (2) A read in which they differ is unknown, and so is one that reaches an output of (1).

A module that has no schedule yet stands for all the schedules that it could have (see `synthetic_schedules`). An output is
  (3) forced   fresh under each of them;
  (4) open     else, right under one of them: the order decides, and nothing forces it;
  (5) lost     wrong under each: no order can mend that;
  (6) unknown  else.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from ligerdiag.findings import Verdict
from ligerdiag.schedule_view import ReadKind

_RIGHT = frozenset({Verdict.FRESH, Verdict.LATENT})
_WRONG = frozenset({Verdict.STALE, Verdict.CLOBBERED})


class Standing(StrEnum):
    """How an output stands before the order is decided."""

    FORCED = "forced"
    OPEN = "open"
    LOST = "lost"
    UNKNOWN = "unknown"


def join_outputs(programs: Sequence[Mapping[str, Verdict]]) -> dict[str, Verdict]:
    """Output name to verdict, (1). programs: the same of each program; at least one."""
    first, *others = programs
    return {
        name: verdict if all(other.get(name) is verdict for other in others) else Verdict.UNKNOWN
        for name, verdict in first.items()
    }


def join_read(kind: ReadKind, others: Sequence[ReadKind | None], *, reaches_unknown: bool) -> ReadKind:
    """The kind of a read, (2). others: its kinds by the other programs, None where it is not read by one."""
    return kind if not reaches_unknown and all(other is kind for other in others) else ReadKind.UNKNOWN


def find_standing(verdicts: set[Verdict]) -> Standing:
    """(3) to (6). verdicts: under each of the schedules."""
    if verdicts == {Verdict.FRESH}:
        return Standing.FORCED
    if verdicts & _RIGHT:
        return Standing.OPEN
    return Standing.LOST if verdicts <= _WRONG else Standing.UNKNOWN


def choose_verdict(standing: Standing, early: Verdict) -> Verdict:
    """The verdict on an output without a schedule. early: that of the schedule in which kernels run first."""
    match standing:
        case Standing.FORCED:
            return Verdict.FRESH
        case Standing.OPEN:
            return Verdict.LATENT
        case Standing.LOST:
            return early
        case Standing.UNKNOWN:
            return Verdict.UNKNOWN
