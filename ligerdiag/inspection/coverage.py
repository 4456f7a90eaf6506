"""The parts of one compilation, and what its analysis covers of them."""

from collections.abc import Iterator
from dataclasses import dataclass

from ligerdiag.analysis.belief import are_in_order
from ligerdiag.analysis.context import Context
from ligerdiag.analysis.explain.output_sentences import describe_ambiguities, describe_untraced
from ligerdiag.analysis.write_correspondence import TagCoverage, compute_tag_coverage
from ligerdiag.artifacts.artifact import KernelCall
from ligerdiag.hlo.buffers import BufferAssignment
from ligerdiag.hlo.module import HloModule, is_tagged
from ligerdiag.hlo.thunks import CommandOrder, ThunkSequence
from ligerdiag.model.report import Coverage

_CUT_TAGS = "some operations have tags and others have none, or one of another's: no tag is used"
_FOLDED = "the program could not be read as written; what MLIR folded on the way is not seen"


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


def are_tags_used(compilation: Compilation, program: HloModule) -> bool:
    """Whether the tags in its names are believed to be those that our worker gave the program's operations."""
    return is_tagged(program) and (
        not compilation.is_foreign or are_in_order(program, is_numbered=compilation.is_numbered)
    )


def compute_coverage(compilation: Compilation, context: Context) -> Coverage:
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
        and not are_tags_used(compilation, compilation.program)
    ):
        yield _CUT_TAGS
    if compilation.buffers is None:
        yield "there is no buffer assignment: values that share bytes by chance are not seen"
    if compilation.command_order is None:
        yield "XLA's flags are not there: command buffers are taken to keep the order of the schedule, as by default"
