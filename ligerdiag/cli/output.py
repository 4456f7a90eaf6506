"""Writes the output of a command: to the terminal, to files in several formats, as pages for a browser, and as a
baseline.
"""

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from ligerdiag.artifacts.scratch_folders import replace_file
from ligerdiag.cli.exit_codes import MEANINGS, MEANINGS_WITHOUT_EXPECTATION, ExitCode, FailOn, fails_run
from ligerdiag.cli.verbosity import Verbosity, render_text
from ligerdiag.errors import InputError
from ligerdiag.model.report import CheckReport, Noun
from ligerdiag.report.comparisons import Axis, Bisection
from ligerdiag.text import count_of

if TYPE_CHECKING:
    from ligerdiag.report.compared.report_comparison import ReportComparison
    from ligerdiag.report.comparisons import DifferenceReport
    from ligerdiag.run_options import CheckOptions


def require_writable(path: Path, option: str = "--output") -> None:
    """Raises InputError if no file can be written at `path`. Call it before a run does any work.

    option: the option that gave the path, for the message.
    """
    if path.is_dir():
        raise InputError(f"expected a file for {option} but `{path}` is a directory")
    if not path.parent.is_dir():
        raise InputError(f"the directory of {option}, `{path.parent}`, does not exist: create it or name another one")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"no permission to write to `{path.parent}` for {option}: name a file in another directory")


def write_atomically(path: Path, content: str | bytes) -> None:
    """Writes a file so that a reader sees the old or the new contents and never a part.

    The text is written beside `path` and then renamed. It is written as UTF-8. A special file such as a pipe is written
    directly. Raises InputError if the file cannot be written.
    """
    data = content if isinstance(content, bytes) else content.encode("utf-8")
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)
            return
        umask = os.umask(0)
        os.umask(umask)
        replace_file(path, data, 0o666 & ~umask)
    except OSError as error:
        raise InputError(f"cannot write `{path}`: {error.strerror or error}") from error


def require_recordable(path: Path) -> None:
    """Raises InputError if no baseline can be written to `path`, or if the baseline there cannot be extended.

    Call it before a run does any work.
    """
    from ligerdiag import api

    require_writable(path, option="--record")
    if path.exists():
        api.load_baseline(path)


def write_record(report: CheckReport, options: "CheckOptions", path: Path) -> None:
    """Writes the baseline to `path`, and says so on stderr.

    Writes nothing if the run was interrupted or no case can be recorded. Raises as `render_record` does.
    """
    from ligerdiag import api

    recorded = len(api.list_recordable(report))
    if report.interrupted:
        said = "nothing: the run was interrupted"
    elif not recorded:
        said = "nothing: no case could be analysed"
    else:
        write_atomically(path, api.render_record(report, options, path))
        left = len(report.cases) - recorded
        said = f"{recorded} schedules in {path}" + (f"; {left} could not be analysed" if left else "")
    sys.stderr.write(f"recorded {said}\n")


def require_bisectable(axes: Sequence[Axis], *, is_issue: bool) -> None:
    """Raises InputError if `--bisect` is given without the format `issue`, or with an axis that changes the program.

    Call it before a run does any work.
    """
    if not axes:
        return
    from ligerdiag.api.issuing import AXES

    if not is_issue:
        raise InputError("`--bisect` works only for a bug report: add `--format issue`, or use `ligerdiag bisect`")
    for axis in axes:
        if axis not in AXES:
            known = ", ".join(one.value for one in AXES)
            raise InputError(f"expected one of {known} for --bisect but got {axis.value}, which changes the program")


def require_known_file(path: Path) -> None:
    """Raises InputError if known findings cannot be written to `path`. Call it before a run does any work.

    They cannot if the file at `path` has other contents than known findings.
    """
    from ligerdiag import api

    require_writable(path, option="--record-known")
    if path.exists():
        api.load_known(path)


def write_known(report: CheckReport, path: Path) -> None:
    """Writes the findings of a run to `path`, and says so on stderr. Writes nothing if the run was interrupted."""
    from ligerdiag import api

    if report.interrupted:
        sys.stderr.write("known findings: nothing recorded, the run was interrupted\n")
        return
    write_atomically(path, api.render_known_findings(report, path, date.today().isoformat()))
    sys.stderr.write(f"known findings: {count_of(len(api.load_known(path).findings), 'finding')} in {path}\n")


class AnswerFormat(StrEnum):
    TERMINAL = "terminal"
    JSON = "json"


class ComparisonFormat(StrEnum):
    """The formats in which `compare` can write its result. A report has more formats."""

    TERMINAL = "terminal"
    JSON = "json"
    MARKDOWN = "markdown"


def parse_comparison_outputs(words: Sequence[str], form: "Format") -> "Outputs":
    """Returns the outputs that the options `--output` of a comparison request, as `parse_outputs` does.

    Also raises InputError for a format that comparisons do not have.
    """
    outputs = parse_outputs(words, form)
    known = [one.value for one in ComparisonFormat]
    for one in (outputs.shown, *outputs.files.values()):
        if one.value not in known:
            raise InputError(f"expected one of {', '.join(known)} for a comparison but got `{one.value}`")
    return outputs


def write_report_comparison(
    comparison: "ReportComparison", outputs: "Outputs", *, verbose: bool, code: ExitCode
) -> None:
    """Writes the comparison to every file, and then to standard output.

    code: the exit code to name in JSON. Raises InputError if a file could not be written.
    """
    from ligerdiag.report.json import render_comparison_json
    from ligerdiag.report.markdown import render_comparison_markdown
    from ligerdiag.report.terminal.full_report import (
        compute_colour,
        compute_stream_width,
        render_report_comparison_text,
    )

    def render(form: Format) -> str:
        if form is Format.JSON:
            return render_comparison_json(comparison, exit_code=code)
        if form is Format.MARKDOWN:
            return render_comparison_markdown(comparison)
        return render_report_comparison_text(comparison, verbose=verbose)

    for path, form in outputs.files.items():
        write_atomically(path, render(form))
    if outputs.shown is not Format.TERMINAL:
        sys.stdout.write(render(outputs.shown))
        return
    width, colour = compute_stream_width(sys.stdout), compute_colour(sys.stdout)
    sys.stdout.write(render_report_comparison_text(comparison, width=width, colour=colour, verbose=verbose))


def write_bisections(
    bisections: Sequence[Bisection], *, form: AnswerFormat, output: Path | None, verbose: bool, code: ExitCode
) -> None:
    """Writes bisections to standard output in the format `form`.

    If `output` is given, writes them to that file instead, and a table to standard output. code: the exit code to name in
    JSON.
    """
    from ligerdiag.report.json import render_bisections_json
    from ligerdiag.report.terminal.full_report import render_bisections

    def render_text(width: int | None, colour: bool) -> str:
        return render_bisections(bisections, width=width, colour=colour, verbose=verbose)

    _write(form, output, render_text, lambda: render_bisections_json(bisections, exit_code=code))


def write_differences(
    report: "DifferenceReport", *, form: AnswerFormat, output: Path | None, verbose: bool, code: ExitCode
) -> None:
    """Writes the result of `diff` to standard output in the format `form`.

    If `output` is given, writes it to that file instead, and a table to standard output. code: the exit code to name in
    JSON.
    """
    from ligerdiag.report.json import render_differences_json
    from ligerdiag.report.terminal.full_report import render_difference_report

    def render_text(width: int | None, colour: bool) -> str:
        return render_difference_report(report, width=width, colour=colour, verbose=verbose)

    _write(form, output, render_text, lambda: render_differences_json(report, exit_code=code))


def _write(
    form: AnswerFormat,
    output: Path | None,
    render_text: Callable[[int | None, bool], str],
    render_data: Callable[[], str],
) -> None:
    """Writes an answer as data or as text, to standard output or to a file. render_text: takes the terminal's columns
    (None for a file) and whether to use colours. render_data: returns the JSON.
    """
    from ligerdiag.report.terminal.full_report import compute_colour, compute_stream_width

    if output is not None:
        write_atomically(output, render_data() if form is AnswerFormat.JSON else render_text(None, False))
    if form is AnswerFormat.JSON and output is None:
        sys.stdout.write(render_data())
    else:
        sys.stdout.write(render_text(compute_stream_width(sys.stdout), compute_colour(sys.stdout)))


_HEAD = 4096
"""Number of bytes at the start of a page that are searched for the name of its generator."""


def require_html_directory(path: Path) -> None:
    """Raises InputError if no pages can be written to the directory `path`. Call it before a run does any work.

    A directory that has files and no earlier report is refused, because `write_html` removes the pages of an earlier
    report.
    """
    if path.exists() and not path.is_dir():
        raise InputError(f"expected a directory for --html but `{path}` is a file")
    if path.is_dir():
        _require_ours(path)
    existing = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
    if not existing.is_dir():
        raise InputError(f"expected a directory for --html but `{existing}` is a file")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise InputError(f"no permission to write to `{existing}` for --html: name another directory")


def write_html(report: CheckReport, directory: Path) -> None:
    """Writes a page for each case, and then the index, and prints the place on stderr.

    Pages of an earlier report are removed. Each page is written completely or not at all. Raises InputError if a page
    cannot be written.
    """
    from ligerdiag.report.html import INDEX, compute_file_names, render_case_html, render_index_html

    require_html_directory(directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot create the directory `{directory}`: {error}") from error
    names = compute_file_names(report.cases)
    for name, case in zip(names, report.cases, strict=True):
        write_atomically(directory / name, render_case_html(case, report))
    write_atomically(directory / INDEX, render_index_html(report, files=names))
    for page in _list_pages(directory):
        if page.name not in {*names, INDEX}:
            page.unlink(missing_ok=True)
    sys.stderr.write(f"html: {directory / INDEX}\n")


def _require_ours(directory: Path) -> None:
    """Raises InputError unless the directory is empty, has the index of an earlier report, or has only pages of one. Hidden
    files do not count.
    """
    try:
        entries = {entry for entry in directory.iterdir() if not entry.name.startswith(".")}
    except OSError as error:
        raise InputError(f"cannot read `{directory}` for --html: {error}") from error
    from ligerdiag.report.html import INDEX

    pages = set(_list_pages(directory))
    if entries and directory / INDEX not in pages and entries != pages:
        raise InputError(
            f"expected an empty directory or an earlier report for --html but `{directory}` has other files"
        )


def _list_pages(directory: Path) -> list[Path]:
    """Returns the files of the directory that name ligerdiag as their generator; symbolic links are left out."""
    return [
        path for path in sorted(directory.glob("*.html")) if path.is_file() and not path.is_symlink() and _is_ours(path)
    ]


def _is_ours(path: Path) -> bool:
    from ligerdiag.report.html import GENERATOR

    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return False
    return f'<meta name="generator" content="{GENERATOR} '.encode() in head


SUMMARY = "GITHUB_STEP_SUMMARY"
"""Environment variable that names the file whose Markdown GitHub shows on the page of a job."""
SUMMARY_BYTES = 1_000_000
"""Greatest size of the summary in bytes: GitHub drops a summary of more than 1 MiB."""

_COULD_LOOK = frozenset(
    {ExitCode.AS_EXPECTED, ExitCode.FINDINGS, ExitCode.INCONCLUSIVE, ExitCode.NOTHING_CHECKED},
)
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


class Format(StrEnum):
    TERMINAL = "terminal"
    JSON = "json"
    SARIF = "sarif"
    JUNIT = "junit"
    GITHUB = "github"
    MARKDOWN = "markdown"
    CONCISE = "concise"
    ISSUE = "issue"


FORMATS: Mapping[str, Format] = {
    ".json": Format.JSON,
    ".md": Format.MARKDOWN,
    ".sarif": Format.SARIF,
    ".txt": Format.TERMINAL,
    ".xml": Format.JUNIT,
}
"""Maps the suffix of a file's name to the format of the report in the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """The files to which a report is written, their formats, and the format on standard output."""

    shown: Format
    """The format on standard output."""
    files: Mapping[Path, Format]

    def has(self, form: Format) -> bool:
        """Returns whether any of the outputs is in this format."""
        return form in (self.shown, *self.files.values())


def parse_outputs(words: Sequence[str], form: Format) -> Outputs:
    """Returns the outputs that the options `--output` request.

    Each option is `FORMAT=FILE`, or `FILE` in the format of its suffix. If the suffix belongs to no format, the file gets
    `form`, the format that `--format` gives. Standard output gets `form`, or the table if a `FILE` without `FORMAT=` gets
    `form`.

    Raises InputError for an unknown format, two reports in one file, and a file that cannot be written. Call it before a
    run does any work.
    """
    files: dict[Path, Format] = {}
    shown = form
    for word in words:
        named, path = _parse_output(word)
        if named is None:
            named = FORMATS.get(path.suffix.lower(), form)
            shown = Format.TERMINAL if named is form else shown
        require_writable(path)
        if any(_is_same(path, other) for other in files):
            raise InputError(f"each --output needs its own file, but `{path}` is given twice")
        files[path] = named
    return Outputs(shown=shown, files=files)


def write_report(
    report: CheckReport,
    outputs: Outputs,
    *,
    verbosity: Verbosity,
    code: ExitCode,
    fail_on: FailOn,
    strict: bool,
    bisections: Sequence[Bisection] = (),
    module: str = "",
) -> None:
    """Writes the report to every file, even if one of them cannot be written, and then to standard output.

    With the format `github`, also appends to the summary page of the job if there is one. A run that was ended early gets
    no bug report, as it is not known yet what the bug is.

    code, fail_on, strict: the exit code of the run, and the options on which the exit code depends; some formats name all
    three. bisections: those to show in the format `issue`. module: text of the module to write beside a file in the
    format `issue`; empty if there is no module to write. Raises InputError about the first output that could not be
    written.
    """
    files, shown = dict(outputs.files), outputs.shown
    if report.cut_by is not None and outputs.has(Format.ISSUE):
        sys.stderr.write(
            f"issue: no bug report, because {report.cut_by.value} ended the run; run the same command again to continue\n"
        )
        files = {path: form for path, form in files.items() if form is not Format.ISSUE}
        shown = None if shown is Format.ISSUE else shown

    def render(form: Format) -> str:
        return _render(
            report, form, verbosity=verbosity, code=code, fail_on=fail_on, strict=strict, bisections=bisections
        )

    def write(path: Path, form: Format) -> None:
        if form is Format.ISSUE:
            _write_issue(report, path, bisections, module)
        else:
            write_atomically(path, render(form))

    troubles: list[InputError] = []
    for path, form in files.items():
        _attempt(lambda path=path, form=form: write(path, form), troubles)
    if shown is Format.TERMINAL:
        _show_table(report, verbosity)
    elif shown is not None:
        _attempt(lambda: sys.stdout.write(render(shown)), troubles)
    summary = os.environ.get(SUMMARY, "")
    if summary and outputs.has(Format.GITHUB):
        _attempt(lambda: _append(Path(summary), _render_summary(report, code)), troubles)
    if troubles:
        sys.stdout.flush()
        raise troubles[0]


def _write_issue(report: CheckReport, path: Path, bisections: Sequence[Bisection], module: str) -> None:
    """Writes the body of a bug report, and beside it the module to attach, whose name has the suffix `.hlo`."""
    from ligerdiag import api

    attached = path.with_suffix(".hlo")
    body = api.describe_issue(report, bisections=bisections, attached=(attached.name,) if module else ())
    if module:
        write_atomically(attached, module)
    write_atomically(path, body)


def write_statistics(report: CheckReport, outputs: Outputs) -> None:
    """Writes the number of findings of each rule to standard output.

    If standard output has a format for programs, such as JSON, writes them to stderr.
    """
    from ligerdiag.report.terminal.concise import render_statistics

    _write_beside(render_statistics(report), outputs)


def write_durations(report: CheckReport, count: int, outputs: Outputs) -> None:
    """Writes the slowest cases to standard output. count: the largest number of cases; 0 means all.

    If standard output has a format for programs, such as JSON, writes them to stderr.
    """
    from ligerdiag.report.terminal.durations import render_durations

    _write_beside(render_durations(report, count), outputs)


def write_printed(report: CheckReport, outputs: Outputs) -> None:
    """Writes the text that the user's code printed to standard output.

    If standard output has a format for programs, such as JSON, writes it to stderr.
    """
    from ligerdiag.report.terminal.printed_text import render_printed

    _write_beside(render_printed(report), outputs)


def _write_beside(text: str, outputs: Outputs) -> None:
    is_read = outputs.shown not in (Format.TERMINAL, Format.CONCISE)
    (sys.stderr if is_read else sys.stdout).write(text)


def _parse_output(word: str) -> tuple[Format | None, Path]:
    name, equals, file = word.partition("=")
    if not equals or not _WORD.fullmatch(name):
        return None, Path(word)
    known = [form.value for form in Format]
    if name not in known:
        raise InputError(
            f"expected one of {', '.join(known)} before `=` in --output but got `{name}`; write `./{word}` for a file"
        )
    if not file:
        raise InputError(f"expected a file after `{name}=` in --output")
    return Format(name), Path(file)


def _is_same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _render(
    report: CheckReport,
    form: Format,
    *,
    verbosity: Verbosity,
    code: ExitCode,
    fail_on: FailOn,
    strict: bool,
    bisections: Sequence[Bisection],
) -> str:
    """Returns the report in a format for a file or a program: without colours, and with lines of any length."""
    from ligerdiag.report.case_places import find_repository

    match form:
        case Format.TERMINAL:
            return render_text(report, verbosity)
        case Format.JSON:
            from ligerdiag.report.json import render_json

            return render_json(report, exit_code=code)
        case Format.SARIF:
            from ligerdiag.report.sarif import render_sarif

            return render_sarif(
                report,
                repository=find_repository(),
                exit_code=code,
                meaning=_find_meaning(report, code),
                successful=code in _COULD_LOOK and not report.interrupted,
            )
        case Format.JUNIT:
            from ligerdiag.report.junit import render_junit

            return render_junit(
                report, repository=find_repository(), fails=lambda case: fails_run(case, fail_on), strict=strict
            )
        case Format.GITHUB:
            from ligerdiag.report.markdown import render_github

            return render_github(report, repository=find_repository())
        case Format.MARKDOWN:
            from ligerdiag.report.markdown import render_markdown

            return render_markdown(report, exit_code=code, meaning=_find_meaning(report, code))
        case Format.CONCISE:
            from ligerdiag.report.terminal.concise import render_concise

            return render_concise(report)
        case Format.ISSUE:
            from ligerdiag import api

            return api.describe_issue(report, bisections=bisections)
        case _:
            assert_never(form)


def _show_table(report: CheckReport, verbosity: Verbosity) -> None:
    from ligerdiag.report.terminal.full_report import compute_colour, compute_stream_width

    width, colour = compute_stream_width(sys.stdout), compute_colour(sys.stdout)
    sys.stdout.write(render_text(report, verbosity, width=width, colour=colour))


def _render_summary(report: CheckReport, code: ExitCode) -> str:
    from ligerdiag.report.markdown import render_markdown

    return render_markdown(report, exit_code=code, meaning=_find_meaning(report, code), limit=SUMMARY_BYTES)


def _find_meaning(report: CheckReport, code: ExitCode) -> str:
    return (MEANINGS if report.noun is Noun.CASE else MEANINGS_WITHOUT_EXPECTATION)[code]


def _append(path: Path, text: str) -> None:
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise InputError(f"cannot write `{path}` of {SUMMARY}: {error.strerror or error}") from error


def _attempt(write: Callable[[], object], troubles: list[InputError]) -> None:
    try:
        write()
    except InputError as error:
        troubles.append(error)
