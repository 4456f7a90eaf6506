"""An entry `[[tool.ligerdiag.suppress]]`, and of what a run saw everything: only there an entry can be called unused.

Every filter that is given must hold. In the globs only `*` and `?` are special: ids are full of brackets.

1. A run without selectors counts as all cases of the project; one with a file, folder or name in a module has all cases of
   that. An id or glob chooses some.
2. A run that leaves out a target which the project is checked for by default saw nothing in full, and neither did one that
   Ctrl-C ended.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ligerdiag.compile.cases.selectors import Selector, compile_glob, parse_selectors
from ligerdiag.model.findings import Finding, SourceLine
from ligerdiag.model.jobs import Source
from ligerdiag.model.report import CaseReport


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One entry; an empty glob is one that is not given."""

    rule: str
    """Rule id."""
    reason: str
    case: str = ""
    """Glob over ids of cases, of `inspect` over ids of modules."""
    kernel: str = ""
    """Glob over the kernel's function name."""
    output: str = ""
    """Glob that every output that the finding reaches has to match; a finding that reaches none does not."""
    source: str = ""
    """Glob over the file of the kernel call or of the reader, relative to `directory` where it is below it."""
    directory: str = ""
    """Absolute path of the configuration file's directory."""
    where: str
    """For people: which file, which entry."""

    def concerns(self, case_id: str) -> bool:
        """Returns whether the entry can match a finding of this case."""
        return not self.case or _matches(self.case, case_id)

    def matches(self, case_id: str, finding: Finding) -> bool:
        """Returns whether the entry allows this finding of this case."""
        return (
            finding.rule == self.rule
            and self.concerns(case_id)
            and (not self.kernel or _matches(self.kernel, finding.kernel))
            and (not self.output or self._matches_outputs(finding))
            and (not self.source or self._matches_source(finding))
        )

    def _matches_outputs(self, finding: Finding) -> bool:
        return bool(finding.outputs) and all(_matches(self.output, name) for name in finding.outputs)

    def _matches_source(self, finding: Finding) -> bool:
        here = self.directory.rstrip(os.sep) + os.sep
        files = [place.file for place in list_places(finding)]
        return any(_matches(self.source, file.removeprefix(here)) or _matches(self.source, file) for file in files)


def list_places(finding: Finding) -> tuple[SourceLine, ...]:
    """Returns the lines that a suppression can name: the finding's own and the reader's; for a backward call that of
    its forward."""
    places = [finding.source]
    if finding.reader is not None:
        places.append(finding.reader.line)
    elif finding.call is not None and finding.call.in_backward:
        places += finding.call.callers[:1]
    return tuple(dict.fromkeys(place for place in places if place is not None))


def _matches(glob: str, text: str) -> bool:
    return bool(text) and compile_glob(glob).fullmatch(text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenScope:
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
) -> SeenScope:
    """Returns the scope of a run that was not interrupted.

    directory: what the selectors are relative to. usual_targets: those that the project is checked for by default.
    """
    if not set(usual_targets) <= set(targets):
        return SeenScope()
    whole = {source for one in parse_selectors(selectors, directory) if one.pattern == "*" for source in one.sources}
    files: dict[str, tuple[CaseReport, ...]] = {}
    for source, report in cases:
        if source in whole and source.file:
            files[source.file] = (*files.get(source.file, ()), report)
    return SeenScope(everything=not selectors, ids=frozenset(report.id for _, report in cases), files=files)
