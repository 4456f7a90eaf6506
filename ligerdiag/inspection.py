"""From an artifact to verdicts, findings and coverage: reads, analyses, asks every rule."""

import gc
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ligerdiag.analysis.context import Context, compute_context
from ligerdiag.analysis.coverage import compute_tag_coverage
from ligerdiag.analysis.vanished import TracedCall
from ligerdiag.compile.artifacts import Artifact
from ligerdiag.effects.access import CallEffects
from ligerdiag.effects.call import CustomCall
from ligerdiag.effects.isolated import compute_effects_isolated
from ligerdiag.errors import ArtifactError
from ligerdiag.findings import Finding, Verdict
from ligerdiag.hazards.registry import check_all
from ligerdiag.hlo.buffers import BufferAssignment
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.parse import load_hlo
from ligerdiag.hlo.shape import iterate_leaves
from ligerdiag.report.model import Coverage

EFFECTS_TIMEOUT = 60.0
"""Seconds that following one kernel's IR may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What the static analysis says about one artifact."""

    outputs: Mapping[str, Verdict]
    findings: tuple[Finding, ...]
    coverage: Coverage


@contextmanager
def _without_collector() -> Generator[None]:
    """The views hold many small objects that stay: looking through them again and again for cycles doubles the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def inspect_artifact(artifact: Artifact, *, effects_cache: Path | None) -> Inspection:
    """Judge one artifact. Raises ArtifactError when a file of it cannot be read as what it should be."""
    notes: list[str] = []
    program_path = artifact.as_written
    if not program_path.stat().st_size:
        program_path = artifact.unoptimized
        notes.append("the program could not be translated as written; what MLIR folded on the way is not seen")
    program, _ = load_hlo(program_path)
    optimized, buffers = load_hlo(artifact.optimized)
    if buffers is None:
        raise ArtifactError(f"`{artifact.optimized}` holds no buffer assignment")
    if not optimized.is_scheduled:
        raise ArtifactError(f"`{artifact.optimized}` holds no schedule")
    names = artifact.provenance.outputs
    for module in (program, optimized):
        leaves = sum(1 for _ in iterate_leaves(module.entry.root.shape))
        if leaves != len(names):
            raise ArtifactError(f"`{module.name}` has {leaves} outputs, the program {len(names)}")
    effects = _compute_effects((program, optimized), effects_cache)
    context = _analyse(artifact, program, optimized, buffers, effects)
    return Inspection(
        outputs={name: output.verdict for name, output in context.outputs.items()},
        findings=check_all(context),
        coverage=_compute_coverage(context, tuple(notes)),
    )


def _analyse(
    artifact: Artifact,
    program: HloModule,
    optimized: HloModule,
    buffers: BufferAssignment,
    effects: dict[CustomCall, CallEffects],
) -> Context:
    """The analysis; ArtifactError when the modules do not hang together (LIGERDIAG_DEBUG=1 shows where)."""
    try:
        with _without_collector():
            return _compute_context(artifact, program, optimized, buffers, effects)
    except (AssertionError, IndexError, KeyError, ValueError, RecursionError, StopIteration) as fault:
        if os.environ.get("LIGERDIAG_DEBUG"):
            raise
        raise ArtifactError(
            f"the modules of `{artifact.directory}` do not hang together: {type(fault).__name__} {fault}".rstrip()
        ) from fault


def _compute_context(
    artifact: Artifact,
    program: HloModule,
    optimized: HloModule,
    buffers: BufferAssignment,
    effects: dict[CustomCall, CallEffects],
) -> Context:
    return compute_context(
        program=program,
        optimized=optimized,
        buffers=buffers,
        effects_of=lambda call: effects[_key(call)],
        output_names=artifact.provenance.outputs,
        traced_calls=tuple(
            TracedCall(
                kernel=call.kernel,
                outputs=call.outputs,
                operands=call.operands,
                source=call.source if call.source.file else None,
                in_program=call.in_program,
                operand_used_later=call.operand_used_later,
            )
            for call in artifact.kernel_calls
        ),
    )


def _compute_effects(modules: tuple[HloModule, ...], cache: Path | None) -> dict[CustomCall, CallEffects]:
    calls = list(dict.fromkeys(_key(call) for module in modules for _, call in module.iterate_custom_calls()))
    return dict(
        zip(calls, compute_effects_isolated(calls, cache_directory=cache, timeout=EFFECTS_TIMEOUT), strict=True)
    )


def _key(call: HloInstruction) -> CustomCall:
    return CustomCall(
        target=call.proto.custom_call_target,
        backend_config=call.proto.backend_config,
        operands=len(call.operands),
        outputs=sum(1 for _ in iterate_leaves(call.shape)),
    )


def _compute_coverage(context: Context, notes: tuple[str, ...]) -> Coverage:
    tags = compute_tag_coverage(context.program, context.optimized)
    unplaced = tuple(
        f"where `{write.kernel}` writes operand {write.operand} could not be told"
        for write in context.matching.unplaced
    )
    moved = tuple(
        f"the loop around `{context.writes[index].kernel}` was unrolled or removed: its iterations are not told apart"
        for index in sorted(context.matching.moved)
    )
    return Coverage(
        instructions=context.program.instruction_count + context.optimized.instruction_count,
        kernels=len(context.calls),
        hidden_writes=len(context.writes),
        tags=tags.tags,
        tags_found=tags.found,
        buffer_assignment=True,
        not_covered=(*notes, *context.matching.notes, *context.actual.notes, *unplaced, *moved),
    )
