"""Makes the parts of a bug report that take time: bisections that find what changes the result, and the text of the
module to attach.

Ctrl-C, SIGTERM and the time limit end this work too; the bug report then has the parts that are done. If a run is ended
before its cases were checked, there is no bug report.
"""

import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from ligerdiag.cli.output import Format, Outputs
from ligerdiag.ending import Ending, EndWatch, RunEnded, work_until_ended
from ligerdiag.errors import InputError
from ligerdiag.model.report import CheckReport, OnProgress
from ligerdiag.report.comparisons import Axis, Bisection
from ligerdiag.run_options import CheckOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class IssueParts:
    """The bisections and the module text of a bug report, which take time to make."""

    bisections: tuple[Bisection, ...] = ()
    module: str = ""
    """The text of the optimized module to attach; empty if there is no module, or if the bug report is not written to a
    file.
    """
    ending: Ending | None = None
    """The event that ended the work early; None if the parts are complete."""


def make_issue_parts(
    report: CheckReport,
    outputs: Outputs,
    axes: Sequence[Axis],
    *,
    options: CheckOptions,
    watch: EndWatch,
    on_progress: OnProgress | None,
) -> IssueParts:
    """Makes the bisections and the module text that a bug report needs. Makes none if no output has the format `issue`.

    Says on stderr if an event ends the work early. Raises InputError as `bisect_subject` does. options: the options of
    the run. watch: the handler of signals of this run.
    """
    if report.cut_by is not None or not outputs.has(Format.ISSUE):
        return IssueParts()
    from ligerdiag import api

    bisections, module, ending = list[Bisection](), "", watch.missed
    if ending is None:
        with work_until_ended(again=True) as work:
            ending = add_bisections(bisections, report, axes, options, on_progress)
            if ending is None and Format.ISSUE in outputs.files.values():
                with suppress(InputError):  # there is no case to report, which the writer of the body says, too
                    module = api.print_module(report, options.cache_directory)
        ending = work.ending or ending
    if ending is not None:
        part = "`--bisect` is incomplete" if axes else "the module is missing"
        sys.stderr.write(
            f"issue: {part}, because {ending.value} ended the work; run the same command again to continue\n"
        )
    return IssueParts(bisections=tuple(bisections), module=module, ending=ending)


def add_bisections(
    found: list[Bisection],
    report: CheckReport,
    axes: Sequence[Axis],
    options: CheckOptions,
    on_progress: OnProgress | None = None,
    *,
    toolchains: tuple[str, ...] = (),
) -> Ending | None:
    """Adds to `found` a bisection along each axis.

    Returns the event that ends this work early, or None if it is complete. Raises InputError as `bisect_subject` does.
    """
    from ligerdiag import api

    for axis in axes:
        try:
            found += api.bisect_subject(report, (axis,), options, on_progress, toolchains=toolchains)
        except RunEnded as end:  # before anything was known along this axis
            return end.ending
        ending = next((one.ended_by for one in found if one.interrupted), None)
        if ending is not None:
            return ending
    return None
