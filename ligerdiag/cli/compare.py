"""`ligerdiag compare`, and `check --toolchain A,B`: lists the changes for the better or worse between two reports."""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from ligerdiag.cli.exit_codes import MEANINGS_OF_COMPARE, compute_comparison_code, render_table
from ligerdiag.cli.options import Config, fill_options, make_command, read_settings
from ligerdiag.cli.output import ComparisonFormat, Format, parse_comparison_outputs, write_report_comparison
from ligerdiag.run_options import CompareOptions, Option

if TYPE_CHECKING:
    from ligerdiag.cli.output import Outputs
    from ligerdiag.report.compared.report_comparison import ReportComparison
    from ligerdiag.run_options import CheckOptions

HELP = """What became better or worse between two reports? Puts the cases of both side by side, the
worst first: verdicts, peak memory, temporaries, copied bytes, collectives and their bytes;
and says which findings and copies appeared, and which are gone.

\b
OLD and NEW are each
  a report of `ligerdiag check` or `ligerdiag inspect` with --format json, written
    at another commit, with another toolchain, for another GPU or with other flags
  or a path for `ligerdiag inspect`: a dump, a module, an artifact directory

Cases are matched by id and target; if the targets differ, by id alone. Figures count as
equal up to 2 % and 64 KiB. A case is worse if its status or a verdict is, or if its
memory, copies, warnings or errors grew and nothing is better; it is mixed if some of these
grew and something is better.

`ligerdiag check CASE --toolchain A,B` makes both reports and compares them.
`ligerdiag diff` shows what happens around an in-place kernel, in two compiles of a case.
"""

EPILOG = f"""\b
Examples:
  ligerdiag check --format json --output main.json        before a change
  ligerdiag check --format json --output new.json         after it
  ligerdiag compare main.json new.json
  ligerdiag compare main.json new.json --format markdown  a table for a pull request
  ligerdiag compare main.json new.json --output json=out.json --output markdown=out.md
  ligerdiag compare /dumps/last-week /dumps/today
  ligerdiag check 'decode*' --toolchain 0.10,default      after an upgrade of jax

\b
Exit codes:
{render_table(MEANINGS_OF_COMPARE)}
"""


@dataclass(frozen=True, kw_only=True)
class CompareLine(CompareOptions):
    """The options of `compare`: what to compare, and where the result goes."""

    format: Annotated[ComparisonFormat, Option("--format", help="Format of the comparison on standard output.")] = (
        ComparisonFormat.TERMINAL
    )
    output: Annotated[
        tuple[str, ...],
        Option(
            "--output",
            metavar="[FORMAT=]FILE",
            help="Write the comparison to a file, too: markdown=out.md. Repeatable. Without FORMAT, the suffix of FILE "
            "decides (.json, .md, .txt). With any other suffix, FILE gets the format of --format, and standard output "
            "the table.",
        ),
    ] = ()
    config: Config = None
    verbose: Annotated[bool, Option("--verbose", "-v", help="Show also the cases without a change.")] = False


def run_compare(line: CompareLine) -> None:
    """Runs the comparison, writes the result, and ends the process with the exit code."""
    from ligerdiag import api
    from ligerdiag.report.terminal.full_report import ProgressDisplay

    outputs = parse_comparison_outputs(line.output, Format(line.format.value))
    paths = [path for path in (line.old, line.new) if path.exists()]
    settings = read_settings(line.config, fail_on=None, strict=None, inspected=paths)
    options = fill_options(CompareOptions, line, effects=settings.config.effects, notes=settings.notes)
    with ProgressDisplay(sys.stderr) as show:
        comparison = api.compare(options, show)
    _finish(comparison, outputs, verbose=line.verbose)


def run_toolchain_comparison(
    options: "CheckOptions", toolchains: tuple[str, ...], outputs: "Outputs", *, verbose: bool
) -> None:
    """Checks the cases with two toolchains, writes the comparison, and ends the process with the exit code."""
    from ligerdiag import api
    from ligerdiag.report.terminal.full_report import ProgressDisplay

    with ProgressDisplay(sys.stderr) as show:
        comparison = api.compare_toolchains(options, toolchains, show)
    _finish(comparison, outputs, verbose=verbose)


def _finish(comparison: "ReportComparison", outputs: "Outputs", *, verbose: bool) -> None:
    code = compute_comparison_code(comparison)
    write_report_comparison(comparison, outputs, verbose=verbose, code=code)
    raise typer.Exit(code)


compare = make_command(CompareLine, run_compare, "old new format output module timeout cache_directory config verbose")
