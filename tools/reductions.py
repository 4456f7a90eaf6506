"""Measures what `inspect` loses if an XLA dump lacks something: compares one compilation, reduced, with the full
artifact.

The same function judges each form of a compilation and the full one. The two verdicts on an output are equal; or the
reduced one is unknown; or both are right, and one by luck; or both are wrong in different ways; or they contradict each
other, right in one and wrong in the other, which is a bug.
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
    """How the verdict on one output changes."""

    EQUAL = "equal"
    UNKNOWN = "unknown"
    LUCKY = "lucky"
    """Fresh and latent: right both times, but only one of them says that something forces it."""
    OTHERWISE = "otherwise"
    """Stale and clobbered: wrong both times."""
    CONTRADICTS = "contradicts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One form of a compilation, given by its files."""

    name: str
    tags: bool = False
    """Whether the modules are those of the compile worker; else those of a compilation without tags."""
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
"""`a dump` is XLA's dump of a program that ligerdiag never saw."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One form of one case, compared with the full artifact."""

    form: Form
    case: str
    changes: Mapping[str, Change]
    """By output name."""
    full: Inspection
    reduced: Inspection

    def find(self, change: Change) -> Iterator[str]:
        """Returns the outputs with this change, with case and both verdicts."""
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
    """Yields the comparison of every form of one case. effects: cache directory for the effects of kernels."""
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
