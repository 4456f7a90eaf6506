"""`ligerdiag report`: schedules that were compiled elsewhere, as pages for a browser."""

from pathlib import Path
from typing import Annotated

import typer

from ligerdiag.cli.exit_codes import MEANINGS_WITHOUT_EXPECTATION, PRECEDENCE, render_table
from ligerdiag.cli.inspect import inspect
from ligerdiag.cli.module_options import (
    EffectsCacheDir,
    Evidence,
    InspectSourceRoots,
    Module,
    ModuleFailOn,
    ModuleStrict,
    ModuleTimeout,
    Paths,
)
from ligerdiag.cli.options import Config
from ligerdiag.cli.report_output import Format

DEFAULT_DIRECTORY = Path("ligerdiag-report")

REPORT_HELP = """What XLA compiled, as pages for a browser: the memory that kernels overwrite in time,
who reads it, the way to each output and what is missing on it, the schedule, the HLO.
One self-contained file a module, and an index; nothing is loaded from anywhere.

\b
PATHS are those of `ligerdiag inspect`: a directory of XLA_FLAGS=--xla_dump_to=DIR,
.hlo.pb or HLO text, an artifact directory of `ligerdiag check`. For cases there is
`ligerdiag check --html DIR`, whose pages have the numbers, too.
"""

REPORT_EPILOG = f"""\b
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
    paths: Paths,
    html: Annotated[
        Path,
        typer.Option("--html", metavar="DIR", help="Where the pages go: empty, not there yet, or an older report."),
    ] = DEFAULT_DIRECTORY,
    module: Module = "",
    fail_on: ModuleFailOn = None,
    strict: ModuleStrict = None,
    timeout: ModuleTimeout = None,
    cache_dir: EffectsCacheDir = None,
    config: Config = None,
    source_root: InspectSourceRoots = None,
    verbose: Evidence = False,
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
        source_root=source_root,
        verbose=verbose,
        html=html,
    )
