"""Writes a baseline: as a whole or not at all, and never that of a run that was cut short."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ligerdiag.cli.output import require_writable, write_atomically
from ligerdiag.report.model import CheckReport

if TYPE_CHECKING:
    from ligerdiag.api.options import CheckOptions


def require_recordable(path: Path) -> None:
    """Raises InputError, before any work is done, when a baseline cannot be written to `path` or joined to what is there."""
    from ligerdiag import api

    require_writable(path, option="--record")
    if path.exists():
        api.load_baseline(path)


def write_record(report: CheckReport, options: "CheckOptions", path: Path) -> None:
    """Says on standard error what was recorded, or why nothing was. Raises InputError as `render_record` does."""
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
