"""Measures what `inspect` loses if an XLA dump lacks something: one compilation, reduced, against the full artifact's
verdicts.

Each form of a compilation is judged by the same function as the full one. An output is equal, or unknown; right both
times, but lucky in one of them; wrong both times, but with another verdict; or it contradicts, right in one and wrong
in the other, which is a bug.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ligerdiag.artifacts.artifact import Artifact
from ligerdiag.hlo.parse import load_hlo
from ligerdiag.inspection.compilation import analyse_compilation, inspect_artifact
from ligerdiag.inspection.coverage import Compilation
from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import Inspection


class Change(StrEnum):
    """The change of one output's verdict."""

    EQUAL = "equal"
    UNKNOWN = "unknown"
    LUCKY = "lucky"
    """Fresh and latent: right both times, and not agreed on whether anything forces it."""
    OTHERWISE = "otherwise"
    """Stale and clobbered: wrong both times."""
    CONTRADICTS = "contradicts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One form of a compilation: the files that it consists of."""

    name: str
    tags: bool = False
    """From the compile worker; else the modules are those of a compilation without tags."""
    program: bool = True
    as_written: bool = False
    buffers: bool = True


FORMS = (
    Form(name="tags, no program as written", tags=True),
    Form(name="tags, no buffers", tags=True, as_written=True, buffers=False),
    Form(name="a dump", buffers=True),
    Form(name="a dump, no buffers", buffers=False),
    Form(name="a dump, no program", program=False),
    Form(name="a dump, no program, no buffers", program=False, buffers=False),
    Form(name="as written, no tags", as_written=True),
)
"""`a dump` is what XLA writes of a program that ligerdiag never saw."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One form of one case beside the full artifact."""

    form: Form
    case: str
    changes: Mapping[str, Change]
    """By output."""
    full: Inspection
    reduced: Inspection

    def find(self, change: Change) -> Iterator[str]:
        """Outputs of this change, with case and both verdicts."""
        for name, one in self.changes.items():
            if one is change:
                yield f"{self.case} {name}: {self.full.outputs[name].value} -> {self.reduced.outputs[name].value}"


def reduce_artifact(form: Form, tagged: Artifact, untagged: Artifact) -> Compilation:
    """Returns the compilation in this form."""
    artifact = tagged if form.tags else untagged
    optimized, buffers = load_hlo(artifact.optimized)
    program = load_hlo(artifact.as_written if form.as_written else artifact.unoptimized)[0] if form.program else None
    return Compilation(
        name=artifact.provenance.case_id,
        program=program,
        as_written=form.as_written,
        optimized=optimized,
        buffers=buffers if form.buffers else None,
        output_names=tagged.provenance.outputs,
    )


def compare_forms(
    tagged: Artifact, untagged: Artifact, effects: Path, forms: tuple[Form, ...] = FORMS
) -> Iterator[Comparison]:
    """Yields every form of one case beside the full artifact. effects: cache directory for what kernels do."""
    full = inspect_artifact(tagged, effects_cache=effects)
    for form in forms:
        reduced = analyse_compilation(reduce_artifact(form, tagged, untagged), effects_cache=effects).inspection
        changes = {name: _compare(verdict, reduced.outputs[name]) for name, verdict in full.outputs.items()}
        yield Comparison(form=form, case=tagged.provenance.case_id, changes=changes, full=full, reduced=reduced)


def _compare(full: Verdict, reduced: Verdict) -> Change:
    if full is reduced:
        return Change.EQUAL
    if reduced is Verdict.UNKNOWN:
        return Change.UNKNOWN
    if full.is_right != reduced.is_right:
        return Change.CONTRADICTS
    return Change.LUCKY if full.is_right else Change.OTHERWISE
