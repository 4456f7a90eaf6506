"""Rungs of one ladder: cases of one table that differ only in their measure against a kernel's hidden write.

1. A case's mitigation is the one it names (`Case.mitigation`), else the one of its params that is a usual word.
2. Siblings have the same source, the same name, the same params except for one, and each has a mitigation of its own.
"""

from collections.abc import Sequence

from ligerdiag.compile.job import CaseSpec

USUAL_WORDS = ("hidden", "trivial", "barrier", "aliased", "out_of_place", "shard_map")
"""The order of the rungs, from no declaration to the most explicit one."""


def find_mitigation(case: CaseSpec) -> str:
    """Returns the case's measure against a hidden write; empty when it names none."""
    if case.mitigation:
        return case.mitigation
    words = [param for param in case.params if param in USUAL_WORDS]
    return words[0] if len(words) == 1 else ""


def find_siblings(case: CaseSpec, table: Sequence[CaseSpec]) -> tuple[CaseSpec, ...]:
    """Returns the case and its siblings in the table, usual words first and in their order; empty when it has no
    mitigation.

    Where two of them have the same mitigation, the first one stands.
    """
    own = find_mitigation(case)
    rungs = {own: case} if own else {}
    for other in table if own else ():
        word = find_mitigation(other)
        if word and _is_sibling(case, other):
            rungs.setdefault(word, other)
    order = [*USUAL_WORDS, *(word for word in rungs if word not in USUAL_WORDS)]
    return tuple(rungs[word] for word in order if word in rungs)


def _is_sibling(one: CaseSpec, other: CaseSpec) -> bool:
    if (one.source, one.name, len(one.params)) != (other.source, other.name, len(other.params)):
        return False
    return sum(mine != theirs for mine, theirs in zip(one.params, other.params, strict=True)) == 1
