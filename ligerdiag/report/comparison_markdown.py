"""Renders a comparison of two reports as Markdown for a pull request: one table, the worst case first.

All text of the reports is in code spans and code blocks, so that no name in it is markup. Files appear without their
folders, which are those of one machine. Cases without a change have no row, and a line gives their number. The table has
at most `MOST_ROWS` rows. Below it each new finding has a block with its remedy, at most `MOST_FINDINGS` of them.
"""

from ligerdiag.report.compared.comparison_words import (
    COLUMNS,
    TOLERATED,
    describe_counts,
    describe_finding,
    describe_sides,
    list_cells,
    list_changes,
    list_new_findings,
    list_notes,
)
from ligerdiag.report.compared.report_comparison import ComparedCase, Grade, ReportComparison
from ligerdiag.report.markdown import HEADING, render_block, render_code, render_table
from ligerdiag.source_text import strip_folders

MOST_ROWS = 100
MOST_CHANGES = 8
"""The last column of a row lists at most this many changes."""
MOST_FINDINGS = 20
MOST_CASES = 5
"""The block of a finding names at most this many cases."""
_MARKS = {Grade.WORSE: "❌", Grade.MIXED: "⚠️", Grade.BETTER: "✅", Grade.UNKNOWN: "❔", Grade.SAME: ""}


def render_comparison_markdown(comparison: ReportComparison) -> str:
    """Returns the comparison as a Markdown table under a heading, with a final newline."""
    changed = [case for case in comparison.cases if not case.is_same]
    shown = changed[:MOST_ROWS]
    parts = [f"{HEADING} compare", f"{describe_counts(comparison)}. {render_code(describe_sides(comparison))}"]
    if shown:
        parts.append(render_table(("", "case", "target", *COLUMNS, "changes"), [_make_row(case) for case in shown]))
    if len(changed) > len(shown):
        parts.append(f"… and {len(changed) - len(shown)} more, not shown here.")
    parts += _render_new_findings(comparison)
    notes = [*map(render_code, list_notes(comparison)), *([TOLERATED] if shown else [])]
    parts += ["\n".join(f"- {note}" for note in notes)] if notes else []
    return "\n\n".join(parts) + "\n"


def _render_new_findings(comparison: ReportComparison) -> list[str]:
    """Returns the section about findings that only the new report has, each as a code block with its remedy; empty if
    there are none.
    """
    found = list_new_findings(comparison)
    blocks = [
        render_block(
            [
                strip_folders(describe_finding(finding)),
                *([f"   help: {strip_folders(finding.help)}"] if finding.help else []),
                f"   in:   {', '.join(names[:MOST_CASES])}"
                + (f" and {len(names) - MOST_CASES} more" if len(names) > MOST_CASES else ""),
            ]
        )
        for finding, names in found[:MOST_FINDINGS]
    ]
    rest = len(found) - len(blocks)
    more = [f"… and {rest} more new findings, not shown here."] if rest else []
    return ["### New findings", *blocks, *more] if found else []


def _make_row(case: ComparedCase) -> tuple[str, ...]:
    changes = [strip_folders(f"{label}: {text}") for label, text in list_changes(case)]
    more = [f"and {len(changes) - MOST_CHANGES} more"] if len(changes) > MOST_CHANGES else []
    return (
        f"{_MARKS[case.grade]} {case.grade.value}".strip(),
        render_code(case.id, in_table=True),
        render_code(case.target, in_table=True),
        *(render_code(cell, in_table=True) for cell in list_cells(case)),
        "<br>".join([*(render_code(one, in_table=True) for one in changes[:MOST_CHANGES]), *more]),
    )
