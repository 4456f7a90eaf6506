"""Compares two reports of `check` or `inspect`, case by case: verdicts, memory, copies, collectives and findings.

Two cases match if id and target are equal; if only the targets differ, they match where each report has one case of
that id. Modules of dumps also match by their names without XLA's number, or because each report has only one module.
Figures that differ by less than the tolerance of `ligerdiag.model.memory_limits` count as equal.

A case with a worse status or a worse verdict is worse. Otherwise these count: a better status or verdict, the peak, the
copied bytes, the bytes of collectives, and findings that are warnings or errors. If some of these are worse and none is
better, the case is worse. If some are better and none is worse, it is better. If there are both, it is mixed. Temporaries
count only if the total memory that a call reserves changes in the same direction; otherwise XLA only moved bytes, such as
from new outputs to temporaries. A new copy, and a new finding about copies, is shown, but counts only through the copied
bytes.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import PurePath

from ligerdiag.analysis.explain.memory_drift import CopyChange, compare_copies
from ligerdiag.ending import Ending
from ligerdiag.model.findings import VERDICT_ORDER, Severity, Verdict
from ligerdiag.model.memory import MemoryUse
from ligerdiag.model.memory_limits import compute_change, record_copy
from ligerdiag.model.report import CaseReport, CheckReport, Status
from ligerdiag.model.shown import Shown
from ligerdiag.report.causes import list_causes
from ligerdiag.rules.registry import list_ids
from ligerdiag.rules.rule import RuleKind
from ligerdiag.source_text import join_place
from ligerdiag.text import count_of
from ligerdiag.toolchains.toolchain_table import DEFAULT


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedFinding:
    """A finding as a report shows it; several findings of one cause are one."""

    rule: str
    severity: Severity
    message: str
    file: str = ""
    """Name of the source file without folders, as folders differ between machines; empty if the line is unknown."""
    line: int = 0
    is_allowed: bool = False
    help: str = ""
    """The remedy; empty if the report gives none."""

    @property
    def place(self) -> str:
        """Returns the source line of the finding, such as `train.py:41`.

        Returns only the file if the line is unknown, and an empty text if the file is unknown, too.
        """
        return join_place(self.file, self.line)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedCase:
    """The part of a case's results on one target that a comparison uses."""

    id: str
    target: str
    status: Status
    outputs: Mapping[str, Verdict] = field(default_factory=dict[str, Verdict])
    findings: tuple[ReportedFinding, ...] = ()
    memory: MemoryUse | None = None
    error: str = ""

    @property
    def is_analysed(self) -> bool:
        return self.status not in (Status.ERROR, Status.NOT_CHECKED)

    @property
    def worst(self) -> Verdict | None:
        """Returns the worst verdict among the outputs of the case; None if there are no outputs."""
        return max(self.outputs.values(), key=VERDICT_ORDER.index, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedSide:
    """One of the two reports of a comparison."""

    label: str
    """Text that distinguishes this report from the other one: a file name or a toolchain."""
    cases: tuple[ReportedCase, ...]
    toolchain: str = ""
    """Name of the toolchain that compiled the cases, as the report gives it; empty for modules that were compiled
    elsewhere.
    """
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    """Maps each package name to the version, for each package of the toolchain."""
    name: str = ""
    """The toolchain as the user gave it to `check --toolchain A,B`; empty for a report that was read from a file."""
    interrupted: bool = False


class Grade(StrEnum):
    """Whether a case became worse or better from the old report to the new one."""

    WORSE = "worse"
    MIXED = "mixed"
    """Something is worse and something is better, but no verdict and no status is worse."""
    BETTER = "better"
    SAME = "same"
    UNKNOWN = "not compared"
    """The old report has no analysis of the case, or the new run ended before the case was checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedFigure:
    """One figure about memory, such as the peak, in both reports."""

    name: str
    """`peak`, `temporaries`, `copied` or `collectives`; see `FIGURES`."""
    old: int | None
    """Bytes in the old report; None if the memory of that report is unknown."""
    new: int | None

    @property
    def change(self) -> int:
        """Returns the bytes in the new report minus those in the old one.

        Returns 0 if the difference is within the tolerance, or if a report does not know the figure.
        """
        return 0 if self.old is None or self.new is None else compute_change(self.old, self.new)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedCase:
    """A case that both reports have, with its changes."""

    old: ReportedCase
    new: ReportedCase
    figures: tuple[ComparedFigure, ...] = ()
    """One entry for each name in `FIGURES`; empty if the memory is unknown in both reports."""
    verdicts: tuple[tuple[str, Verdict | None, Verdict | None], ...] = ()
    """(output, old verdict, new verdict) for each output whose verdict differs; None for a report that lacks the
    output.
    """
    appeared: tuple[ReportedFinding, ...] = ()
    gone: tuple[ReportedFinding, ...] = ()
    copies: tuple[CopyChange, ...] = ()
    """The copies that are new, gone, larger or smaller than in the old report; the copy that grew most comes first."""
    grade: Grade = Grade.SAME
    hint: str = ""
    """A command line that says more about the change; empty if no command does."""

    @property
    def id(self) -> str:
        return self.new.id

    @property
    def is_same(self) -> bool:
        """Returns whether the comparison shows no change of the case at all.

        The grade is then SAME, and no verdict, finding or copy differs.
        """
        return self.grade is Grade.SAME and not (self.verdicts or self.appeared or self.gone or self.copies)

    @property
    def status_step(self) -> int:
        """Returns how the status changed from the old report to the new one.

        A positive number means worse, a negative one better, and 0 no change.
        """
        return _STATUS_RANKS[self.new.status] - _STATUS_RANKS[self.old.status]

    @property
    def target(self) -> str:
        """Returns the target of the case, such as `h100`.

        If the two reports have different targets, returns both, such as `a100 → h100`.
        """
        if self.old.target == self.new.target:
            return self.new.target
        return f"{self.old.target or 'unknown'} → {self.new.target or 'unknown'}"

    def find(self, name: str) -> ComparedFigure | None:
        """Returns the figure of the case with this name, such as the peak; None if there is none."""
        return next((one for one in self.figures if one.name == name), None)

    @property
    def collectives(self) -> tuple[int | None, int | None]:
        """Returns, for the old and the new report, the number of operations that move data between devices."""
        return _count_collectives(self.old.memory), _count_collectives(self.new.memory)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ReportComparison(Shown):
    """The result of one run of `compare`."""

    old: ReportedSide
    new: ReportedSide
    cases: tuple[ComparedCase, ...]
    """The cases that both reports have, the worst first."""
    only_old: tuple[ReportedCase, ...] = ()
    only_new: tuple[ReportedCase, ...] = ()
    notes: tuple[str, ...] = ()
    ended_by: Ending | None = None
    """The event that ended the run before both reports were there; None if nothing did."""

    def __repr__(self) -> str:
        counts = [(len(self.list_graded(grade)), grade.value) for grade in Grade]
        counts += [(len(self.only_old), "only in the old report"), (len(self.only_new), "only in the new report")]
        said = ", ".join(f"{number} {words}" for number, words in counts if number) or "none"
        more = "" if self.ended_by is None else "; ended early"
        return f"<ReportComparison of {count_of(len(self.cases), 'case')}: {said}{more}>"

    def list_graded(self, grade: Grade) -> tuple[ComparedCase, ...]:
        """Returns the cases with this grade, such as those that became worse."""
        return tuple(case for case in self.cases if case.grade is grade)


FIGURES: Mapping[str, Callable[[MemoryUse], int]] = {
    "peak": lambda memory: memory.peak,
    "temporaries": lambda memory: memory.temporaries,
    "copied": lambda memory: memory.copied,
    "collectives": lambda memory: sum(size for _, size in memory.collectives),
}
"""Maps the name of each figure to the function that takes its bytes from the memory of a case."""


def make_side(report: CheckReport, label: str, name: str = "") -> ReportedSide:
    """Returns the part of a report that a comparison uses. label, name: the fields of `ReportedSide`."""
    return ReportedSide(
        label=label,
        cases=tuple(_make_case(case) for case in report.cases),
        toolchain=report.toolchain,
        versions=report.versions,
        name=name,
        interrupted=report.interrupted,
    )


def _make_case(case: CaseReport) -> ReportedCase:
    return ReportedCase(
        id=case.id,
        target=case.target,
        status=case.status,
        outputs=case.outputs,
        findings=tuple(
            ReportedFinding(
                rule=cause.rule,
                severity=cause.severity,
                message=cause.message,
                file=PurePath(cause.source.file).name if cause.source is not None else "",
                line=cause.source.line if cause.source is not None else 0,
                is_allowed=cause.suppressed is not None,
                help=cause.help,
            )
            for cause in list_causes(case)
        ),
        memory=case.memory,
        error=case.error,
    )


def compare_reports(old: ReportedSide, new: ReportedSide, notes: Sequence[str] = ()) -> ReportComparison:
    """Compares each case that both reports have, and returns the result. notes: lines that the result shows."""
    pairs = _match(old, new)
    first, second = {id(one) for one, _ in pairs}, {id(other) for _, other in pairs}
    cases = [_compare(*pair, old, new) for pair in pairs]
    lost = [case for case in cases if _lacks_memory(case)]
    unknown = f"the memory of {len(lost)} of {len(cases)} cases is in only one of the reports, so it was not compared"
    return ReportComparison(
        old=old,
        new=new,
        cases=tuple(sorted(cases, key=_rank)),
        only_old=tuple(case for case in old.cases if id(case) not in first),
        only_new=tuple(case for case in new.cases if id(case) not in second),
        notes=(*notes, *_list_side_notes(old, new), *([unknown] if lost else [])),
    )


def _list_side_notes(old: ReportedSide, new: ReportedSide) -> Iterable[str]:
    for side in (old, new):
        if side.interrupted:
            yield f"the run of `{side.label}` was ended early: it does not have all cases"
    names = [name for name in sorted(old.versions) if new.versions.get(name, "") not in ("", old.versions[name])]
    if names:
        was, now = (", ".join(f"{name} {side.versions[name]}" for name in names) for side in (old, new))
        yield f"old: {was}; new: {now}"


def _lacks_memory(case: ComparedCase) -> bool:
    is_analysed = case.old.is_analysed and case.new.is_analysed
    return is_analysed and (case.old.memory is None) is not (case.new.memory is None)


type _Pair = tuple[ReportedCase, ReportedCase]
_NUMBER = re.compile(r"module_\d+\.")
"""Matches the number that XLA puts into the name of a module; it differs between any two runs."""


def _match(old: ReportedSide, new: ReportedSide) -> list[_Pair]:
    """Returns the pairs of an old and a new case that belong together, in the order of the new report."""
    found: list[_Pair] = []

    def pair(make_key: Callable[[ReportedCase], object], *, is_unique: bool) -> None:
        olds, news = _group(old.cases, found, 0, make_key), _group(new.cases, found, 1, make_key)
        for key, them in news.items():
            others = olds.get(key, [])
            if not is_unique or len(them) == len(others) == 1:
                found.extend(zip(others, them, strict=False))

    pair(lambda case: (case.id, case.target), is_unique=False)
    pair(lambda case: case.id, is_unique=True)
    pair(lambda case: (_NUMBER.sub("", case.id), case.target), is_unique=True)
    pair(lambda case: _NUMBER.sub("", case.id), is_unique=True)
    if not (old.toolchain and new.toolchain) and len(old.cases) == len(new.cases) == 1:
        pair(lambda case: None, is_unique=True)
    order = {id(case): number for number, case in enumerate(new.cases)}
    return sorted(found, key=lambda both: order[id(both[1])])


def _group(
    cases: Sequence[ReportedCase], found: Sequence[_Pair], side: int, make_key: Callable[[ReportedCase], object]
) -> dict[object, list[ReportedCase]]:
    """Returns a mapping from key to cases, for the cases of one side (0 is the old report, 1 the new one) that have no
    partner in `found` yet.
    """
    taken = {id(pair[side]) for pair in found}
    groups: dict[object, list[ReportedCase]] = {}
    for case in cases:
        if id(case) not in taken:
            groups.setdefault(make_key(case), []).append(case)
    return groups


def _compare(old: ReportedCase, new: ReportedCase, *sides: ReportedSide) -> ComparedCase:
    if not old.is_analysed or not new.is_analysed:
        is_lost = old.is_analysed and new.status is Status.ERROR
        return ComparedCase(old=old, new=new, grade=Grade.WORSE if is_lost else Grade.UNKNOWN)
    outputs = dict.fromkeys((*old.outputs, *new.outputs))
    both = [(name, old.outputs.get(name), new.outputs.get(name)) for name in outputs]
    verdicts = tuple((name, was, now) for name, was, now in both if was is not now)
    appeared, gone = _compare_findings(old.findings, new.findings)
    figures = _compare_figures(old.memory, new.memory)
    copies: tuple[CopyChange, ...] = ()
    if old.memory is not None and new.memory is not None:
        before, after = ([record_copy(copy) for copy in memory.copies] for memory in (old.memory, new.memory))
        copies = compare_copies(before, after)
    case = ComparedCase(
        old=old, new=new, figures=figures, verdicts=verdicts, appeared=appeared, gone=gone, copies=copies
    )
    case = replace(case, grade=_grade(case))
    return replace(case, hint=_find_hint(case, *sides)) if case.grade in GRADES_TO_CHECK else case


GRADES_TO_CHECK = (Grade.WORSE, Grade.MIXED)
"""Grades of cases in which something is worse."""


def _grade(case: ComparedCase) -> Grade:
    """Returns the grade of a case that both reports have analysed."""
    decisive = [case.status_step, *(_rank_verdict(now) - _rank_verdict(was) for _, was, now in case.verdicts)]
    steps = [
        *decisive,
        *(figure.change for figure in case.figures if _is_weighed(figure, case)),
        *(1 for finding in case.appeared if _counts(finding, case)),
        *(-1 for finding in case.gone if _counts(finding, case)),
    ]
    if any(step > 0 for step in decisive):
        return Grade.WORSE
    is_worse, is_better = any(step > 0 for step in steps), any(step < 0 for step in steps)
    return (
        Grade.MIXED
        if is_worse and is_better
        else Grade.WORSE
        if is_worse
        else Grade.BETTER
        if is_better
        else Grade.SAME
    )


def _is_weighed(figure: ComparedFigure, case: ComparedCase) -> bool:
    """Returns whether a figure counts for the grade. Temporaries count only if all reserved memory changes in the same
    direction.
    """
    if figure.name != "temporaries" or case.old.memory is None or case.new.memory is None:
        return True
    return compute_change(case.old.memory.reserved, case.new.memory.reserved) * figure.change > 0


_STATUS_RANKS: Mapping[Status, int] = {
    Status.CLEAN: 0,
    Status.EXPECTED: 0,
    Status.ALLOWED: 0,
    Status.NOTHING: 0,
    Status.FINDINGS: 0,  # counts by its findings and verdicts, as a mere note has this status, too
    Status.INCONCLUSIVE: 1,
    Status.UNEXPECTED: 2,
    Status.DISAGREEMENT: 3,
    Status.ERROR: 4,
    Status.NOT_CHECKED: 4,
}


def _rank_verdict(verdict: Verdict | None) -> int:
    """Returns a number that is larger for a worse verdict; None, for an output that does not exist, counts as fresh."""
    return 0 if verdict is None else VERDICT_ORDER.index(verdict)


def _counts(finding: ReportedFinding, case: ComparedCase) -> bool:
    """Returns whether a finding that appeared or is gone counts for the grade. A finding about copies does not count if
    the copied bytes of both reports are known, because then the bytes count.
    """
    copied = case.find("copied")
    is_in_figure = (
        finding.rule in list_ids(RuleKind.COPY) and copied is not None and None not in (copied.old, copied.new)
    )
    return not finding.is_allowed and finding.severity is not Severity.NOTE and not is_in_figure


def _compare_figures(old: MemoryUse | None, new: MemoryUse | None) -> tuple[ComparedFigure, ...]:
    if old is None and new is None:
        return ()
    return tuple(
        ComparedFigure(name=name, old=None if old is None else size(old), new=None if new is None else size(new))
        for name, size in FIGURES.items()
    )


def _count_collectives(memory: MemoryUse | None) -> int | None:
    return None if memory is None else len(memory.collectives)


type _Findings = tuple[ReportedFinding, ...]


def _compare_findings(old: Sequence[ReportedFinding], new: Sequence[ReportedFinding]) -> tuple[_Findings, _Findings]:
    """Returns the findings that only the new report has, and those that only the old one has.

    Two findings count as the same if rule and line are equal, or else rule and file, because an edit moves the lines
    below it.
    """
    left, rest = list(old), list(new)
    keys: tuple[Callable[[ReportedFinding], object], ...] = (
        lambda finding: (finding.rule, finding.is_allowed, finding.place, finding.message),
        lambda finding: (finding.rule, finding.is_allowed, finding.place),
        lambda finding: (finding.rule, finding.is_allowed, finding.file),
    )
    for make_key in keys:
        for finding in tuple(rest):
            same = next((one for one in left if make_key(one) == make_key(finding)), None)
            if same is not None:
                left.remove(same)
                rest.remove(finding)
    return tuple(rest), tuple(left)


def _find_hint(case: ComparedCase, old: ReportedSide, new: ReportedSide) -> str:
    """Returns the command line that says more about the change: a search for XLA's pass behind a wrong output, else a
    diff of both schedules; empty if none applies.
    """
    if not new.toolchain:
        return ""
    with_toolchain = f" --toolchain {new.name}" if new.name and new.name != DEFAULT else ""
    for _, was, now in case.verdicts:
        if now is not None and now.is_wrong and _rank_verdict(now) > _rank_verdict(was):
            return f"ligerdiag bisect '{case.id}' --over passes --target {case.new.target}{with_toolchain}"
    if case.old.target != case.new.target:
        return f"ligerdiag diff '{case.id}' --targets {case.old.target},{case.new.target}"
    if old.name and new.name:
        return f"ligerdiag diff '{case.id}' --targets {case.new.target} --toolchains {old.name},{new.name}"
    return ""


def _rank(case: ComparedCase) -> tuple[int, int, int, float, str, str]:
    """Returns a sort key that puts the worst case first: by grade, then by how far a verdict got worse (most of all if the
    new report could not analyse the case), then by the number of additional findings, then by the growth of memory.
    """
    grades = (Grade.WORSE, Grade.MIXED, Grade.UNKNOWN, Grade.BETTER, Grade.SAME)
    worse = [_rank_verdict(now) - _rank_verdict(was) for _, was, now in case.verdicts]
    findings = sum(_counts(finding, case) for finding in case.appeared)
    growth = max((figure.change / max(1, figure.old or 0) for figure in case.figures), default=0.0)
    lost = 9 if not case.new.is_analysed else 0
    return (grades.index(case.grade), -max((lost, *worse)), -findings, -growth, case.id, case.target)
