"""From an artifact to verdicts, findings and coverage: reads, analyses, asks every rule."""

import base64
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ligerdiag.analysis.context import Context, compute_context, compute_context_without_program
from ligerdiag.analysis.correspondence.belief import are_in_order, compute_belief
from ligerdiag.analysis.correspondence.provenance import compute_tags
from ligerdiag.analysis.correspondence.vanished import (
    TagCoverage,
    TracedKernel,
    compute_tag_coverage,
    find_hidden_accesses,
    find_sites,
)
from ligerdiag.analysis.explain.neighbours import compute_neighbourhoods
from ligerdiag.analysis.explain.output_sentences import describe_ambiguities, describe_untraced
from ligerdiag.analysis.explain.schedule_view import compute_schedule_view
from ligerdiag.analysis.writes import EffectsOf, find_hidden_operands
from ligerdiag.artifacts.artifact import Artifact, KernelCall, LoneCall, Provenance
from ligerdiag.artifacts.cache import Cache
from ligerdiag.effects.access import Access
from ligerdiag.effects.call import CustomCall
from ligerdiag.effects.declared import Contradiction, DeclaredEffects
from ligerdiag.effects.isolated import TIMEOUT as EFFECTS_TIMEOUT
from ligerdiag.effects.isolated import WORKER_MEMORY, CallEffectsReader
from ligerdiag.effects.job import EFFECTS_WORKER
from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.aliasing import build_must_alias_buffers, find_buffer_fault
from ligerdiag.hlo.buffers import BufferAssignment
from ligerdiag.hlo.dataflow import take_unplaced_aliases
from ligerdiag.hlo.metadata import is_tagged
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.parse import load_hlo, pause_collector, require_same_operands
from ligerdiag.hlo.shape import iterate_leaves
from ligerdiag.hlo.thunks import CommandOrder, ThunkSequence, parse_command_order, parse_thunks
from ligerdiag.model.findings import Finding, RuleFailure, Verdict
from ligerdiag.model.report import Coverage
from ligerdiag.model.schedule_view import Neighbourhood, ScheduleView
from ligerdiag.rules.registry import check_all
from ligerdiag.toolchains.toolchain import Toolchain
from ligerdiag.untrusted_files import MAXIMUM_TEXT_BYTES, read_untrusted
from ligerdiag.workers.pool import COMPILE_WORKER, Pool
from ligerdiag.workers.starts import Templates


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenOperand:
    """A hidden write, by the operation of the program that does it."""

    kernel: str
    call: int
    """Tag of the kernel's custom call; 0 where it has none."""
    operand: int
    """Of that call, 0-based."""
    unknown: bool
    """It may or may not be written: the kernel could not be followed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """The result of the static analysis of one artifact."""

    outputs: Mapping[str, Verdict]
    findings: tuple[Finding, ...]
    coverage: Coverage
    failures: tuple[RuleFailure, ...] = ()
    """Rules that failed; the coverage names them, too."""
    written: tuple[WrittenOperand, ...] = ()
    """The operands that kernels overwrite without XLA's knowledge, in program order."""
    meant: Mapping[str, int] = field(default_factory=dict[str, int])
    """Output name to what its author wants it to depend on, as `labels` of hidden writes; empty without any."""
    neighbourhoods: tuple[Neighbourhood, ...] = ()
    """The neighbourhood of each hidden write, if requested."""
    view: ScheduleView | None = None
    """The data for an HTML report, if requested."""


NO_BUFFERS = BufferAssignment(slices=(), definitions={}, overlapping={}, parameters={})
"""Nothing is looked up where no kernel writes anything."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Compilation:
    """The parts of one compilation, whatever their origin."""

    name: str
    """For messages: the module's name, or a directory."""
    program: HloModule | None
    """The unoptimized module; None where there is none."""
    as_written: bool
    """`program` is the one from before MLIR folded anything, which only our own artifacts hold."""
    optimized: HloModule
    buffers: BufferAssignment | None
    """None: storage that must be shared is worked out from XLA's rules, and the coverage says so."""
    output_names: tuple[str, ...]
    """In the order of the outputs' leaves; () names them `output 0`, `output 1`, …"""
    kernel_calls: tuple[KernelCall, ...] = ()
    """The calls that the program asks for, as the worker traced it; () where it was traced elsewhere."""
    notes: tuple[str, ...] = ()
    """Notes of the file reader for "not covered"."""
    thunks: ThunkSequence | None = None
    """The launches with their command buffers; None if XLA wrote none or they could not be read."""
    command_order: CommandOrder | None = None
    """What order its command buffers keep, by XLA's flags; None where these are not known."""
    is_numbered: bool = True
    """The ids of the program's instructions rise in the order in which they were written; HLO text has no ids."""
    is_foreign: bool = True
    """It came from elsewhere: tags count as far as the operands agree with them (see `belief`). Else our worker put them."""


_CUT_TAGS = "some operations have tags and others have none, or one of another's: no tag is used"
_FOLDED = "the program could not be read as written; what MLIR folded on the way is not seen"


@pause_collector()
def inspect_artifact(
    artifact: Artifact,
    *,
    effects_cache: Path | None,
    declared: Sequence[DeclaredEffects] = (),
    readers: Pool | None = None,
    neighbourhoods: bool = False,
    view: bool = False,
    is_foreign: bool = False,
) -> Inspection:
    """Judges one artifact. Raises ArtifactError when one of its files cannot be read as the expected kind.

    declared: what is believed of operands whose effects are unknown. readers: workers that read kernels with the Triton
    that made them, where that is not ours; see `open_readers`. neighbourhoods: look at who reads what is overwritten, too.
    view: compute what an HTML report draws. is_foreign: see `Compilation`.
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
    return inspect_compilation(
        compilation,
        effects_cache=effects_cache,
        declared=declared,
        readers=readers,
        neighbourhoods=neighbourhoods,
        view=view,
    )


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


@pause_collector()
def inspect_compilation(
    compilation: Compilation,
    *,
    effects_cache: Path | None,
    declared: Sequence[DeclaredEffects] = (),
    readers: Pool | None = None,
    neighbourhoods: bool = False,
    view: bool = False,
) -> Inspection:
    """Judge one compilation; see `inspect_artifact`. Raises ArtifactError when its modules do not belong together."""
    program, optimized = compilation.program, compilation.optimized
    names = compilation.output_names or _name_outputs(optimized)
    modules = (optimized,) if program is None else (program, optimized)
    for module in modules:
        leaves = sum(1 for _ in iterate_leaves(module.entry.root.shape))
        if leaves != len(names):
            raise ArtifactError(f"`{module.name}` has {leaves} outputs, the program {len(names)}")
    if program is not None:
        require_same_operands(program, optimized)
    effects = CallEffectsReader(cache=effects_cache, declared=declared, readers=readers)
    effects.read(*modules, others=[_describe(call, call.alone) for call in compilation.kernel_calls if call.alone])
    traced_calls = tuple(
        TracedKernel(
            kernel=call.kernel,
            outputs=call.outputs,
            operands=call.operands,
            source=call.source if call.source.file else None,
            in_program=call.in_program,
            operand_used_later=call.operand_used_later,
            site=call.site,
            tags=call.tags,
            hidden=_find_hidden(call, effects),
        )
        for call in compilation.kernel_calls
    )
    try:
        compilation = _check_buffers(compilation)
        context = _compute_context(compilation, names, effects.find, traced_calls)
        context = replace(
            context, contradictions=_list_contradictions(context, effects), sites=find_sites(traced_calls)
        )
        around = compute_neighbourhoods(context) if neighbourhoods else ()
        drawn = compute_schedule_view(context) if view else None
    except (AssertionError, IndexError, KeyError, ValueError, RecursionError, StopIteration) as fault:
        if os.environ.get("LIGERDIAG_DEBUG"):  # shows where the modules do not hang together
            raise
        raise ArtifactError(
            f"the modules of `{compilation.name}` do not hang together: {type(fault).__name__} {fault}".rstrip()
        ) from fault
    answers = check_all(context)
    coverage = _compute_coverage(compilation, context)
    failed = tuple(failure.message for failure in answers.failures)
    return Inspection(
        outputs={name: output.verdict for name, output in context.verdicts.outputs.items()},
        findings=answers.findings,
        failures=answers.failures,
        coverage=replace(coverage, not_covered=(*failed, *coverage.not_covered)),
        written=tuple(
            WrittenOperand(
                kernel=write.kernel,
                call=write.tag_path[-1] if write.tag_path else 0,
                operand=write.operand,
                unknown=write.unknown,
            )
            for write in context.writes
        ),
        meant=dict(zip(names, context.intended.outputs, strict=False)),
        neighbourhoods=around,
        view=drawn,
    )


def open_readers(toolchain: Toolchain, cache: Cache) -> Pool | None:
    """Returns a pool of one worker that reads kernels with the toolchain's Triton; None where that is our own."""
    if toolchain.is_own:
        return None
    return Pool(cache=cache, toolchain=toolchain, jobs=1, timeout=EFFECTS_TIMEOUT, module=EFFECTS_WORKER)


def fork_readers(toolchain: Toolchain, cache: Cache, templates: Templates) -> Pool:
    """Returns the same, also with our own Triton, for a run that compiles: its workers are forks of a compile worker's."""
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


def _name_outputs(module: HloModule) -> tuple[str, ...]:
    return tuple(f"output {number}" for number, _ in enumerate(iterate_leaves(module.entry.root.shape)))


def _find_hidden(call: KernelCall, effects: CallEffectsReader) -> tuple[Access, ...]:
    if call.in_program or not call.outputs:
        return ()
    if call.alone is None:
        return find_hidden_accesses(None, ())
    return find_hidden_accesses(effects.find_other(_describe(call, call.alone)), call.alone.declared)


def _describe(call: KernelCall, alone: LoneCall) -> CustomCall:
    return CustomCall(
        target=alone.target,
        backend_config=base64.b64decode(alone.config),
        operands=call.operands,
        outputs=call.outputs,
    )


def _check_buffers(compilation: Compilation) -> Compilation:
    """Returns the compilation without a buffer assignment that does not hold, and without aliases that it shows to be
    none."""
    buffers = compilation.buffers
    if buffers is None or not any(True for _ in compilation.optimized.iterate_custom_calls()):
        return compilation
    take_unplaced_aliases(compilation.optimized, buffers)
    fault = find_buffer_fault(compilation.optimized, buffers)
    if not fault:
        return compilation
    note = f"the buffer assignment does not hold, and is not used: {fault}"
    return replace(compilation, buffers=None, notes=(*compilation.notes, note))


def _compute_context(
    compilation: Compilation, names: tuple[str, ...], effects_of: EffectsOf, traced_calls: tuple[TracedKernel, ...]
) -> Context:
    program, optimized = compilation.program, compilation.optimized
    writes_something = any(
        find_hidden_operands(call, effects_of(call))
        for module in (program, optimized)
        if module is not None
        for _, call in module.iterate_custom_calls()
    )
    buffers = compilation.buffers
    if buffers is None:
        buffers = build_must_alias_buffers(optimized) if writes_something else NO_BUFFERS
    if program is None or not optimized.is_scheduled:
        return compute_context_without_program(
            optimized=optimized,
            buffers=buffers,
            effects_of=effects_of,
            output_names=names,
            traced_calls=traced_calls,
            thunks=compilation.thunks,
            command_order=compilation.command_order or CommandOrder.SCHEDULE,
        )
    retagged, belief = None, None
    if writes_something and not _are_tags_used(compilation, program):
        retagged = compute_tags(program, optimized, named=not compilation.as_written)
        program, optimized = retagged.program, retagged.optimized
    if writes_something and compilation.is_foreign:
        belief = compute_belief(program, optimized)
        optimized = belief.without_refuted(optimized)
    return compute_context(
        program=program,
        optimized=optimized,
        buffers=buffers,
        effects_of=effects_of,
        output_names=names,
        traced_calls=traced_calls,
        retagged=retagged,
        belief=belief,
        folded=not compilation.as_written or retagged is not None,  # without tags the snapshots have no place
        thunks=compilation.thunks,
        command_order=compilation.command_order or CommandOrder.SCHEDULE,
    )


def _are_tags_used(compilation: Compilation, program: HloModule) -> bool:
    """Whether the tags in its names are believed to be those that our worker gave the program's operations."""
    return is_tagged(program) and (
        not compilation.is_foreign or are_in_order(program, is_numbered=compilation.is_numbered)
    )


def _list_contradictions(
    context: Context, effects: CallEffectsReader
) -> tuple[tuple[HloInstruction, Contradiction], ...]:
    """Each declaration that is not so, with the first call that shows it."""
    first: dict[Contradiction, HloInstruction] = {}
    for call, _ in (*context.calls, *context.optimized_calls):
        for one in effects.find_contradictions(call):
            first.setdefault(one, call)
    return tuple([(call, one) for one, call in first.items()])


def _compute_coverage(compilation: Compilation, context: Context) -> Coverage:
    program = compilation.program
    tags = compute_tag_coverage(context.program, context.optimized) if program is not None else TagCoverage()
    unplaced = tuple(
        f"where `{write.kernel}` writes operand {write.operand} could not be told"
        for write in context.matching.unplaced
    )
    moved = tuple(
        f"the loop around `{context.writes[index].kernel}` was unrolled or removed: its iterations are not told apart"
        for index in sorted(context.matching.moved)
    )
    refuted = ()
    if context.refuted:
        refuted = (
            f"{len(context.refuted)} of the tags are of operations that the instructions cannot be: they are not used",
        )
    notes = (*compilation.notes, *_describe_missing(compilation)) if context.writes else compilation.notes
    return Coverage(
        instructions=compilation.optimized.instruction_count + (program.instruction_count if program else 0),
        kernels=len(context.calls),
        hidden_writes=len(context.writes),
        tags=tags.tags,
        tags_found=tags.found,
        buffer_assignment=compilation.buffers is not None,
        not_covered=(
            *notes,
            *refuted,
            *context.matching.notes,
            *context.concurrency.notes,
            *unplaced,
            *moved,
            *(describe_untraced(context, context.verdicts) if program is not None else ()),
            *describe_ambiguities(context, context.verdicts),
        ),
    )


def _describe_missing(compilation: Compilation) -> Iterator[str]:
    """Yields the parts that a compilation with hidden writes lacks, a line each."""
    if not compilation.optimized.is_scheduled:
        yield "the module has no schedule: what runs before what is not known"
        return
    if compilation.program is None:
        yield "there is no module from before the optimizations: who is meant to see what a kernel wrote is not known"
    elif not compilation.as_written:
        yield _FOLDED
    if (
        compilation.program is not None
        and compilation.program.tags
        and not _are_tags_used(compilation, compilation.program)
    ):
        yield _CUT_TAGS
    if compilation.buffers is None:
        yield "there is no buffer assignment: values that share bytes by chance are not seen"
    if compilation.command_order is None:
        yield "XLA's flags are not there: command buffers are taken to keep the order of the schedule, as by default"
