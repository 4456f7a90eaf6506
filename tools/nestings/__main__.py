"""Checks random nestings around `call_in_place`: `python -m tools.nestings FIRST COUNT FOLDER`.

Each program is compiled, judged and replayed as `ligerdiag check` does it, in the environment of this Python, and
compared with plain jnp. Prints each program that is wrong, has no numbers or is not called fresh, then the figures. Exit
code 1 where a program is wrong or has no numbers.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from time import perf_counter

from ligerdiag.api import CheckOptions, check
from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import CaseReport
from tools.nestings.drawing import draw_line, write_program

BATCH = 25
"""Programs of one file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One program."""

    name: str
    fault: str
    """Why there are no numbers; empty where there are."""
    wrong: tuple[str, ...] = ()
    """Outputs that differ from plain jnp, as the program means them or as the schedule computes them."""
    false_fresh: tuple[str, ...] = ()
    """Those of them that are called fresh."""
    alarms: tuple[str, ...] = ()
    """Outputs that are right, and called anything but fresh; and findings."""
    error: float = 0.0
    """The largest relative difference from plain jnp."""


def has_refs() -> bool:
    """Returns whether the jax-triton that is installed takes Refs."""
    return [int(part) for part in version("jax-triton").split(".")[:2]] >= [0, 4]


def read_outcome(report: CaseReport) -> Outcome:
    """Returns what a report says about its program."""
    replay = report.replay
    if report.error or replay is None or replay.state.value != "done" or not replay.reference:
        reason = report.error or ("not replayed" if replay is None else f"{replay.state.value}: {replay.reason}")
        return Outcome(name=report.id, fault=reason)
    wrong = tuple(
        name
        for name, numbers in replay.outputs.items()
        if not (numbers.error <= numbers.tolerance and replay.reference[name] <= replay.reference_tolerance[name])
    )
    return Outcome(
        name=report.id,
        fault="",
        wrong=wrong,
        false_fresh=tuple(name for name in wrong if report.outputs[name] is Verdict.FRESH),
        alarms=(
            *(
                f"{name} {verdict.value}"
                for name, verdict in report.outputs.items()
                if verdict is not Verdict.FRESH and name not in wrong
            ),
            *(finding.rule for finding in report.findings),
            *(str(one) for one in report.disagreements),
        ),
        error=max(
            max(replay.reference.values(), default=0.0),
            max((one.error for one in replay.outputs.values()), default=0.0),
        ),
    )


def iterate_outcomes(seeds: Sequence[int], folder: Path, *, refs: bool) -> Iterator[Outcome]:
    """Yields the outcome of each program; writes their files into the folder, which holds the cache, too."""
    folder.mkdir(parents=True, exist_ok=True)
    for start in range(0, len(seeds), BATCH):
        path = folder / f"nestings_{seeds[start]}.py"
        path.write_text(write_program(seeds[start : start + BATCH], refs=refs), encoding="utf-8")
        options = CheckOptions(selectors=(str(path),), cache_directory=folder / "cache", source_roots=(folder,))
        yield from map(read_outcome, check(options).cases)


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args(arguments)
    refs, counts, worst, began = has_refs(), Counter[str](), 0.0, perf_counter()
    for one in iterate_outcomes(range(given.first, given.first + given.count), given.folder, refs=refs):
        worst = max(worst, one.error)
        kind = "no numbers" if one.fault else "wrong" if one.wrong else "right, not fresh" if one.alarms else "right"
        counts[kind] += 1
        counts["fresh and wrong"] += bool(one.false_fresh)
        if kind != "right":
            line = draw_line(int(one.name.rpartition("_")[2]), refs=refs)
            sys.stdout.write(f"{kind}: {one.fault[:600]} {one.wrong} {one.alarms}\n    {line}\n")
            sys.stdout.flush()
    figures = ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items()))
    seconds = perf_counter() - began
    release = version("jax-triton")
    sys.stdout.write(f"jax-triton {release}: {figures}; largest relative error {worst:.1e}; {seconds:.0f} s\n")
    return int(bool(counts["wrong"] or counts["no numbers"]))


if __name__ == "__main__":
    sys.exit(main())
