"""Checks drawn programs, and compares each output with plain jnp."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from ligerdiag.api import CheckOptions, check
from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import CaseReport
from ligerdiag.rules.registry import get_rule
from ligerdiag.rules.rule import RuleKind
from tools.nestings.drawing import write_program

BATCH = 25
"""Programs per file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of one program."""

    name: str
    fault: str
    """Why there are no numbers; empty if there are."""
    wrong: tuple[str, ...] = ()
    """Outputs that differ from plain jnp, in program order or in the schedule."""
    false_fresh: tuple[str, ...] = ()
    """Those of them that are called fresh."""
    alarms: tuple[str, ...] = ()
    """Right outputs that are not called fresh; and findings."""
    error: float = 0.0
    """The largest relative difference from plain jnp."""


def has_refs() -> bool:
    """Returns whether the installed jax-triton takes Refs."""
    return [int(part) for part in version("jax-triton").split(".")[:2]] >= [0, 4]


def read_outcome(report: CaseReport) -> Outcome:
    """Returns the outcome of a program from its report."""
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
            *(one.rule for one in report.findings if get_rule(one.rule).kind is not RuleKind.QUESTION),
            *(str(one) for one in report.disagreements),
        ),
        error=max(
            max(replay.reference.values(), default=0.0),
            max((one.error for one in replay.outputs.values()), default=0.0),
        ),
    )


def iterate_outcomes(seeds: Sequence[int], folder: Path, *, refs: bool) -> Iterator[Outcome]:
    """Yields the outcome of each program; writes case files into the folder, which also has the cache."""
    folder.mkdir(parents=True, exist_ok=True)
    for start in range(0, len(seeds), BATCH):
        path = folder / f"nestings_{seeds[start]}.py"
        path.write_text(write_program(seeds[start : start + BATCH], refs=refs), encoding="utf-8")
        options = CheckOptions(selectors=(str(path),), cache_directory=folder / "cache", source_roots=(folder,))
        yield from map(read_outcome, check(options).cases)
