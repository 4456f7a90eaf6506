"""Defines the parts of one compilation, and computes the coverage of its analysis.

A program whose order of operations is unknown is judged as several programs, one for each order. Results on which all
judgements agree are kept. An output or read on which they differ is unknown, and a finding that one of them lacks is
dropped.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.explain.output_sentences import describe_ambiguities, describe_untraced
from ligerdiag.analysis.tag_trust import are_in_order
from ligerdiag.analysis.verdict.comparison import join_outputs, join_read
from ligerdiag.analysis.write_correspondence import TagCoverage, compute_tag_coverage
from ligerdiag.artifacts.artifact import ANY_OPERAND, KernelCall
from ligerdiag.artifacts.call_records import LibraryKernel, MovedRef, RefStore, SharedArguments
from ligerdiag.hlo.buffers import BufferAssignment
from ligerdiag.hlo.module import HloModule, is_tagged
from ligerdiag.hlo.thunks import CommandOrder, ThunkSequence
from ligerdiag.model.findings import Finding, Verdict
from ligerdiag.model.report import Coverage, Inspection
from ligerdiag.model.schedule_view import AccessKind, BufferAccess, OutputView, ScheduleView
from ligerdiag.text import count_of, join_words

_CUT_TAGS = "the tags that ligerdiag gave the operations are incomplete or inconsistent, so they are ignored"
_FOLDED = "the program could be read only after MLIR's folding, so operations that MLIR folded are missing"


@dataclass(frozen=True, kw_only=True, eq=False)
class Compilation:
    """The modules and files of one compilation, whether they come from an artifact or from a dump."""

    name: str
    """Name of the compilation in messages: the module's name, or a directory."""
    program: HloModule | None
    """The unoptimized module; None if the compilation has none."""
    as_written: bool
    """Whether `program` is the module before MLIR folded anything, which only ligerdiag's own artifacts have."""
    has_snapshots: bool = True
    """Whether snapshots in `program` show which version of a value autodiff means to read; false if JAX lowered the
    program before ligerdiag got it. Without meaning unless `as_written`.
    """
    optimized: HloModule
    buffers: BufferAssignment | None
    """XLA's buffer assignment. If None, shared storage is derived from XLA's rules, and the coverage says so."""
    output_names: tuple[str, ...]
    """Names of the outputs, in the order of their leaves; () names them `output 0`, `output 1`, …"""
    kernel_calls: tuple[KernelCall, ...] = ()
    """The calls of kernels in the trace of ligerdiag's worker; () if another process traced the program."""
    library_kernels: tuple[LibraryKernel, ...] = ()
    """Kernels of custom calls without a payload, from the libraries that run them; () if another process traced the
    program.
    """
    notes: tuple[str, ...] = ()
    """Notes of the file reader, which the report lists as not covered."""
    thunks: ThunkSequence | None = None
    """The launches with their command buffers; None if XLA wrote none or they could not be parsed."""
    command_order: CommandOrder | None = None
    """The order that the compilation's command buffers keep, by XLA's flags; None if the flags are unknown."""
    is_numbered: bool = True
    """Whether the ids of the program's instructions increase in the order in which these were written; HLO text has no
    ids.
    """
    is_foreign: bool = True
    """Whether another process made the files: tags then count only as far as the operands agree with them (see
    `tag_trust`). Otherwise ligerdiag's worker put the tags.
    """
    is_described: bool = False
    """Whether XLA compiled for a GPU that it knew only from a description, and not for a GPU of the machine."""
    crossed_operands: tuple[int, ...] = ()
    """Numbers of operands of kernel calls: JAX has moved an operation on such an operand across the call. The call is not
    recorded, so the intended order counts as unknown for every write to an operand with such a number. `ANY_OPERAND`
    means all operands.
    """
    lowered: HloModule | None = None
    """The module that JAX gave to XLA, if JAX may have moved an access of a Ref; None otherwise. In `program` Refs are
    plain values; see `lost_refs`, which compares the two.
    """
    moved_refs: tuple[MovedRef, ...] = ()
    """Reads of Refs that follow a write in the author's code, but that JAX has separated from this write."""
    ref_stores: tuple[RefStore, ...] = ()
    """The stores into Refs of the program as written and of the module that XLA got."""
    refs_trouble: str = ""
    """The reason why it is unknown which outputs miss writes to Refs that JAX moved; empty if it is known."""
    argument_names: tuple[tuple[int, str], ...] = ()
    """(parameter number, name) of each argument; () means the names in the module."""
    donated: tuple[int, ...] = ()
    """Numbers of the parameters that the program donates, as far as known. Parameters whose bytes an output takes may
    be missing.
    """
    dropped: tuple[int, ...] = ()
    """Numbers of the parameters that JAX drops from the user's program, because the program never reads them."""
    on_host: tuple[int, ...] = ()
    """Numbers of the parameters whose arguments lie in the host's memory although the module does not say so."""
    shared: SharedArguments | None = None
    """The numbers of the parameters for which the caller passes one and the same array; None if there are no such
    parameters.
    """
    donation_warning: str = ""
    """JAX's own warning about donations; empty if it gave none."""
    bandwidth: float = 0.0
    """Bytes per second that the target's memory can move; 0 if unknown."""


def _describe_crossed(compilation: Compilation, context: Context) -> tuple[str, ...]:
    return tuple(
        f"JAX before 0.6.2 moved an operation on operand {write.operand} of `{write.kernel}` across the call while it"
        " differentiated, so the intended order is unknown"
        for write in context.writes
        if {write.operand, ANY_OPERAND} & set(compilation.crossed_operands)
    )


def _describe_unexplained(context: Context) -> Iterator[str]:
    """Yields a line for each call that JAX may have separated from a Ref, with the outputs that are unknown for this
    reason; see `lost_refs`.
    """
    for lost in context.lost_refs:
        if lost.verdict is Verdict.UNKNOWN:
            names = join_words([f"`{name}`" for name in lost.outputs])
            writer = f"`{lost.kernel}`" if lost.kernel else "a store"
            yield f"it is unknown whether the write by {writer} reaches the Ref that these outputs depend on: {names}"


def are_tags_used(compilation: Compilation, program: HloModule) -> bool:
    """Returns whether the tags in the names of the program's operations come from ligerdiag's compile worker."""
    return is_tagged(program) and (
        not compilation.is_foreign or are_in_order(program, is_numbered=compilation.is_numbered)
    )


def compute_coverage(compilation: Compilation, context: Context) -> Coverage:
    """Returns the coverage of the analysis. It says how much was analysed, and has one line for each part that the
    analysis does not cover.
    """
    program = compilation.program
    tags = compute_tag_coverage(context.program, context.optimized) if program is not None else TagCoverage()
    unplaced = tuple(
        f"it is unknown where in the schedule `{write.kernel}` writes operand {write.operand}"
        for write in context.matching.unplaced
    )
    conditional = tuple(
        f"the schedule calls `{context.writes[index].kernel}` in a branch or a loop that may not run, but the program"
        " calls it without that condition: it is unknown whether it runs"
        for index in sorted(context.matching.conditional)
    )
    moved = tuple(
        f"the loop around `{context.writes[index].kernel}` was unrolled or removed: its iterations cannot be "
        "distinguished"
        for index in sorted(context.matching.loop_depth_differs)
    )
    refuted = ()
    if context.refuted:
        why = "the instruction with the tag does not compute the operation that got the tag"
        refuted = (f"{count_of(len(context.refuted), 'tag')} ignored: {why}",)
    notes = compilation.notes
    if compilation.refs_trouble:
        happened = "JAX has moved a Ref, and" if compilation.moved_refs else "if JAX has moved a Ref,"
        notes = (*notes, f"{happened} the effect is unknown: {compilation.refs_trouble}")
    notes = (*notes, *_describe_unexplained(context))
    if context.writes:
        notes = (*notes, *_describe_crossed(compilation, context), *_describe_missing(compilation))
    return Coverage(
        instructions=compilation.optimized.instruction_count + (program.instruction_count if program else 0),
        kernels=len(context.calls),
        hidden_writes=len(context.writes),
        declared_writes=sum(
            len(one.operand_output_aliases) for one in compilation.optimized.instructions if one.opcode == "custom-call"
        ),
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
            *dict.fromkeys(conditional),
            *(describe_untraced(context) if program is not None else ()),
            *describe_ambiguities(context, context.verdicts),
        ),
    )


def _describe_missing(compilation: Compilation) -> Iterator[str]:
    """Yields a line for each part that a compilation with hidden writes should have but lacks."""
    if not compilation.optimized.is_scheduled:
        yield "the module has no schedule, so the order of its instructions is unknown"
        return
    if compilation.program is None:
        yield "there is no module from before the optimizations, so it is unknown which readers should see a kernel's writes"
    elif not compilation.as_written:
        yield _FOLDED
    if (
        compilation.program is not None
        and compilation.program.tags
        and not are_tags_used(compilation, compilation.program)
    ):
        yield _CUT_TAGS
    if compilation.buffers is None:
        yield "there is no buffer assignment, so it is unknown which values share bytes by chance"
    if compilation.command_order is None:
        yield "XLA's flags are missing: command buffers are assumed to keep the order of the schedule, as by default"


UNKNOWN_ORDER = (
    "HLO text of the module before optimizations does not record the order of independent operations:"
    " dump the module with --xla_dump_hlo_as_proto"
)
_UNKNOWN = "the author's order of independent operations is unknown; reads that depend on it are unknown"


def join_views(views: Sequence[ScheduleView], outputs: Mapping[str, Verdict]) -> ScheduleView | None:
    """Joins views of one schedule. Returns the first view, in which a verdict becomes unknown if `outputs` or another
    view disagrees with it. Returns None if there is no view.

    views: each from the judgement of one possible order of the program. outputs: maps the name of each output to the
    verdict on which all judgements agree, or to unknown if they disagree.
    """
    if not views:
        return None
    first, *others = views
    if not others:
        return first
    differing = {one.name for one in first.outputs if outputs.get(one.name) is not one.verdict}
    known = [{_key(access): access for access in view.accesses} for view in others]
    is_same = all(view.buffers == first.buffers for view in others)

    def settle(access: BufferAccess) -> BufferAccess:
        if access.kind is not AccessKind.READ:
            return access
        found = [one.get(_key(access)) if is_same else None for one in known]
        others = [other.read if other is not None else None for other in found]
        reaches_unknown = not differing.isdisjoint(access.outputs)
        return replace(access, read=join_read(access.read, others, reaches_unknown=reaches_unknown))

    accesses = tuple([settle(access) for access in first.accesses])
    if accesses == first.accesses and not differing:
        return first
    return replace(
        first,
        accesses=accesses,
        outputs=tuple([_settle_output(one, one.name in differing) for one in first.outputs]),
        notes=(*first.notes, _UNKNOWN),
    )


def _key(access: BufferAccess) -> tuple[int, int, AccessKind]:
    return access.buffer, access.step, access.kind


def _settle_output(output: OutputView, is_differing: bool) -> OutputView:
    if not is_differing:
        return output
    sentence = (
        f"`{output.name}` could not be decided: it depends on the author's order of independent operations, which is"
        " unknown"
    )
    return replace(output, verdict=Verdict.UNKNOWN, missing=(), sentence=sentence)


def join_inspections(inspections: list[Inspection]) -> Inspection:
    """Joins several inspections of one compilation into one. A verdict on which they disagree becomes unknown. A
    finding that is not in all of them is dropped.
    """
    first, *others = inspections
    outputs = join_outputs([one.outputs for one in inspections])
    if not others or (outputs == first.outputs and all(_keys(o) == _keys(first) for o in others)):
        return first if first.view is None else replace(first, view=_join_views(inspections, outputs))
    missed = dict.fromkeys((*(line for i in inspections for line in i.coverage.not_covered), UNKNOWN_ORDER))
    return replace(
        first,
        outputs=outputs,
        failures=tuple(dict.fromkeys(failure for i in inspections for failure in i.failures)),
        findings=tuple(f for f in first.findings if all(_compute_key(f) in _keys(other) for other in others)),
        coverage=replace(first.coverage, not_covered=tuple(missed)),
        view=_join_views(inspections, outputs),
    )


def _join_views(inspections: list[Inspection], outputs: Mapping[str, Verdict]) -> ScheduleView | None:
    return join_views([one.view for one in inspections if one.view is not None], outputs)


def _keys(inspection: Inspection) -> frozenset[tuple[object, ...]]:
    return frozenset(_compute_key(finding) for finding in inspection.findings)


def _compute_key(finding: Finding) -> tuple[object, ...]:
    return (finding.rule, finding.message, finding.outputs, finding.instructions)
