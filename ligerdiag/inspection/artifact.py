"""From an artifact's files to its inspection, and the workers that read its kernels."""

import json
from pathlib import Path
from typing import Unpack

from ligerdiag.artifacts.artifact import Artifact, Provenance
from ligerdiag.artifacts.cache import Cache
from ligerdiag.effects.isolated import TIMEOUT as EFFECTS_TIMEOUT
from ligerdiag.effects.isolated import WORKER_MEMORY
from ligerdiag.effects.job import EFFECTS_WORKER
from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.parse import load_hlo, pause_collector
from ligerdiag.hlo.thunks import CommandOrder, ThunkSequence, parse_command_order, parse_thunks
from ligerdiag.inspection.compilation import InspectionWords, inspect_compilation
from ligerdiag.inspection.coverage import Compilation
from ligerdiag.model.report import Inspection
from ligerdiag.toolchains.toolchain import Toolchain
from ligerdiag.untrusted_files import MAXIMUM_TEXT_BYTES, read_untrusted
from ligerdiag.workers.pool import COMPILE_WORKER, Pool
from ligerdiag.workers.starts import Templates


@pause_collector()
def inspect_artifact(artifact: Artifact, *, is_foreign: bool = False, **words: Unpack[InspectionWords]) -> Inspection:
    """Judges one artifact. Raises ArtifactError when one of its files cannot be read as the expected kind.

    is_foreign: see `Compilation`.
    """
    program, _ = load_hlo(artifact.program)
    optimized, buffers = load_hlo(artifact.optimized)
    if buffers is None:
        raise ArtifactError(f"`{artifact.optimized}` holds no buffer assignment")
    if not optimized.is_scheduled:
        raise ArtifactError(f"`{artifact.optimized}` holds no schedule")
    thunks, notes = _read_thunks(artifact.thunks)
    compilation = Compilation(
        name=str(artifact.directory),
        program=program,
        as_written=artifact.program == artifact.as_written,
        optimized=optimized,
        buffers=buffers,
        output_names=artifact.provenance.outputs,
        kernel_calls=artifact.kernel_calls,
        notes=notes,
        thunks=thunks,
        command_order=_find_command_order(artifact.provenance),
        is_foreign=is_foreign,
    )
    return inspect_compilation(compilation, **words)


def _read_thunks(path: Path) -> tuple[ThunkSequence | None, tuple[str, ...]]:
    """Returns the sequence, and what is to be said where it could not be read."""
    try:
        text = read_untrusted(path, MAXIMUM_TEXT_BYTES).decode("utf-8")
        return (parse_thunks(text) if text.strip() else None), ()
    except (ArtifactError, UnicodeDecodeError) as error:
        return None, (f"the thunk sequence could not be read, and its command buffers are not seen: {error}",)


def _find_command_order(provenance: Provenance) -> CommandOrder:
    """By the flags of the compile, which count before those of its environment."""
    return parse_command_order(json.dumps([provenance.environment.get("XLA_FLAGS", ""), dict(provenance.flags)]))


def open_readers(toolchain: Toolchain, cache: Cache, templates: Templates) -> Pool:
    """Returns a pool of one worker that reads kernels with the toolchain's Triton: a fork of a compile worker's template."""
    return Pool(
        cache=cache,
        toolchain=toolchain,
        jobs=1,
        timeout=EFFECTS_TIMEOUT,
        memory_limit=WORKER_MEMORY,
        module=EFFECTS_WORKER,
        template=COMPILE_WORKER,
        templates=templates,
    )
