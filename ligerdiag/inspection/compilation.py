"""Judges one compilation, given as modules or as an artifact's files: runs the analyses on it and evaluates every rule.

Worker processes read the kernels of the compilation.
"""

import base64
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Required, TypedDict, Unpack

from ligerdiag.analysis.context import Context, compute_context, compute_context_without_program
from ligerdiag.analysis.evaluation.labels import unite
from ligerdiag.analysis.explain.neighbours import compute_neighbourhoods, list_kernel_calls
from ligerdiag.analysis.explain.sharing_sentences import describe_must_share
from ligerdiag.analysis.explain.view_builder import compute_schedule_view
from ligerdiag.analysis.lost_refs import find_lost_refs
from ligerdiag.analysis.provenance import compute_tags, forget_entered, retag_shared_computations
from ligerdiag.analysis.tag_trust import compute_tag_trust
from ligerdiag.analysis.unwritten_memory import find_unresolved_reads
from ligerdiag.analysis.verdict.schedule_alone import find_mixed_up_donations
from ligerdiag.analysis.verdict.verdicts import make_outputs_clobbered, make_outputs_unknown, worsen_outputs
from ligerdiag.analysis.write_correspondence import TracedKernel, find_hidden_accesses, find_repeated, find_sites
from ligerdiag.analysis.writes import EffectsOf, HiddenWrite, find_hidden_operands
from ligerdiag.artifacts.artifact import Artifact, KernelCall, LoneCall, Provenance
from ligerdiag.artifacts.cache import Cache
from ligerdiag.effects.access import Access, CallEffects
from ligerdiag.effects.call import CustomCall
from ligerdiag.effects.declared import Contradiction, DeclaredEffects
from ligerdiag.effects.effects_worker import EFFECTS_WORKER
from ligerdiag.effects.isolated import TIMEOUT as EFFECTS_TIMEOUT
from ligerdiag.effects.isolated import WORKER_MEMORY, CallEffectsReader
from ligerdiag.errors import ArtifactError, LigerdiagError, describe_bug
from ligerdiag.hlo.aliasing import build_must_alias_buffers, find_buffer_fault
from ligerdiag.hlo.buffers import BufferAssignment, share_parameters
from ligerdiag.hlo.dataflow import is_custom_partitioning, search, take_unplaced_aliases
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.parse import load_hlo, pause_collector, require_same_operands
from ligerdiag.hlo.shape import iterate_leaves
from ligerdiag.hlo.shared_bytes import SharedBytes, TooManyStepsError, find_shared_bytes
from ligerdiag.hlo.thunks import CommandOrder, ThunkSequence, parse_command_order, parse_thunks
from ligerdiag.inspection.coverage import Compilation, are_tags_used, compute_coverage
from ligerdiag.memory.memory_use import MemoryAnalysis, analyse_memory, asks_in_place
from ligerdiag.memory.output_lines import find_output_line
from ligerdiag.model.findings import SourceLine, Verdict
from ligerdiag.model.report import Inspection, WrittenOperand
from ligerdiag.model.tuning import Tuning
from ligerdiag.rules.registry import check_all
from ligerdiag.toolchains.gpu_targets import find_bandwidth
from ligerdiag.toolchains.toolchain import Toolchain
from ligerdiag.toolchains.tuned_instructions import list_tuned
from ligerdiag.untrusted_files import MAXIMUM_TEXT_BYTES, read_untrusted
from ligerdiag.workers.pool import COMPILE_WORKER, Pool
from ligerdiag.workers.templates import Templates

NO_BUFFERS = BufferAssignment(slices=(), definitions={}, overlapping={}, parameters={})
"""An empty buffer assignment, for a module in which no kernel writes, so that no value is looked up in it."""


class InspectionWords(TypedDict, total=False):
    """The keyword arguments of an inspection."""

    effects_cache: Required[Path | None]
    declared: Sequence[DeclaredEffects]
    """Effects that the user declares for operands whose effects are unknown."""
    readers: Pool | None
    """Workers that read kernels with the Triton that made them (see `open_readers`); None means that this environment's
    Triton reads them.
    """
    neighbourhoods: bool
    """Whether to find the readers of overwritten values, too."""
    view: bool
    """Whether to compute the drawing of an HTML report, too."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Analysed:
    """A judged compilation, with all that a replay of it needs."""

    inspection: Inspection
    compilation: Compilation
    """The compilation; its buffer assignment is consistent, or missing."""
    context: Context


@pause_collector()
def analyse_compilation(compilation: Compilation, **words: Unpack[InspectionWords]) -> Analysed:
    """Judges one compilation and returns the inspection, together with all that a replay needs. Raises ArtifactError if
    the modules contradict each other.
    """
    program, optimized = compilation.program, compilation.optimized
    names = compilation.output_names or _name_outputs(optimized)
    modules = [module for module in (program, compilation.lowered, optimized) if module is not None]
    for module in modules:
        leaves = sum(1 for _ in iterate_leaves(module.entry.root.shape))
        if leaves != len(names):
            raise ArtifactError(f"module `{module.name}` has {leaves} outputs, but the program has {len(names)}")
    if program is not None:
        require_same_operands(program, optimized)
    effects = CallEffectsReader(
        cache=words["effects_cache"],
        declared=words.get("declared", ()),
        readers=words.get("readers"),
        libraries=compilation.library_kernels,
    )
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
            dropped=call.dropped,
            hidden=_find_hidden(call, effects),
            repeated=call.repeated,
        )
        for call in compilation.kernel_calls
    )
    try:
        mixed_up = find_mixed_up_donations(optimized, compilation.buffers, is_described=compilation.is_described)
        compilation, shared = _check_buffers(compilation)
        effects_of = _see_through_partitioning(effects.find, program, optimized)
        context = _compute_context(compilation, names, effects_of, traced_calls, needs_tags=bool(shared))
        context = replace(
            context,
            contradictions=_list_contradictions(context, effects),
            sites=find_sites(traced_calls),
            repeated=find_repeated(traced_calls),
        )
        context = _find_lost_refs(context, compilation, names, effects_of)
        context = _mark_shared(context, shared, is_assigned=compilation.buffers is not None)
        if mixed_up is not None:
            unknown = make_outputs_unknown(context.verdicts, mixed_up.outputs)
            context = replace(context, mixed_up=mixed_up, verdicts=unknown)
        compilation, memory = _analyse_memory(compilation, names)
        context = replace(context, memory=memory, arguments_line=compilation.shared and compilation.shared.line)
        around = compute_neighbourhoods(context) if words.get("neighbourhoods") else ()
        called = list_kernel_calls(context) if words.get("neighbourhoods") else None
        drawn = compute_schedule_view(context) if words.get("view") else None
        output_lines = _find_output_lines(compilation, names)
    except _LOOSE as fault:
        if os.environ.get("LIGERDIAG_DEBUG"):  # the traceback shows where the modules are inconsistent
            raise
        raise ArtifactError(
            f"the modules of `{compilation.name}` are inconsistent: {type(fault).__name__} {fault}".rstrip()
        ) from fault
    answers = check_all(context)
    coverage = compute_coverage(compilation, context)
    failed = tuple(failure.message for failure in answers.failures)
    inspection = Inspection(
        outputs={name: output.verdict for name, output in context.verdicts.outputs.items()},
        findings=answers.findings,
        failures=answers.failures,
        coverage=replace(
            coverage,
            not_covered=(*failed, *coverage.not_covered),
            requests=0 if memory is None else len(memory.use.requests) + len(memory.use.copies),
        ),
        written=tuple(
            WrittenOperand(
                kernel=write.kernel,
                call=write.tag_path[-1] if write.tag_path else 0,
                operand=write.operand,
                unknown=write.unknown,
            )
            for write in _sort_writes(context.writes)
        ),
        write_places={
            write.index: (tuple([frame.instruction.id for frame in write.frames]), write.operand)
            for write in context.writes
            if write.module is program and write.output is None and not write.unknown
        },
        meant=dict(zip(names, _renumber(context), strict=False)),
        unlooked=find_unresolved_reads(context),
        output_lines=output_lines,
        neighbourhoods=around,
        kernel_calls=called,
        view=drawn,
        memory=None if memory is None else memory.use,
    )
    return Analysed(inspection=inspection, compilation=compilation, context=context)


def _find_output_lines(compilation: Compilation, names: tuple[str, ...]) -> Mapping[str, SourceLine]:
    """Maps the name of each output to the line that computes the output, where that is known."""
    found = (find_output_line(compilation.program, compilation.optimized, number) for number in range(len(names)))
    return {name: line for name, line in zip(names, found, strict=True) if line is not None}


def _analyse_memory(compilation: Compilation, names: tuple[str, ...]) -> tuple[Compilation, MemoryAnalysis | None]:
    """Returns the compilation and the analysis of its memory; if that analysis fails, adds a note instead and leaves
    the verdicts as they are.
    """
    if compilation.buffers is None or not compilation.optimized.is_scheduled:
        return compilation, None
    try:
        return compilation, analyse_memory(
            program=compilation.program,
            optimized=compilation.optimized,
            buffers=compilation.buffers,
            output_names=names,
            argument_names=compilation.argument_names,
            donated=compilation.donated,
            dropped=compilation.dropped,
            on_host=compilation.on_host,
            shared=() if compilation.shared is None else compilation.shared.groups,
            warning=compilation.donation_warning,
            bandwidth=compilation.bandwidth,
        )
    except (LigerdiagError, MemoryError):
        raise
    except Exception as fault:
        if os.environ.get("LIGERDIAG_DEBUG"):
            raise
        note = f"copies and memory could not be analysed: {describe_bug(fault)}"
        return replace(compilation, notes=(*compilation.notes, note)), None


def _find_lost_refs(
    context: Context, compilation: Compilation, names: tuple[str, ...], effects_of: EffectsOf
) -> Context:
    """Returns the context with the Refs (JAX's mutable arrays) that JAX separated from their writes before XLA got the
    program. An output that needs such a write cannot be fresh, whatever the schedule.
    """
    program, lowered = compilation.program, compilation.lowered
    if compilation.refs_trouble:
        context = replace(context, verdicts=worsen_outputs(context.verdicts, names, Verdict.UNKNOWN))
    if program is None or lowered is None:
        return context
    call_names = {tag: call.call for call in compilation.kernel_calls for tag in (*call.tags, *call.dropped)}
    stores, moves = compilation.ref_stores, compilation.moved_refs
    lost = find_lost_refs(program, lowered, effects_of, names, call_names=call_names, stores=stores, moves=moves)
    verdicts = context.verdicts
    for one in lost:
        verdicts = worsen_outputs(verdicts, one.outputs, one.verdict)
    return replace(context, lost_refs=lost, moved_refs=compilation.moved_refs, verdicts=verdicts)


def _sort_writes(writes: Sequence[HiddenWrite]) -> list[HiddenWrite]:
    """Returns the hidden writes in program order. (Their `index` follows the order of the module's instructions, which a
    tie changes.)
    """
    return sorted(writes, key=lambda write: (write.tag_path, write.operand))


def _renumber(context: Context) -> Iterator[int]:
    """Yields, for each output, the hidden writes that it should depend on, as a bit set in which the writes are numbered
    in program order.
    """
    width = 2 * context.space.classes
    ordered = [write.index for write in _sort_writes(context.writes)]
    for labels in context.intended.outputs:
        yield unite(
            (labels >> width * index & (1 << width) - 1) << width * number for number, index in enumerate(ordered)
        )


def _see_through_partitioning(effects_of: EffectsOf, program: HloModule | None, optimized: HloModule) -> EffectsOf:
    """Returns the effects of each call, including calls of a `custom_partitioning` in the program.

    XLA's partitioner replaces such a call by a function for the shards, which it gets from JAX during the compile. So the
    call has no hidden write if the program contains the function for whole arrays (see `compile.lowering.partitioned`)
    and neither a call in that function nor a call of the schedule has a hidden write; otherwise its effects stay
    unknown.
    """

    def hides(call: HloInstruction) -> bool:
        return bool(find_hidden_operands(call, effects_of(call)))

    if program is None:
        return effects_of
    module = program
    is_clean = not any(hides(call) for _, call in optimized.iterate_custom_calls())
    hidden = {
        home.id for home, call in module.iterate_custom_calls() if not is_custom_partitioning(call) and hides(call)
    }

    def list_callees(home: int) -> list[int]:
        return [callee for one in module.computations[home].instructions for callee in one.called_computations]

    def find(call: HloInstruction) -> CallEffects:
        found = effects_of(call)
        if not is_custom_partitioning(call) or Access.UNKNOWN not in found.operands:
            return found
        if is_clean and hidden.isdisjoint(search(call.called_computations, list_callees)):
            operands, outputs = (Access.READ,) * len(found.operands), (Access.WRITE,) * len(found.outputs)
            return CallEffects(kernel=found.kernel, operands=operands, outputs=outputs)
        return replace(found, reasons=(_OTHER_KERNELS if call.called_computations else _WITHOUT_FUNCTION,))

    return find


_OTHER_KERNELS = (
    "the function that `partition` returns for the shards does not call the same kernels as the function for whole"
    " arrays"
)
_WITHOUT_FUNCTION = (
    "the program does not contain the function of this `custom_partitioning`: XLA asks JAX for it during the compile"
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


def _check_buffers(compilation: Compilation) -> tuple[Compilation, tuple[SharedBytes, ...]]:
    """Returns the compilation, and the pairs of values that share bytes while both are alive. The returned compilation
    has no buffer assignment if that is inconsistent, and none of the declared aliases that the assignment refutes.

    Without an assignment, these pairs come from the values that must share bytes by XLA's rules.
    """
    optimized, buffers = compilation.optimized, compilation.buffers
    if not optimized.is_scheduled:
        return compilation, ()
    try:
        if buffers is not None:
            take_unplaced_aliases(optimized, buffers)
            fault = find_buffer_fault(optimized, buffers)
            if not fault:
                return compilation, find_shared_bytes(optimized, buffers)
            note = f"the buffer assignment is inconsistent, and is ignored: {fault}"
            compilation = replace(compilation, buffers=None, notes=(*compilation.notes, note))
        must_share = build_must_alias_buffers(optimized, ambiguous=True)
        shared = find_shared_bytes(optimized, must_share, is_assigned=False)
    except TooManyStepsError:
        return replace(compilation, buffers=None, notes=(*compilation.notes, _TOO_MANY_STEPS)), ()
    names = compilation.output_names or _name_outputs(optimized)
    notes = tuple([describe_must_share(one, names) for one in shared])
    return replace(compilation, notes=(*compilation.notes, *notes)), shared


_LOOSE = (AssertionError, IndexError, KeyError, ValueError, RecursionError, StopIteration)
"""Exceptions that analyses raise if the parts of a file's module are inconsistent."""
_TOO_MANY_STEPS = (
    "the module calls its computations along too many paths to follow: whether values share bytes is unknown"
)


def needs_inspection(optimized: HloModule, buffers: BufferAssignment) -> bool:
    """Returns whether a module without custom calls needs an inspection. It does if XLA keeps two live values, or two
    donated arguments, in the same bytes. It also does if the program has operations that should work in place.

    Raises ArtifactError if this cannot be decided, because the module or its buffer assignment is inconsistent.
    """
    try:
        if find_mixed_up_donations(optimized, buffers, is_described=False) is not None:
            return True
        if fault := find_buffer_fault(optimized, buffers):
            raise ArtifactError(f"the buffer assignment is inconsistent: {fault}")
        return bool(find_shared_bytes(optimized, buffers)) or asks_in_place(optimized, buffers)
    except TooManyStepsError as error:
        raise ArtifactError(_TOO_MANY_STEPS) from error
    except _LOOSE as fault:
        raise ArtifactError(f"the module's computations are inconsistent: {type(fault).__name__} {fault}") from fault


def _mark_shared(context: Context, shared: tuple[SharedBytes, ...], *, is_assigned: bool) -> Context:
    """Returns a copy of the context in which the outputs that depend on values with shared bytes are clobbered, or
    unknown if the pairs in `shared` come from XLA's rules and not from a buffer assignment (`is_assigned` is false).
    """
    if not shared:
        return context
    numbers = frozenset[int]().union(*[one.outputs for one in shared])
    if not is_assigned:
        return replace(context, verdicts=make_outputs_unknown(context.verdicts, numbers))
    return replace(context, shared=shared, verdicts=make_outputs_clobbered(context.verdicts, numbers))


def _compute_context(
    compilation: Compilation,
    names: tuple[str, ...],
    effects_of: EffectsOf,
    traced_calls: tuple[TracedKernel, ...],
    *,
    needs_tags: bool,
) -> Context:
    """Runs the analyses and returns their results. traced_calls: the kernel calls of the traced program, including those
    that the module lacks. needs_tags: whether a replay will need tags, even if no kernel overwrites anything.
    """
    program, optimized = compilation.program, compilation.optimized
    writes_something = any(
        find_hidden_operands(call, effects_of(call)) or (home.is_fusion and call.proto.output_operand_aliasing)
        for module in (program, optimized)
        if module is not None
        for home, call in module.iterate_custom_calls()
    )
    buffers = compilation.buffers
    if buffers is None:
        buffers = build_must_alias_buffers(optimized) if writes_something else NO_BUFFERS
    elif compilation.shared is not None:
        buffers = share_parameters(buffers, optimized, compilation.shared.groups)
    if program is None or not optimized.is_scheduled:
        return compute_context_without_program(
            optimized=optimized,
            buffers=buffers,
            effects_of=effects_of,
            output_names=names,
            traced_calls=traced_calls,
            thunks=compilation.thunks,
            command_order=compilation.command_order or CommandOrder.SCHEDULE,
            is_assigned=compilation.buffers is not None,
        )
    retagged, tag_trust = None, None
    needs_tags = needs_tags or writes_something
    if needs_tags and not are_tags_used(compilation, program):
        retagged = compute_tags(program, optimized, named=not compilation.as_written)
        program, optimized = retagged.program, retagged.optimized
    elif needs_tags:
        optimized = forget_entered(program, optimized)
    if needs_tags and writes_something:
        optimized = retag_shared_computations(program, optimized)
    if writes_something and compilation.is_foreign:
        tag_trust = compute_tag_trust(program, optimized)
        optimized = tag_trust.without_refuted(optimized)
    return compute_context(
        program=program,
        optimized=optimized,
        buffers=buffers,
        effects_of=effects_of,
        output_names=names,
        traced_calls=traced_calls,
        retagged=retagged,
        tag_trust=tag_trust,
        canonicalized=not compilation.as_written or retagged is not None,  # without tags the snapshots have no place
        has_snapshots=compilation.has_snapshots,
        thunks=compilation.thunks,
        command_order=compilation.command_order or CommandOrder.SCHEDULE,
        is_assigned=compilation.buffers is not None,
        crossed_operands=frozenset(compilation.crossed_operands),
    )


def _list_contradictions(
    context: Context, effects: CallEffectsReader
) -> tuple[tuple[HloInstruction, Contradiction], ...]:
    """Returns each declaration of effects that is untrue, with the first call that shows it."""
    first: dict[Contradiction, HloInstruction] = {}
    for call, _ in (*context.calls, *context.optimized_calls):
        for one in effects.find_contradictions(call):
            first.setdefault(one, call)
    return tuple([(call, one) for one, call in first.items()])


def inspect_artifact(artifact: Artifact, **words: Unpack[InspectionWords]) -> Inspection:
    """Judges one artifact. Raises ArtifactError if one of its files cannot be read or has the wrong kind of content."""
    return analyse_artifact(artifact, **words).inspection


@pause_collector()
def analyse_artifact(artifact: Artifact, *, is_foreign: bool = False, **words: Unpack[InspectionWords]) -> Analysed:
    """Judges one artifact and returns the inspection, together with all that a replay needs. Raises ArtifactError as
    `inspect_artifact` does.

    is_foreign: as for `Compilation`.
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
        library_kernels=artifact.library_kernels,
        notes=notes,
        thunks=thunks,
        command_order=_find_command_order(artifact.provenance),
        is_foreign=is_foreign,
        is_described=artifact.provenance.is_described,
        has_snapshots=artifact.provenance.has_snapshots,
        crossed_operands=artifact.provenance.crossed_operands or (),
        lowered=None if artifact.as_lowered is None else load_hlo(artifact.as_lowered)[0],
        moved_refs=artifact.provenance.moved_refs,
        ref_stores=artifact.provenance.ref_stores,
        refs_trouble=artifact.provenance.refs_trouble,
        argument_names=tuple(zip(artifact.provenance.parameters, artifact.provenance.inputs, strict=False)),
        donated=artifact.provenance.find_parameters(artifact.provenance.donated),
        dropped=artifact.provenance.find_parameters(artifact.provenance.dropped),
        on_host=artifact.provenance.find_parameters(artifact.provenance.on_host),
        shared=artifact.provenance.shared
        and replace(artifact.provenance.shared, groups=artifact.provenance.list_shared_parameters()),
        donation_warning=artifact.provenance.donation_warning,
        bandwidth=find_bandwidth(artifact.provenance.target),
    )
    analysed = analyse_compilation(compilation, **words)
    return replace(
        analysed, inspection=replace(analysed.inspection, tuning=_find_tuning(artifact.provenance, optimized))
    )


def _find_tuning(provenance: Provenance, optimized: HloModule) -> Tuning | None:
    if provenance.tuning is not None or not provenance.compute_capability:
        return provenance.tuning
    return Tuning(open=list_tuned(optimized))


def _read_thunks(path: Path) -> tuple[ThunkSequence | None, tuple[str, ...]]:
    """Returns the thunk sequence (launches) in the file, and a note if it could not be read."""
    try:
        text = read_untrusted(path, MAXIMUM_TEXT_BYTES).decode("utf-8")
        return (parse_thunks(text) if text.strip() else None), ()
    except (ArtifactError, UnicodeDecodeError) as error:
        return None, (f"the thunk sequence could not be read, so its command buffers are unknown: {error}",)


def _find_command_order(provenance: Provenance) -> CommandOrder:
    """Returns the order that command buffers keep by XLA's flags; the flags of the compile override those of its
    environment.
    """
    return parse_command_order(json.dumps([provenance.environment.get("XLA_FLAGS", ""), dict(provenance.flags)]))


def open_readers(toolchain: Toolchain, cache: Cache, templates: Templates) -> Pool:
    """Starts a worker that reads kernels with the toolchain's Triton, and returns its pool. The worker is forked from
    the template of the toolchain's compile workers, a process that has imported JAX and Triton already.
    """
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
