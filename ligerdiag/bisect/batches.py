"""Many trials of one axis, a few at a time, so that Ctrl-C loses little of what is known."""

from collections.abc import Iterator, Sequence
from itertools import batched

from ligerdiag.bisect.laboratory import Laboratory
from ligerdiag.bisect.trial import Outcome, Trial

ROUNDS = 2
"""Trials of a batch, for each worker."""


def try_in_batches(laboratory: Laboratory, trials: Sequence[Trial]) -> Iterator[tuple[Outcome, ...]]:
    """Yields what is known after each batch: the outcomes of the first trials, in order, in the end of all."""
    known: tuple[Outcome, ...] = ()
    for batch in batched(trials, ROUNDS * laboratory.jobs):
        known += laboratory.try_all(batch)
        yield known
