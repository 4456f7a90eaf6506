"""Lists the lines of the user's source that a case runs: those from which an instruction of its program comes.

A line that only JAX drops, because nothing uses its result, is missing. So is a line that computes no array.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from ligerdiag.artifacts.artifact import load_artifact
from ligerdiag.hlo.module import iterate_user_frames
from ligerdiag.hlo.parse import load_hlo
from ligerdiag.model.report import CaseReport


def list_traced_lines(reports: Sequence[CaseReport]) -> frozenset[tuple[Path, int]]:
    """Returns a (real path of a file, line) pair for each source line that the programs of these reports run.

    Lines of callers are included. Raises ArtifactError if an artifact cannot be read.
    """
    found: set[tuple[str, int]] = set()
    for path in dict.fromkeys(one.artifact for one in reports if one.artifact):
        module, _ = load_hlo(load_artifact(Path(path)).program)
        for computation in module.computations.values():
            for instruction in computation.instructions:
                found |= {(frame.file, frame.line) for frame in iterate_user_frames(module, instruction)}
    paths = {name: Path(os.path.realpath(name)) for name in {name for name, _ in found}}
    return frozenset((paths[name], line) for name, line in found)
