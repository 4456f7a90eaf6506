"""`ligerdiag report`: what somebody else compiled, as pages for a browser."""

from pathlib import Path
from typing import Annotated

import typer

from ligerdiag.cli.exit_codes import MEANINGS_WITHOUT_EXPECTATION, PRECEDENCE, FailOn, render_table
from ligerdiag.cli.inspect import inspect
from ligerdiag.cli.options import Config
from ligerdiag.cli.report_output import Format

DEFAULT_DIRECTORY = Path("ligerdiag-report")

HELP = """What XLA compiled, as pages for a browser: the memory that kernels overwrite in time,
who reads it, the way to each output and what is missing on it, the schedule, the HLO.
One self-contained file a module, and an index; nothing is loaded from anywhere.

\b
PATHS are those of `ligerdiag inspect`: a directory of XLA_FLAGS=--xla_dump_to=DIR,
.hlo.pb or HLO text, an artifact directory of `ligerdiag check`. For cases there is
`ligerdiag check --html DIR`, whose pages have the numbers, too.
"""

EPILOG = f"""\b
Examples:
  ligerdiag report /tmp/dump                    then open ligerdiag-report/index.html
  ligerdiag report step.txt.gz --html pages
  ligerdiag report /tmp/dump --module '*train_step*'

\b
Exit codes:
{render_table(MEANINGS_WITHOUT_EXPECTATION)}

{PRECEDENCE}
"""


def report(  # noqa: PLR0917 - typer reads the options from the signature
    paths: Annotated[list[Path], typer.Argument(help="Directories and files.", show_default=False)],
    html: Annotated[
        Path,
        typer.Option("--html", metavar="DIR", help="Where the pages go: empty, not there yet, or an older report."),
    ] = DEFAULT_DIRECTORY,
    module: Annotated[
        str, typer.Option("--module", metavar="GLOB", help="Only modules whose name matches, such as '*step*'.")
    ] = "",
    fail_on: Annotated[
        FailOn | None, typer.Option("--fail-on", help="Least severity that fails the run. [default: warning]")
    ] = None,
    strict: Annotated[
        bool | None,
        typer.Option(
            "--strict/--no-strict", help="Exit with 4 when a module is inconclusive, with 1 for a bad suppression."
        ),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", min=0.001, metavar="SECONDS", help="Longest for a module. [default: by its size]"),
    ] = None,
    cache_dir: Annotated[
        Path | None, typer.Option("--cache-dir", metavar="DIR", help="Where kernels' effects are kept.")
    ] = None,
    config: Config = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Evidence in full.")] = False,
) -> None:
    """Inspects, writes the pages and exits with the inspection's code."""
    inspect(
        paths=paths,
        module=module,
        format=Format.TERMINAL,
        output=None,
        fail_on=fail_on,
        strict=strict,
        timeout=timeout,
        cache_dir=cache_dir,
        config=config,
        verbose=verbose,
        html=html,
    )
