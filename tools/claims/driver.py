"""Runs many mutations of all kinds of input, one after the other, and counts their outcomes.

A number always gives the same mutation, whatever ran before it: a run that was ended continues at its next number.
"""

import gc
import resource
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from time import perf_counter, process_time

from tools.claims.trial import Kind, Trial
from tools.fuzz_inspect import MEMORY, SECONDS, Hang, limits, watched

WEIGHTS: Mapping[str, int] = {"pairs": 68, "triton": 3, "text": 5, "artifacts": 8, "caches": 4, "baselines": 12}
"""Relative frequency of each kind; slow kinds are rare."""
ASLEEP = 90.0
"""Wall seconds after which a mutation that uses no processor time counts as hanging; the machine may be busy."""
_SHOWN = 40


@dataclass(slots=True)
class Totals:
    """The outcomes of the mutations so far."""

    done: Counter[str] = field(default_factory=Counter[str])
    """Number of mutations by kind."""
    outcomes: Counter[str] = field(default_factory=Counter[str])
    """Number of mutations by `kind: outcome`."""
    wrong: list[str] = field(default_factory=list[str])
    """Verdicts better than the claim, a line for each mutation."""
    tracebacks: list[str] = field(default_factory=list[str])
    invalid: list[str] = field(default_factory=list[str])
    """JSON output that does not meet its schema."""
    slow: list[str] = field(default_factory=list[str])
    """Mutations above the bound on processor time."""
    large: list[str] = field(default_factory=list[str])
    """Mutations after which the process had exceeded the bound on memory."""
    slowest: tuple[float, str] = (0.0, "")
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    """Wall seconds by kind."""
    memory: int = 0
    first_memory: int = field(default_factory=lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)
    """MiB of the process's peak before the first mutation; it counts against none."""
    """MiB that the process had at most."""
    next_seed: int = 0

    @property
    def is_good(self) -> bool:
        """Returns whether nothing is wrong."""
        return not self.list_faults()

    def list_faults(self) -> list[str]:
        """Returns everything that is wrong, in words, in the order of the mutations."""
        named = {
            "wrong": self.wrong,
            "---": self.tracebacks,
            "schema": self.invalid,
            "slow": self.slow,
            "large": self.large,
        }
        found = [f"{word} {line}" for word, lines in named.items() for line in lines]
        return sorted(found, key=lambda line: int(line.split(maxsplit=2)[1]))

    def render_counts(self) -> str:
        """Returns one line."""
        return (
            f"{len(self.wrong)} wrong fresh, {len(self.tracebacks)} tracebacks, {len(self.slow)} above {SECONDS} s,"
            f" {len(self.large)} above {MEMORY >> 20} MiB, {len(self.invalid)} against the schema"
        )

    def render(self) -> str:
        """Returns lines for a terminal."""
        return "\n".join([
            f"{self.done.total()} mutations in {sum(self.seconds.values()):.0f} s: "
            + ", ".join(f"{kind} {number} ({self.seconds[kind]:.0f} s)" for kind, number in self.done.items()),
            f"ended: {dict(sorted(self.outcomes.items()))}",
            f"slowest {self.slowest[0]:.1f} s of a processor ({self.slowest[1]}); largest memory {self.memory} MiB",
            *self.list_faults()[:_SHOWN],
            self.render_counts(),
        ])  # fmt: skip


def run(kinds: Sequence[Kind], first: int, count: int, show_totals: Callable[[Totals], None] | None = None) -> Totals:
    """Runs the mutations with the numbers `first` to `first + count - 1`; after Ctrl-C returns those so far."""
    totals = Totals(next_seed=first)
    weights = [WEIGHTS[kind.name] for kind in kinds]
    with suppress(KeyboardInterrupt), limits():
        for number in range(first, first + count):
            random = Random(number)
            _run_one(number, random.choices(kinds, weights)[0], random, totals)
            totals.next_seed = number + 1
            if show_totals is not None:
                show_totals(totals)
    return totals


def _run_one(number: int, kind: Kind, random: Random, totals: Totals) -> None:
    started, by_the_clock = process_time(), perf_counter()
    trial: Trial | None = None
    try:
        with watched(ASLEEP):
            trial = kind.run(random)
    except Hang:
        totals.slow.append(f"{number} {kind.name}")
    except Exception:
        totals.tracebacks.append(f"{number} {kind.name}\n{traceback.format_exc(limit=-5)}")
    seconds = process_time() - started
    words = f"{number} {kind.name} {trial.words if trial is not None else ''}".rstrip()
    totals.done[kind.name] += 1
    totals.seconds[kind.name] = totals.seconds.get(kind.name, 0.0) + perf_counter() - by_the_clock
    totals.slowest = max(totals.slowest, (seconds, words))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    if memory > totals.first_memory + (MEMORY >> 20) and memory > totals.memory:
        totals.large.append(words)
    totals.memory = max(totals.memory, memory)
    if trial is None:
        gc.collect()
        return
    if seconds > SECONDS:
        totals.slow.append(words)
    totals.outcomes[f"{kind.name}: {trial.outcome.value}"] += 1
    for found, into in (
        (trial.contradictions, totals.wrong),
        (trial.tracebacks, totals.tracebacks),
        (trial.invalid, totals.invalid),
    ):
        if found:
            into.append(f"{words}: {'; '.join(found)}")
