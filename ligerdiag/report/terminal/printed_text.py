"""Renders what the user's own code printed, line by line, with the name of the case or file in front."""

from ligerdiag.model.report import CheckReport
from ligerdiag.text import compute_printable, compute_without_commands


def render_printed(report: CheckReport) -> str:
    """Returns the lines that the user's code printed, such as `step[8] | shape (4, 8)`, with a final newline.

    Lines of imports come first, by file, then the lines of each case. A text that a case prints for each of several
    targets is shown once. Empty if nothing was printed.
    """
    parts = [render_lines(name, text) for name, text in report.printed]
    texts: dict[str, dict[str, list[str]]] = {}
    for case in report.cases:
        if case.printed:
            texts.setdefault(case.id, {}).setdefault(case.printed, []).append(case.target)
    for case_id, own in texts.items():
        for text, targets in own.items():
            parts.append(render_lines(case_id if len(own) == 1 else f"{case_id} on {', '.join(targets)}", text))
    return "".join(parts)


def render_lines(name: str, text: str) -> str:
    """Returns each line of the text with the name in front, such as `name | line`, with a final newline."""
    lines = (f"{name} | {line}".rstrip() for line in text.rstrip("\n").split("\n"))
    return "".join(f"{compute_without_commands(compute_printable(line))}\n" for line in lines)
