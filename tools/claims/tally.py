"""Runs many mutations of pairs, one after the other, and counts their outcomes."""

import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from time import perf_counter

from tools.claims import buffers, kernels, metadata
from tools.claims.judging import Judged, find_improved, judge
from tools.claims.mutation import MUTATIONS, Mutation
from tools.claims.pairs import Pair

KINDS = (metadata, buffers, kernels)
"""The files that register mutations."""


@dataclass(slots=True)
class Tally:
    """The outcomes of the mutations so far."""

    done: int = 0
    outcomes: Counter[str] = field(default_factory=Counter[str])
    kinds: Counter[str] = field(default_factory=Counter[str])
    contradictions: list[str] = field(default_factory=list[str])
    """Outputs that are better than the mutation's claim allows, a line for each mutation."""
    tracebacks: list[str] = field(default_factory=list[str])
    seconds: float = 0.0
    slowest: float = 0.0

    def render(self) -> str:
        """Returns lines for a terminal."""
        rate = self.done / self.seconds if self.seconds else 0.0
        return "\n".join([
            f"{self.done} mutations in {self.seconds:.1f} s, {rate:.0f} a second; slowest {self.slowest:.2f} s",
            f"ended: {dict(self.outcomes.most_common())}",
            f"kinds: {dict(self.kinds.most_common())}",
            *self.contradictions[:40],
            *self.tracebacks[:5],
            f"{len(self.contradictions)} better than claimed, {len(self.tracebacks)} tracebacks",
        ])  # fmt: skip


def run(pairs: Sequence[Pair], first: int, count: int, effects_cache: Path) -> Tally:
    """Runs the mutations with the numbers `first` to `first + count - 1`; a number always gives the same mutation."""
    tally = Tally()
    before = {pair.name: judge(pair, effects_cache) for pair in pairs}
    started = perf_counter()
    for number in range(first, first + count):
        _run_one(number, pairs, before, effects_cache, tally)
    tally.seconds = perf_counter() - started
    return tally


def mutate(pairs: Sequence[Pair], number: int) -> tuple[Pair, list[Mutation]]:
    """Returns the changed pair of this number, and a description: one mutation, at times two."""
    random = Random(number)
    pair = random.choice(pairs).copy()
    names, weights = list(MUTATIONS), [one.weight for one in MUTATIONS.values()]
    wanted = 2 if random.random() < 0.15 else 1
    applied: list[Mutation] = []
    while len(applied) < wanted:
        one = MUTATIONS[random.choices(names, weights)[0]]
        try:
            is_changed = one.apply(pair, random)
        except (IndexError, KeyError, ValueError):  # an earlier mutation has left nothing of its kind
            is_changed = False
        if is_changed:
            applied.append(one)
        if is_changed and one.is_last:
            break
    return pair, applied


def _run_one(number: int, pairs: Sequence[Pair], before: dict[str, Judged], effects_cache: Path, tally: Tally) -> None:
    pair, applied = mutate(pairs, number)
    words = "+".join(one.name for one in applied)
    started = perf_counter()
    try:
        after = judge(pair, effects_cache)
    except Exception:
        tally.tracebacks.append(f"{number} {pair.name} {words}\n{traceback.format_exc(limit=-4)}")
        after = Judged(refusal="traceback")
    tally.slowest = max(tally.slowest, perf_counter() - started)
    tally.done += 1
    tally.kinds.update(one.name for one in applied)
    was = before[pair.name]
    improved = find_improved(was, after, [one.claim for one in applied])
    if improved:
        tally.contradictions.append(f"{number} {pair.name} {words}: {', '.join(improved)}")
    tally.outcomes["refused" if after.refusal else "as before" if after.outputs == was.outputs else "other"] += 1
