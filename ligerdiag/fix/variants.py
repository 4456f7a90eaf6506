"""Cures that have several forms, of which the judgement picks one: the changed texts of each form."""

from collections.abc import Callable, Sequence

import libcst as cst

from ligerdiag.fix.call_site import Project
from ligerdiag.fix.records import Texts
from ligerdiag.fix.source_file import Change, SourceFile
from ligerdiag.model.findings import Finding
from ligerdiag.model.jobs import CaseSpec

type ListVariants = Callable[[Project, Sequence[Finding], CaseSpec], list[list[Texts]]]
"""Returns the changed texts of each form, in batches: a batch is judged if none of the batches before it helps."""


def render_variant(
    file: SourceFile, changes: Sequence[tuple[cst.CSTNode, Change]], *, imports: Sequence[str] = ()
) -> Texts:
    """Returns the text of a file with these changes and import lines alone; {} if that is the text it has."""
    file.forget_changes()
    for node, change in changes:
        file.change(node, change)
    for line in imports:
        file.add_import(line)
    text = file.render()
    file.forget_changes()
    return {} if text == file.original else {file.path: text}
