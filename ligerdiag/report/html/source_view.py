"""Renders the user's source on a page: the lines that a finding is about, and the remedy as a change of the
user's own call.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from ligerdiag.model.findings import Finding, SourceLine
from ligerdiag.model.report import CaseReport, Status
from ligerdiag.report.causes import MarkedPlace, find_patch, list_marked_places, list_reads
from ligerdiag.report.html.prose import Part, compute_parts
from ligerdiag.rules.call_patch import CallPatch
from ligerdiag.source_excerpt import Excerpt, load_excerpt
from ligerdiag.source_text import compute_place
from ligerdiag.text import compute_cells


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeRow:
    """One line of a source excerpt on the page."""

    number: str
    """The line number as text; blanks of the same width if the row has no number, so that the rows are aligned."""
    text: str
    is_mark: bool = False
    """Whether the row is the mark under the previous line rather than a line of source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePlace:
    """One line of the user's source that a finding is about."""

    place: str
    """The line as `file:line`."""
    function: str
    label: str
    """The role of the line in the hazard, such as `overwritten here`; empty if it has none."""
    rows: tuple[CodeRow, ...]
    """The line with its neighbours; empty if the file cannot be read or has changed."""
    outputs: tuple[str, ...]
    """Names of the outputs that the reads at this line reach; empty for a line that does not read."""
    instructions: tuple[str, ...]
    """Names of the instructions that read at this line, with their `%`."""
    is_read: bool


def compute_source_places(cause: Finding, roots: Sequence[str]) -> tuple[SourcePlace, ...]:
    """Returns the lines of the user's source that the finding is about, the kernel call first.

    roots: folders below which source files may be read.
    """
    return tuple(_make_place(one, roots) for one in list_marked_places(cause))


def list_unplaced(cause: Finding) -> tuple[str, ...]:
    """Returns the names, with their `%`, of the readers in the finding that have no source line."""
    parts = [part for (line, _), found in list_reads(cause).items() if line is None for part in found]
    return _list_readers(parts)


def _make_place(one: MarkedPlace, roots: Sequence[str]) -> SourcePlace:
    excerpt = load_excerpt(one.line, roots)
    return SourcePlace(
        place=compute_place(one.line),
        function=one.line.function,
        label=one.label,
        rows=() if excerpt is None else tuple(_list_rows(excerpt)),
        outputs=tuple(dict.fromkeys(name for part in one.parts for name in part.outputs)),
        instructions=_list_readers(one.parts),
        is_read=one.is_read,
    )


def _list_readers(parts: Sequence[Finding]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f"%{part.instructions[1]}" for part in parts if len(part.instructions) > 1))


def _list_rows(excerpt: Excerpt) -> Iterator[CodeRow]:
    width = len(str(excerpt.first + len(excerpt.lines) - 1))
    for number, line in enumerate(excerpt.lines):
        yield CodeRow(number=str(excerpt.first + number).rjust(width), text=line)
        if number == excerpt.marked and excerpt.start < excerpt.end:
            blank = " " * compute_cells(line[: excerpt.start])
            mark = "^" * compute_cells(line[excerpt.start : excerpt.end])
            yield CodeRow(number=" " * width, text=f"{blank}{mark}", is_mark=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """The remedy that a page shows for its finding."""

    words: tuple[Part, ...]
    place: str = ""
    """The first line that changes as `file:line`; empty if there is no change to show."""
    rows: tuple[tuple[str, str], ...] = ()
    """(kind, line) pairs: the change of the user's lines; the kind is `kept`, `removed` or `added`. Empty if the remedy is
    known only in words.
    """
    imports: tuple[str, ...] = ()
    """Lines to add at the top of the file."""


def compute_remedy(case: CaseReport, finding: Finding | None, steps: Mapping[str, int]) -> Remedy | None:
    """Returns the remedy of the finding that the page is about. None if the page must not show a remedy.

    It must not if `finding` is None, has no help, or is allowed. It must not either if a verdict contradicts the numbers
    of a replay or a device. steps: maps the name of each instruction to the id of its step, as `compute_step_ids` does.
    """
    if finding is None or finding.suppressed is not None or not finding.help or case.status is Status.DISAGREEMENT:
        return None
    patch = find_patch(finding, case.source_roots)
    rows = () if patch is None else _compare(patch)
    if patch is None or not rows:
        return Remedy(words=compute_parts(finding.help, steps))
    return Remedy(
        words=compute_parts(patch.use, steps),
        place=compute_place(SourceLine(file=patch.file, line=patch.line)),
        rows=rows,
        imports=patch.imports,
    )


def _compare(patch: CallPatch) -> tuple[tuple[str, str], ...]:
    """Returns the change line by line; empty if a line has signs that a page does not show as they are, such as tabs:
    the lines are there to be copied.
    """
    if not all(line.isprintable() for line in (*patch.before, *patch.after)):
        return ()
    rows: list[tuple[str, str]] = []
    matcher = SequenceMatcher(a=patch.before, b=patch.after, autojunk=False)
    for kind, start, end, begin, stop in matcher.get_opcodes():
        if kind == "equal":
            rows += [("kept", line) for line in patch.before[start:end]]
            continue
        rows += [("removed", line) for line in patch.before[start:end]]
        rows += [("added", line) for line in patch.after[begin:stop]]
    return tuple(rows)
