"""Of what a run saw everything: only there can a suppression be called unused.

1. A run without selectors counts as all cases of the project; one with a file, folder or name in a module has all cases of
   that. An id or glob chooses some.
2. A run that leaves out a target which the project is checked for by default saw nothing in full, and neither did one that
   Ctrl-C ended.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ligerdiag.compile.job import Source
from ligerdiag.compile.selectors import Selector, parse_selectors
from ligerdiag.report.model import CaseReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """By default the run saw everything of nothing, so that nothing is called unused."""

    everything: bool = False
    """All cases of the project."""
    ids: frozenset[str] = frozenset()
    """Cases that were in the run."""
    files: Mapping[str, tuple[CaseReport, ...]] = field(default_factory=dict[str, tuple[CaseReport, ...]])
    """Files with cases, all of which were in the run, to the reports of these cases."""


def compute_scope(
    selectors: Sequence[Selector],
    directory: Path,
    cases: Sequence[tuple[Source, CaseReport]],
    *,
    targets: Sequence[str],
    usual_targets: Sequence[str],
) -> Scope:
    """Returns the scope of a run that was not interrupted.

    directory: what the selectors are relative to. usual_targets: those that the project is checked for by default.
    """
    if not set(usual_targets) <= set(targets):
        return Scope()
    whole = {source for one in parse_selectors(selectors, directory) if one.pattern == "*" for source in one.sources}
    files: dict[str, tuple[CaseReport, ...]] = {}
    for source, report in cases:
        if source in whole and source.file:
            files[source.file] = (*files.get(source.file, ()), report)
    return Scope(everything=not selectors, ids=frozenset(report.id for _, report in cases), files=files)
