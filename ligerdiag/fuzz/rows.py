"""What a campaign knows of each program: verdicts, numbers, and where they contradict each other."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path

from ligerdiag.codec import FieldError, parse_record
from ligerdiag.ending import Ending
from ligerdiag.errors import InputError
from ligerdiag.fuzz.programs import find_kind
from ligerdiag.judgement.agreement import WRONG, find_order_changes
from ligerdiag.model.findings import Attribution, OutputNumbers, ReplayState, Verdict
from ligerdiag.model.report import CaseReport
from ligerdiag.replay.more_draws import WRONG as FAR_ABOVE
from ligerdiag.replay.more_draws import DrawsAnswer, Word

_REFERENCE = "LD016"
_BY_JAX = ("LD007", "LD023")
_UNROLLED = "unrolled"
_ABORTED = "was aborted"
"""In the error of a case whose worker XLA ended."""
CALLED_WRONG, CALLED_RIGHT = (Verdict.STALE, Verdict.CLOBBERED), (Verdict.FRESH, Verdict.LATENT)
DEVICE = "device"
"""The target of a row of a campaign on GPUs."""
_ALARMS = ("verdict-stale-right", "verdict-clobbered-right")
_WITHOUT_LOOK = {"fresh": "right", "lossy": "alike", "undecided": "alike"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FuzzOptions:
    """Which programs, and how they are judged."""

    directory: Path
    first: int = 0
    count: int = 100
    minutes: float | None = None
    """No batch is begun after that."""
    target: str = "h100"
    jobs: int | None = None
    timeout: float = 120.0
    """Seconds that one program may take to compile, and again to replay."""
    orders: int = 4
    """Other legal orders of each schedule in which the replay runs it."""
    shrink: bool = True
    scheduler: str | None = None
    """Address of a Dask scheduler, whose workers judge the programs."""

    def find_until(self) -> float | None:
        """When nothing is begun any more, from now on; seconds since the epoch."""
        return None if self.minutes is None else time.time() + self.minutes * 60


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedProgram:
    """One line of `programs.jsonl`."""

    seed: int
    target: str
    outputs: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Output name to the verdict and what the replay says, `none` where it says nothing."""
    looks: Mapping[str, tuple[str, float]] = field(default_factory=dict[str, tuple[str, float]])
    """Output name to what more draws say, and the largest ratio; see `more_draws`. Empty where they were not made."""
    draws: int = 0
    contradictions: Mapping[str, str] = field(default_factory=dict[str, str])
    """Kind to words."""
    tried: int = 0
    """Other legal orders in which it was replayed."""
    moved: Mapping[str, float] = field(default_factory=dict[str, float])
    """Output name to how far the worst of these takes it from itself; see `OrderNumbers.changed`."""
    limits: Mapping[str, str] = field(default_factory=dict[str, str])
    """Those in which an output is called wrong and is right, where a note says that iterations are not told apart."""
    notes: tuple[str, ...] = ()
    """What the analysis does not cover."""
    unlike: tuple[str, ...] = ()
    """Names of the outputs that program order, on numbers, gives otherwise than the formulas in plain jnp, by more than
    roundings come to (`more_draws`, 2)."""
    unjudged: str = ""
    """Why there are no numbers to hold the verdict against: XLA aborts, or replay does not compute the program."""


@dataclass(slots=True, kw_only=True)
class FuzzReport:
    """What is known of all programs of the directory."""

    rows: dict[int, JudgedProgram] = field(default_factory=dict[int, JudgedProgram])
    """By seed."""
    judged: int = 0
    """Programs of this run."""
    seconds: float = 0.0
    """Processor seconds of this run, without shrinking."""
    files: tuple[Path, ...] = ()
    """Case files that this run wrote."""
    left_out: int = 0
    """Programs that need more GPUs than there are."""
    faults: tuple[str, ...] = ()
    """What ended a process of the campaign before its time; the next run does what it left."""
    ended_by: Ending | None = None

    def count_outputs(self) -> Counter[tuple[str, str]]:
        """Outputs by verdict and by what all draws say, which are words of `find_words`."""
        return Counter(
            (static, words)
            for row in self.rows.values()
            for (static, _), words in zip(row.outputs.values(), find_words(row).values(), strict=True)
        )

    def list_unjudged(self) -> list[tuple[int, str]]:
        """Seed and why its verdict has no numbers beside it."""
        return [(seed, row.unjudged) for seed, row in sorted(self.rows.items()) if row.unjudged]

    def count_excused(self) -> int:
        """Programs that contradict themselves by a limit that the analysis names."""
        return sum(bool(row.limits) for row in self.rows.values())

    def list_contradictions(self) -> list[tuple[int, str]]:
        """Seed and what contradicts, in words."""
        return [(seed, words) for seed, row in sorted(self.rows.items()) for words in row.contradictions.values()]


def load_rows(directory: Path, target: str) -> dict[int, JudgedProgram]:
    """The known programs by seed. Raises InputError."""
    rows = load_known(JudgedProgram, directory / "programs.jsonl")
    others = {row.target for row in rows} - {target}
    if others:
        raise InputError(f"expected programs for {target} but `{directory}` has some for {', '.join(sorted(others))}")
    return {row.seed: row for row in rows}


def load_known[R](kind: type[R], path: Path) -> list[R]:
    """The rows of the file; a last line that was not written to its end is dropped. Raises InputError."""
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
    """Verdicts, numbers and contradictions of one program."""
    numbers: Mapping[str, OutputNumbers] = case.replay.outputs if case.replay is not None else {}
    unjudged = case.error
    if case.replay is not None and case.replay.state is not ReplayState.DONE:
        unjudged = f"{case.replay.state.value}: {case.replay.reason}"
    orders = case.replay.orders if case.replay is not None else None
    return JudgedProgram(
        seed=_read_seed(case),
        target=case.target,
        outputs={
            name: (verdict.value, numbers[name].attribution.value if name in numbers else "none")
            for name, verdict in case.outputs.items()
        },
        contradictions=dict(_find_contradictions(case)),
        tried=0 if orders is None else orders.tried,
        moved={} if orders is None else {name: one.error for name, one in orders.changed.items()},
        notes=case.coverage.not_covered,
        unlike=_list_unlike(case),
        unjudged=unjudged,
    )


def list_trusted(row: JudgedProgram) -> tuple[str, ...]:
    """Names of the outputs that are called right."""
    return tuple(name for name, (verdict, _) in row.outputs.items() if verdict in CALLED_RIGHT)


def list_doubted(row: JudgedProgram) -> tuple[str, ...]:
    """Names of the outputs that are called wrong, and that the first draw does not show to be."""
    return tuple(
        name
        for name, (verdict, numbers) in row.outputs.items()
        if verdict in CALLED_WRONG and numbers not in ("none", *WRONG)
    )


def look_again(row: JudgedProgram, more: DrawsAnswer) -> JudgedProgram:
    """The row with what further draws say, and the contradictions by all draws."""
    return sort_out(
        replace(
            row,
            looks={name: (word.value, more.ratios[name]) for name, word in more.words.items()},
            draws=more.draws,
        )
    )


def find_words(row: JudgedProgram) -> dict[str, str]:
    """Output name to `right`, `wrong` or `alike` by several draws, and `none` without numbers.

    Wrong in one draw is wrong, by more than roundings come to. Within the tolerance of the dtypes a GPU says it, too; so
    does the first replay where it gives what is stale, or where no draws were made. And wrong is what program order itself
    gives otherwise than the reference: JAX drops kernels, and moves reads of Refs.
    """
    found: dict[str, str] = {}
    for name, (_, numbers) in row.outputs.items():
        look, _ = row.looks.get(name, ("", 0.0))
        if name in row.unlike or (
            numbers in WRONG and (not look or row.target == DEVICE or numbers != Attribution.NEITHER)
        ):
            found[name] = Word.WRONG.value
        elif look:
            found[name] = look
        else:
            found[name] = _WITHOUT_LOOK.get(numbers, "none")
    return found


def _find_contradictions(case: CaseReport) -> Iterator[tuple[str, str]]:
    """Yields (kind, words)."""
    if case.error and _ABORTED not in case.error:
        yield "fault", case.error
    if case.failures:
        yield "fault", case.failures[0].message
    if case.replay is not None and case.replay.state is ReplayState.FAILED:
        yield "fault", f"replay failed: {case.replay.reason}"
    moved = find_order_changes(case.outputs, case.replay)
    for name, one in moved.items():
        yield "order", f"`{name}` is fresh by its schedule and {one.error:.2g} from itself with {one.order}"
    for one in [one for one in case.disagreements if one.output not in moved]:
        yield f"verdict-{one.static.value}-{one.numbers.value}".replace(" ", "-"), one.message
    called_wrong = {name for name, verdict in case.outputs.items() if verdict in CALLED_WRONG}
    unlike = _list_unlike(case)
    for finding in case.findings:
        if finding.rule == _REFERENCE and unlike and not (_may_be_other(case) and called_wrong.issuperset(unlike)):
            yield "reference", finding.message


def _list_unlike(case: CaseReport) -> tuple[str, ...]:
    """Names of the outputs whose error against the reference is that of a wrong number, and not of many roundings."""
    if case.replay is None:
        return ()
    error, tolerance = case.replay.reference, case.replay.reference_tolerance
    named = [name for finding in case.findings if finding.rule == _REFERENCE for name in finding.outputs]
    return tuple(name for name in named if not error.get(name, inf) <= FAR_ABOVE * tolerance.get(name, 0.0))


def _may_be_other(case: CaseReport) -> bool:
    """Whether JAX may have made another program of it, whose order is not the reference's: a rule says so, or something that
    JAX does not know of is in what it differentiates."""
    return find_kind(_read_seed(case)) is not None or any(finding.rule in _BY_JAX for finding in case.findings)


def _read_seed(case: CaseReport) -> int:
    return int(case.id.partition("[")[2].rstrip("]").partition("-")[0])


def sort_out(row: JudgedProgram) -> JudgedProgram:
    """Adds contradictions between verdicts and what all draws say, in place of what `check` says of the first draw; takes
    from them those by a limit that the analysis names."""
    words = find_words(row)
    found = {kind: said for kind, said in row.contradictions.items() if not kind.startswith("verdict-")}
    for name, (static, _) in row.outputs.items():
        pair = (static in CALLED_WRONG, words[name])
        if static != Verdict.UNKNOWN and pair in ((True, "right"), (False, "wrong")):
            found.setdefault(
                f"verdict-{static}-{words[name]}", f"`{name}` is {static} by its schedule and {words[name]}"
            )
    is_unrolled = any(_UNROLLED in note for note in row.notes)
    limits = {kind: said for kind, said in found.items() if is_unrolled and kind in _ALARMS}
    rest = {kind: said for kind, said in found.items() if kind not in limits}
    return replace(row, contradictions=rest, limits={**row.limits, **limits})
