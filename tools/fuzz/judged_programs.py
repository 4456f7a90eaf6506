"""Defines the row of each program of a campaign: verdicts, numbers, and contradictions between them."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Annotated

from ligerdiag.codec import FieldError, parse_record
from ligerdiag.ending import Ending
from ligerdiag.errors import InputError
from ligerdiag.model.findings import Attribution, OutputNumbers, ReplayState, Verdict
from ligerdiag.model.report import CaseReport
from ligerdiag.report.agreement import find_mixed, find_order_changes, find_unreached
from ligerdiag.rules.registry import list_ids
from ligerdiag.rules.rule import RuleKind
from ligerdiag.run_options import Jobs, Option
from tools.fuzz.more_draws import WRONG as FAR_ABOVE
from tools.fuzz.more_draws import DrawsAnswer, Word
from tools.fuzz.programs import find_kind

_REFERENCE = list_ids(RuleKind.REFERENCE)
_CHANGED_BY_JAX = list_ids(RuleKind.CHANGED_BY_JAX)
_SHARED_BYTES = list_ids(RuleKind.SHARED_BYTES)
_UNROLLED = "unrolled"
_ABORTED = "was aborted"
"""Part of the error of a case whose worker XLA aborted."""
CALLED_WRONG = tuple(one for one in Verdict if one.is_wrong)
CALLED_RIGHT = tuple(one for one in Verdict if one.is_right)
_WRONG_NUMBERS = tuple(one for one in Attribution if one.is_wrong)
DEVICE = "device"
"""The target in a row of a campaign on GPUs."""
_ALARMS = ("verdict-stale-right", "verdict-clobbered-right", "opaque-stale-right", "opaque-clobbered-right")
_WITHOUT_LOOK = {"fresh": "right", "lossy": "alike", "undecided": "alike"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FuzzOptions:
    """Options of a campaign: its programs, and how they are judged."""

    directory: Path
    first: int = 0
    """The first seed."""
    count: Annotated[int, Option("--count", min=1, metavar="N", help="Number of seeds.")] = 100
    minutes: Annotated[
        float | None,
        Option("--minutes", min=0.0, metavar="N", help="Begin no program after N minutes. [default: none]"),
    ] = None
    target: Annotated[str, Option("--target", metavar="NAME", help="The GPU to compile for.")] = "h100"
    jobs: Jobs = None
    timeout: Annotated[
        float,
        Option("--timeout", min=0.001, metavar="SECONDS", help="Longest time to compile a program, or to replay it."),
    ] = 120.0
    orders: Annotated[
        int, Option("--orders", min=0, metavar="N", help="Also replay each schedule in N other legal orders.")
    ] = 4
    shrink: Annotated[bool, Option("--shrink/--no-shrink", help="Make contradictions smaller.")] = True
    scheduler: Annotated[
        str | None,
        Option("--scheduler", metavar="ADDRESS", help="Judge the programs on the workers of a Dask scheduler."),
    ] = None

    def find_until(self) -> float | None:
        """Returns the time, in seconds since the epoch, after which no program begins; None for no limit."""
        return None if self.minutes is None else time.time() + self.minutes * 60


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedProgram:
    """One line of `programs.jsonl`."""

    seed: int
    target: str
    outputs: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Output name to its verdict and the attribution of its numbers, `none` without numbers."""
    looks: Mapping[str, tuple[str, float]] = field(default_factory=dict[str, tuple[str, float]])
    """Output name to the result of more draws, and the largest ratio; see `more_draws`. Empty without more draws."""
    draws: int = 0
    contradictions: Mapping[str, str] = field(default_factory=dict[str, str])
    """Kind to a sentence."""
    opaque: Mapping[str, str] = field(default_factory=dict[str, str])
    """Output name to the result of the replay with opaque functions: `right`, `wrong` or `alike`, as in `looks`. Right
    ones are those that would differ if the output were stale. Empty without such a replay.
    """
    tried: int = 0
    """Number of other legal orders in which it was replayed."""
    moved: Mapping[str, float] = field(default_factory=dict[str, float])
    """Output name to its largest change in another order; see `OrderNumbers.changed`."""
    limits: Mapping[str, str] = field(default_factory=dict[str, str])
    """Contradictions that a known limit explains: a right output is called wrong around a loop that XLA unrolled."""
    notes: tuple[str, ...] = ()
    """Notes on what the analysis does not cover."""
    unlike: tuple[str, ...] = ()
    """Names of the outputs for which program order, on numbers, differs from the formulas in plain jnp by more than
    rounding (`more_draws`).
    """
    shared: tuple[str, ...] | None = None
    """Names of the outputs that depend on bytes in which XLA keeps two values: only a GPU shows which of the two is left.
    None in rows that do not say so.
    """
    unjudged: str = ""
    """Why there are no numbers to compare the verdict with: XLA aborts, or replay does not cover the program."""


@dataclass(slots=True, kw_only=True)
class FuzzReport:
    """The results of all programs in the directory."""

    rows: dict[int, JudgedProgram] = field(default_factory=dict[int, JudgedProgram])
    """By seed."""
    judged: int = 0
    """Number of programs of this run."""
    seconds: float = 0.0
    """Processor seconds of this run, without shrinking."""
    files: tuple[Path, ...] = ()
    """Case files of contradictions that this run wrote."""
    left_out: int = 0
    """Number of programs that need more GPUs than there are."""
    faults: tuple[str, ...] = ()
    """A line for each process that ended early; the next run judges its remaining programs."""
    ended_by: Ending | None = None

    def count_outputs(self) -> Counter[tuple[str, str]]:
        """Counts outputs by verdict and by the word of `find_outcomes` for all draws."""
        return Counter(
            (static, words)
            for row in self.rows.values()
            for (static, _), words in zip(row.outputs.values(), find_outcomes(row).values(), strict=True)
        )

    def list_unjudged(self) -> list[tuple[int, str]]:
        """Returns the seeds of programs without numbers, with the reasons."""
        return [(seed, row.unjudged) for seed, row in sorted(self.rows.items()) if row.unjudged]

    def count_excused(self) -> int:
        """Counts programs with a contradiction that a known limit explains."""
        return sum(bool(row.limits) for row in self.rows.values())

    def list_contradictions(self) -> list[tuple[int, str]]:
        """Returns the seed and a sentence for each contradiction."""
        return [(seed, words) for seed, row in sorted(self.rows.items()) for words in row.contradictions.values()]


def load_rows(directory: Path, target: str) -> dict[int, JudgedProgram]:
    """Returns the judged programs by seed. Raises InputError for a broken file, or programs of another target."""
    rows = load_known(JudgedProgram, directory / "programs.jsonl")
    others = {row.target for row in rows} - {target}
    if others:
        raise InputError(f"expected programs for {target} but `{directory}` has some for {', '.join(sorted(others))}")
    return {row.seed: row for row in rows}


def load_known[R](kind: type[R], path: Path) -> list[R]:
    """Returns the rows of the file, and removes an incomplete last line from it. Raises InputError for a broken line."""
    if not path.exists():
        return []
    *lines, rest = path.read_text(encoding="utf-8").split("\n")
    if rest:
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    rows: list[R] = []
    for number, line in enumerate(lines, 1):
        try:
            rows.append(parse_record(kind, line))
        except FieldError as error:
            raise InputError(f"expected a program in line {number} of `{path}` but: {error}") from error
    return rows


def judge_case(case: CaseReport) -> JudgedProgram:
    """Returns the row of one program: verdicts, numbers and contradictions by the first draw."""
    numbers: Mapping[str, OutputNumbers] = case.replay.outputs if case.replay is not None else {}
    unjudged = case.error
    if case.replay is not None and case.replay.state is not ReplayState.DONE:
        unjudged = f"{case.replay.state.value}: {case.replay.reason}"
    orders = case.replay.orders if case.replay is not None else None
    return JudgedProgram(
        seed=read_seed(case),
        target=case.target,
        outputs={
            name: (verdict.value, numbers[name].attribution.value if name in numbers else "none")
            for name, verdict in case.outputs.items()
        },
        contradictions=dict(_find_contradictions(case)),
        tried=0 if orders is None else orders.tried,
        moved={} if orders is None else {name: one.error for name, one in orders.changed.items()},
        notes=case.coverage.not_covered,
        opaque=_find_opaque(case),
        unlike=_list_unlike(case),
        shared=tuple(sorted({name for one in case.findings if one.rule in _SHARED_BYTES for name in one.outputs})),
        unjudged=unjudged,
    )


def list_trusted(row: JudgedProgram) -> tuple[str, ...]:
    """Returns the names of the outputs that are called right."""
    return tuple(name for name, (verdict, _) in row.outputs.items() if verdict in CALLED_RIGHT)


def list_doubted(row: JudgedProgram) -> tuple[str, ...]:
    """Returns the names of the outputs that are called wrong, and that the first draw does not show to be wrong."""
    return tuple(
        name
        for name, (verdict, numbers) in row.outputs.items()
        if verdict in CALLED_WRONG and numbers not in ("none", *_WRONG_NUMBERS)
    )


def add_looks(row: JudgedProgram, more: DrawsAnswer) -> JudgedProgram:
    """Returns the row with the result of more draws, and the contradictions by all draws."""
    return find_contradictions(
        replace(
            row,
            looks={name: (word.value, more.ratios[name]) for name, word in more.words.items()},
            draws=more.draws,
        )
    )


def find_outcomes(row: JudgedProgram) -> dict[str, str]:
    """Returns a map from output name to `right`, `wrong` or `alike` by several draws, `none` without numbers.

    An output is wrong if one draw shows it, by more than rounding. The numbers of a GPU also count within the tolerance
    of the dtypes, and so does the first replay if it gives the stale value or if there are no more draws. An output is
    wrong, too, if program order differs from the reference: JAX drops kernels, and moves reads of Refs. An output that
    depends on bytes in which XLA keeps two values is never right: replay gives each value bytes of its own.
    """
    found: dict[str, str] = {}
    for name, (_, numbers) in row.outputs.items():
        look, _ = row.looks.get(name, ("", 0.0))
        if name in row.unlike or (
            numbers in _WRONG_NUMBERS and (not look or row.target == DEVICE or numbers != Attribution.NEITHER)
        ):
            found[name] = Word.WRONG.value
        elif look:
            found[name] = look
        else:
            found[name] = _WITHOUT_LOOK.get(numbers, "none")
        if name in (row.shared or ()) and found[name] == Word.RIGHT.value:
            found[name] = Word.ALIKE.value
    return found


def _find_contradictions(case: CaseReport) -> Iterator[tuple[str, str]]:
    """Yields the kind of each contradiction by the first draw, and a sentence."""
    if case.error and _ABORTED not in case.error:
        yield "fault", case.error
    if case.failures:
        yield "fault", case.failures[0].message
    if case.replay is not None and case.replay.state is ReplayState.FAILED:
        yield "fault", f"replay failed: {case.replay.reason}"
    moved = find_order_changes(case.outputs, case.replay)
    for name, one in moved.items():
        yield "order", f"`{name}` is fresh by its schedule, and changes by {one.error:.2g} with {one.order}"
    by_numbers = [one for one in case.disagreements if "opaque" not in dict(one.evidence)]
    for one in [one for one in by_numbers if one.output not in moved]:
        yield f"verdict-{one.static.value}-{one.numbers.value}".replace(" ", "-"), one.message
    called_wrong = {name for name, verdict in case.outputs.items() if verdict in CALLED_WRONG}
    unlike = _list_unlike(case)
    for finding in case.findings:
        if finding.rule in _REFERENCE and unlike and not (_may_be_other(case) and called_wrong.issuperset(unlike)):
            yield "reference", finding.message


def _find_opaque(case: CaseReport) -> dict[str, str]:
    """Returns the words for the outputs of the replay with opaque functions."""
    opaque = None if case.replay is None else case.replay.opaque
    if opaque is None or opaque.state is not ReplayState.DONE:
        return {}
    silent = find_unreached(case.findings, opaque) | find_mixed(case.findings)
    found: dict[str, str] = {}
    for name, numbers in opaque.outputs.items():
        can_tell = numbers.distance > numbers.tolerance and name not in silent and not opaque.cut
        if numbers.attribution.is_wrong:
            found[name] = Word.WRONG.value
        else:
            is_right = numbers.attribution is Attribution.FRESH and can_tell
            found[name] = (Word.RIGHT if is_right else Word.ALIKE).value
    return found


def _list_unlike(case: CaseReport) -> tuple[str, ...]:
    """Returns the names of the outputs whose error against the reference is more than rounding."""
    if case.replay is None:
        return ()
    error, tolerance = case.replay.reference, case.replay.reference_tolerance
    named = [name for finding in case.findings if finding.rule in _REFERENCE for name in finding.outputs]
    return tuple(name for name in named if not error.get(name, inf) <= FAR_ABOVE * tolerance.get(name, 0.0))


def _may_be_other(case: CaseReport) -> bool:
    """Returns whether JAX may have made another program, whose order differs from that of the reference.

    A rule says so, or JAX differentiates a hidden write that it does not know of.
    """
    return find_kind(read_seed(case)) is not None or any(finding.rule in _CHANGED_BY_JAX for finding in case.findings)


def read_seed(case: CaseReport) -> int:
    """Returns the seed of the random program that this case is."""
    return int(case.id.partition("[")[2].rstrip("]").partition("-")[0])


def find_contradictions(row: JudgedProgram) -> JudgedProgram:
    """Returns the row with its contradictions by all draws instead of by the first one; separates those that a known
    limit explains.
    """
    words = find_outcomes(row)
    found = {kind: said for kind, said in row.contradictions.items() if not kind.startswith(("verdict-", "opaque-"))}
    for name, (static, _) in row.outputs.items():
        pair = (static in CALLED_WRONG, words[name])
        if static != Verdict.UNKNOWN and pair in ((True, "right"), (False, "wrong")):
            found.setdefault(
                f"verdict-{static}-{words[name]}",
                f"`{name}` is {static} by its schedule and {words[name]} by its numbers",
            )
        opaque = row.opaque.get(name, "")
        if (static in CALLED_RIGHT and opaque == "wrong") or (static in CALLED_WRONG and opaque == "right"):
            found.setdefault(
                f"opaque-{static}-{opaque}",
                f"`{name}` is {static} by its schedule and {opaque} with opaque functions in place of its kernels",
            )
        if (words[name], opaque) in (("right", "wrong"), ("wrong", "right")):
            found.setdefault(
                f"opaque-{opaque}-{words[name]}",
                f"`{name}` is {words[name]} by its numbers and {opaque} with opaque functions in place of its kernels",
            )
    is_unrolled = any(_UNROLLED in note for note in row.notes)
    limits = {kind: said for kind, said in found.items() if is_unrolled and kind in _ALARMS}
    rest = {kind: said for kind, said in found.items() if kind not in limits}
    return replace(row, contradictions=rest, limits={**row.limits, **limits})
