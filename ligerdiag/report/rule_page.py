"""Renders the page of a rule: as Markdown for docs/rules/, and as plain text for `ligerdiag explain`.

`python -m ligerdiag.report.rule_page docs/rules` writes the pages; with `--check` it names the pages that are out of
date, and exits with 1 if there are any.
"""

import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from ligerdiag.package_metadata import compute_page_address
from ligerdiag.rules.rule import Example, Reproduction, Rule
from ligerdiag.text import join_lines, render_bytes


def run_page_command(arguments: Sequence[str], usage: str, render: Callable[[], Mapping[str, str]]) -> int:
    """Runs a command with the arguments `DIRECTORY [--check]`, and returns its exit code.

    The command writes pages to the directory; with `--check` it only prints the names of those that are out of date. The
    exit code is 1 if a page is out of date, 2 for wrong arguments, otherwise 0.

    usage: the text to print for wrong arguments. render: returns a dict from file name to text.
    """
    names = [argument for argument in arguments if not argument.startswith("-")]
    if len(names) != 1 or not {a for a in arguments if a.startswith("-")} <= {"--check"}:
        sys.stderr.write(f"usage: {usage}\n")
        return 2
    directory, pages = Path(names[0]), render()
    stale = find_stale_pages(directory, pages)
    if "--check" not in arguments:
        write_pages(directory, pages)
        return 0
    for name in stale:
        sys.stderr.write(f"{directory / name} is stale: run `make docs`\n")
    return 1 if stale else 0


def find_stale_pages(directory: Path, pages: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the names of the Markdown files in the directory that differ from `pages`.

    Missing files and files without an entry in `pages` are among them. pages: maps each file name to its text.
    """
    existing = {path.name: path.read_text(encoding="utf-8") for path in sorted(directory.glob("*.md"))}
    return tuple(sorted(name for name in {*existing, *pages} if existing.get(name) != pages.get(name)))


def write_pages(directory: Path, pages: Mapping[str, str]) -> None:
    """Writes the pages to the directory, and removes all other Markdown files there.

    pages: maps each file name to its text.
    """
    directory.mkdir(parents=True, exist_ok=True)
    for name in find_stale_pages(directory, pages):
        if name in pages:
            (directory / name).write_text(pages[name], encoding="utf-8")
        else:
            (directory / name).unlink()


_REPORTS = "Reports, and how far they were reproduced"
USAGE = "python -m ligerdiag.report.rule_page DIRECTORY [--check]"


def compute_page_name(rule: Rule) -> str:
    """Returns the file name of a rule's page, such as `ld001-stale-read.md`."""
    return f"{rule.id.lower()}-{rule.name}.md"


def compute_rule_address(rule: Rule) -> str:
    """Returns the web address of a rule's page in the documentation of this version. Empty if it is unknown."""
    return compute_page_address(f"rules/{compute_page_name(rule)}")


def render_rule_markdown(rule: Rule) -> str:
    """Returns the page of a rule as Markdown. All rules have the same headings in the same order."""
    parts = [
        f"# {rule.id} {rule.name}",
        f"**{rule.severity.value}**: {join_lines(rule.summary)}",
    ]
    for heading, text in _sections(rule):
        parts += [f"## {heading}", text.strip() or "None known."]
    parts += ["## How to allow it", f"{_render_allowing(rule)}: see [suppressions](../suppressions.md)."]
    if rule.reproduced:
        parts += [f"## {_REPORTS}", _render_reports(rule.reproduced)]
    parts += ["## References", "\n".join(f"- {reference}" for reference in rule.references) or "None."]
    for heading, examples in _examples(rule):
        parts.append(f"## {heading}")
        for example in examples:
            parts.append(f"{_sentence(example.about)} Target: {example.target}.")
            for title, code in _list_files(example):
                parts += [*([f"{title}:"] if title else []), f"```python\n{code.strip()}\n```"]
    return "\n\n".join(parts) + "\n"


def render_rule_text(rule: Rule, width: int = 100) -> str:
    """Returns the page of a rule for a terminal, without Markdown's markup.

    Prose is filled to `width` columns. Code and lists stay unchanged.
    """
    parts = [f"{rule.id} {rule.name} ({rule.severity.value})", f"{join_lines(rule.summary)}"]
    for heading, text in _sections(rule):
        parts.append(f"{heading}\n{_filled(text.strip() or 'None known.', width)}")
    parts.append(f"How to allow it\n{_fill(f'{_render_allowing(rule)}: see docs/suppressions.md.', width)}")
    if rule.reproduced:
        parts.append(f"{_REPORTS}\n" + "\n".join(_fill(line, width) for line in _list_reports(rule.reproduced)))
    references = "\n".join(f"- {reference}" for reference in rule.references) or "None."
    parts.append(f"References\n{_indented(references)}")
    if address := compute_rule_address(rule):
        parts.append(f"This page on the web\n{_indented(address)}")
    for heading, examples in _examples(rule):
        parts.append(heading)
        for example in examples:
            lines = [f"# {_sentence(example.about)} Target: {example.target}."]
            for title, code in _list_files(example):
                lines += [*([f"\n# {title}:"] if title else []), code.strip()]
            parts.append(_indented("\n".join(lines)))
    return "\n\n".join(parts) + "\n"


def render_index(rules: Sequence[Rule]) -> str:
    """Returns the text of docs/rules/README.md: each rule with its severity and its summary."""
    rows = [
        f"| [{r.id} {r.name}]({compute_page_name(r)}) | {r.severity.value} | {join_lines(r.summary)} |" for r in rules
    ]
    head = [
        "# Rules",
        "",
        "Generated from `ligerdiag/rules/` by `make docs`; the examples are the rules' own tests.",
        "",
        "| rule | severity | hazard |",
        "|---|---|---|",
    ]
    return "\n".join((*head, *rows)) + "\n"


def render_pages(rules: Sequence[Rule]) -> Mapping[str, str]:
    """Returns a dict from file name to text, with the index and the page of each rule."""
    return {"README.md": render_index(rules), **{compute_page_name(rule): render_rule_markdown(rule) for rule in rules}}


def _sections(rule: Rule) -> tuple[tuple[str, str], ...]:
    return (
        ("What it does", rule.what_it_does),
        ("Why it is a hazard", rule.why),
        ("What to do", rule.what_to_do),
        ("Limits", rule.limits),
    )


def _render_allowing(rule: Rule) -> str:
    """Returns the section on how to allow the findings of a rule, as Markdown."""
    return f"`# ligerdiag: allow {rule.name} REASON` on the line that the finding names, or an entry in pyproject.toml"


def _render_reports(reports: Iterable[Reproduction]) -> str:
    cells = [
        (report.report, f"`{report.case}`" if report.case else "none", report.reproduced, report.missing)
        for report in reports
    ]
    rows = (("report", "case", "reproduced", "not reproduced"), ("---",) * 4, *cells)
    return "\n".join(f"| {' | '.join(join_lines(cell).replace('|', '\\|') for cell in row)} |" for row in rows)


def _list_reports(reports: Iterable[Reproduction]) -> Iterable[str]:
    for report in reports:
        case = f"case {report.case}" if report.case else "no case"
        yield f"- {report.report}, {case}. Reproduced: {join_lines(report.reproduced)}. Not: {join_lines(report.missing)}."


def _examples(rule: Rule) -> Iterable[tuple[str, tuple[Example, ...]]]:
    yield "Example that is reported", rule.bad
    yield "Example that is not", rule.good


def _list_files(example: Example) -> tuple[tuple[str, str], ...]:
    """Returns (title, code) of each file of the example: the file from which the baseline is recorded, if the example
    has one, then the file that is checked.
    """
    if not example.recorded:
        return ((_describe_budgets(example), example.code),)
    return ("When the baseline was recorded", example.recorded), ("When it is checked", example.code)


def _describe_budgets(example: Example) -> str:
    """Returns the command-line options that set the budgets of an example, such as ``With `--copy-budget 64K` ``; empty
    if it has no budget.
    """
    budgets = {"--memory-budget": example.budgets.memory, "--copy-budget": example.budgets.copies}
    given = [f"{option} {_render_option(size)}" for option, size in budgets.items() if size is not None]
    return f"With `{' '.join(given)}`" if given else ""


def _render_option(size: int) -> str:
    """Returns a size in bytes as the command line takes it, such as `2.5M`."""
    return render_bytes(size).replace(".0 ", "").replace(" ", "").removesuffix("iB").removesuffix("bytes")


def _sentence(text: str) -> str:
    flow = join_lines(text)
    return flow if flow.endswith((".", "!", "?", ":")) else f"{flow}."


def _filled(text: str, width: int) -> str:
    blocks = text.split("\n\n")
    return "\n\n".join(_indented(block) if block[0] in " -|`" else _fill(block, width) for block in blocks if block)


def _fill(block: str, width: int) -> str:
    return textwrap.fill(block, width, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)


def _indented(text: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in text.splitlines())


def main(arguments: Sequence[str]) -> int:
    """Writes or checks the pages of all rules, and returns the exit code.

    arguments: the arguments of the command line, without the name of the program.
    """
    from ligerdiag.rules.registry import RULES

    return run_page_command(arguments, USAGE, lambda: render_pages(RULES))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
