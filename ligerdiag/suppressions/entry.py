"""An entry `[[tool.ligerdiag.suppress]]`: which findings it allows.

Every filter that is given must hold. In the globs only `*` and `?` are special: ids are full of brackets.
"""

import os
from dataclasses import dataclass

from ligerdiag.compile.selectors import compile_glob
from ligerdiag.findings import Finding, SourceLine


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
