"""Matches the program's hidden writes with the kernel calls of the optimized module, and finds calls that were lost on
the way.

A *call path* leads from the entry computation to an instruction. It is a tuple of frames, each an instruction and the
computation that contains it; the last frame is the instruction itself.

A kernel call is recognised by its tag path (the tag of the call, a number that ligerdiag gave it before the compile,
after the tags of the calls that lead to it). Without tags it is recognised by target and payload, if only one call of
the program has them. A kernel call of the optimized module that is not in the program is never silently dropped: a note
reports it. A `custom_partitioning` without a body contains unknown calls: its possible writes are neither found nor
missing.

XLA takes two calls with equal operands for one value and keeps one of them, with the tags of either. The remaining call
does what the first of the two in program order would have done; the other one is missing. Calls are lost in two places.
JAX drops a call without outputs before XLA sees it, and a call whose outputs are unused. XLA drops a custom call
without users and without side effects. A lost call is reported if the author made it for its effect: it has no outputs
at all, or it overwrites an operand that none of its outputs aliases, and something reads one of its operands later. A
lost call with unknown effects is reported as unknown.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import pairwise

from ligerdiag.analysis.conditions import find_conditional_writes
from ligerdiag.analysis.evaluation.label_memory import ActualWrite
from ligerdiag.analysis.evaluation.labels import Labels, LabelSpace
from ligerdiag.analysis.evaluation.loop_slices import takes_distinct_slices
from ligerdiag.analysis.evaluation.pieces import ArrayRegion, find_region
from ligerdiag.analysis.evaluation.program_order import Intended
from ligerdiag.analysis.reaching_definitions import find_inlined, find_origins, find_scheduled_operand
from ligerdiag.analysis.writes import (
    NOT_BROKEN,
    BrokenAliases,
    EffectsOf,
    Frames,
    HiddenWrite,
    count_loops,
    find_hidden_operands,
    iterate_kernel_calls,
    list_idle_calls,
)
from ligerdiag.effects.access import Access, CallEffects
from ligerdiag.hlo.dataflow import Positions, is_custom_partitioning, look_through
from ligerdiag.hlo.module import HloModule, TagPath
from ligerdiag.hlo.shape import ShapeIndex, iterate_leaves
from ligerdiag.model.findings import SourceLine
from ligerdiag.provenance.value_numbers import number_inlined

_BITCASTS = frozenset({"bitcast"})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Matching:
    """The hidden writes that each kernel call of the optimized module performs, and the writes that no call performs."""

    by_call: Mapping[int, tuple[HiddenWrite, ...]]
    """Maps the id of a custom call in the optimized module to the hidden writes that it performs, in operand order."""
    actual: tuple[ActualWrite, ...]
    missing: tuple[HiddenWrite, ...]
    """Hidden writes whose call is gone from the optimized module."""
    merged_into: Mapping[int, int]
    """Maps the index of a missing write, whose call XLA merged with an earlier one, to the index of the earlier call's
    write, which the remaining call performs.
    """
    unplaced: tuple[HiddenWrite, ...]
    """Hidden writes whose operand has no known place in memory."""
    loop_depth_differs: frozenset[int]
    """Indices of writes whose number of surrounding loops differs between the programs, because XLA unrolled or peeled
    a loop, for example.
    """
    notes: tuple[str, ...]
    ambiguous: frozenset[int] = frozenset()
    """Indices of writes for which it is unknown which call of the optimized module performs them, or whether a matching
    call is theirs.
    """
    unmatched: tuple[Frames, ...] = ()
    """Call paths of the optimized module's calls that write an operand and are not in the program."""
    maybe_unmatched: frozenset[int] = frozenset()
    """Indices of writes that a call in `unmatched` may perform, because JAX moved the call out of a loop, for example.
    """
    identical: Mapping[int, int] = field(default_factory=dict[int, int])
    """Those entries of `merged_into` for which both calls would see the same versions of their operands, so that the
    remaining call does exactly what both should do. Also dropped calls that would see the same values and versions as an
    earlier call which remains.
    """
    order_unknown: frozenset[int] = frozenset()
    """Indices of writes around whose call JAX changed the author's order of operations, so that the intended order is
    unknown.
    """
    conditional: frozenset[int] = frozenset()
    """Indices of writes that the schedule performs only under a condition that the program lacks (see `conditions`)."""
    idle: frozenset[int] = frozenset()
    """Indices of writes whose call the schedule has only in parts that never run."""


def match_writes(
    writes: tuple[HiddenWrite, ...],
    module: HloModule,
    positions: Positions,
    effects_of: EffectsOf,
    candidates: Mapping[TagPath, tuple[TagPath, ...]] | None = None,
    *,
    broken: BrokenAliases = NOT_BROKEN,
) -> Matching:
    """Finds every hidden write of the program in the optimized module, and its place in memory.

    candidates: maps an ambiguous tag of the optimized module to the tag paths of the operations that it may mean. A call
    with an ambiguous tag performs the writes of all these operations. broken: the declared aliases that the schedule
    breaks.
    """
    by_path: defaultdict[TagPath, list[HiddenWrite]] = defaultdict(list)
    by_payload: defaultdict[tuple[str, bytes], list[HiddenWrite]] = defaultdict(list)
    for write in writes:
        if write.tag_path and not is_custom_partitioning(write.call):
            by_path[write.tag_path].append(write)
        by_payload[write.call.kernel].append(write)
    by_call: dict[int, tuple[HiddenWrite, ...]] = {}
    actual: list[ActualWrite] = []
    notes: list[str] = []
    unplaced: list[HiddenWrite] = []
    loop_depth_differs: set[int] = set()
    ambiguous: set[int] = set()
    unmatched: list[Frames] = []
    for frames, call in iterate_kernel_calls(module):
        hidden = find_hidden_operands(call, effects_of(call), broken.list_operands(call))
        if not hidden:
            continue
        path = module.find_tag_path(call)
        if candidates and path in candidates:
            own = [write for candidate in candidates[path] for write in by_path.get(candidate, [])]
            ambiguous.update(write.index for write in own)
        else:
            alike = by_payload.get(call.kernel, [])
            own = by_path.get(path, []) if path else alike if len({w.call.id for w in alike}) == 1 else []
            own = _choose_by_branch(module, frames, own, alike)
        found = tuple([w for w in own for number in hidden if w.operand == number])
        if not found:
            notes.append(
                f"`{call.name}` writes an operand and is not in the program as written, so its intended readers are unknown"
            )
            unmatched.append(frames)
            continue
        by_call[call.id] = found
        depth = count_loops(module, frames)
        for write in found:
            if depth != write.loop_depth:
                loop_depth_differs.add(write.index)
            place = locate_operand(module, frames, write.operand, positions)
            if place is None:
                unplaced.append(write)
            else:
                is_distinct = takes_distinct_slices(module, frames, write.operand)
                region = _find_region(frames, write.operand) if len(place[0]) == 1 else None
                slice_tags = _find_slice_tags(module, frames, write.operand) if depth == write.loop_depth else ()
                actual.append(ActualWrite(write.index, frames, *place, is_distinct, region, slice_tags))
    first = _find_merged(writes, by_call)
    by_call = {call: tuple([first.get(w.index, w) for w in found]) for call, found in by_call.items()}
    actual = [replace(w, write=first[w.write].index) if w.write in first else w for w in actual]
    opaque = {w.index for w in writes if is_custom_partitioning(w.call)}
    seen = opaque | {w.index for found in by_call.values() for w in found}
    missing = tuple([w for w in writes if w.index not in seen])
    merged = {
        gone.index: kept.index
        for gone in missing
        for kept in writes
        if kept.index in seen and kept.operand == gone.operand and _are_merged(gone, kept)
    }
    return Matching(
        by_call=by_call,
        actual=tuple(actual),
        missing=missing,
        merged_into=merged,
        unplaced=tuple(unplaced),
        loop_depth_differs=frozenset(loop_depth_differs),
        notes=tuple(notes),
        ambiguous=frozenset(ambiguous | opaque),
        unmatched=tuple(unmatched),
    )


def _choose_by_branch(
    module: HloModule, frames: Frames, own: list[HiddenWrite], alike: Sequence[HiddenWrite]
) -> list[HiddenWrite]:
    """Returns the hidden writes that a scheduled call performs: `own`, those of the call with its tag, unless the scheduled
    call is in another branch of the same conditional, and the program calls the same kernel once in that branch. XLA gives
    branches that have become equal one body, with the tags of either.

    alike: the writes of all calls of the program with the same kernel.
    """
    if not own:
        return own
    here, own_place = _list_branches(module, frames), _list_branches(own[0].module, own[0].frames)
    if here is None or own_place is None or here == own_place or here[0] != own_place[0]:
        return own
    others = [write for write in alike if _list_branches(write.module, write.frames) == here]
    return others if len({write.call.id for write in others}) == 1 else own


type _Branches = tuple[tuple[tuple[TagPath, int, int], ...], tuple[int, ...]]
"""For the conditionals around a call, outermost first: each one's tags, type of index and number of branches, and the number
of the branch that contains the call.
"""


def _list_branches(module: HloModule, frames: Frames) -> _Branches | None:
    """Returns the branches around a call; None without any, or if a conditional has no tag or shares a body."""
    conditionals: list[tuple[TagPath, int, int]] = []
    branches: list[int] = []
    for outer, inner in pairwise(frames):
        one = outer.instruction
        if one.opcode != "conditional":
            continue
        tags, bodies = module.tags.get(one.id, ()), list(one.called_computations)
        if not tags or bodies.count(inner.computation.id) != 1:
            return None
        conditionals.append((tags, one.operands[0].shape.element_type, len(bodies)))
        branches.append(bodies.index(inner.computation.id))
    return (tuple(conditionals), tuple(branches)) if branches else None


def find_identical(
    matching: Matching, writes: tuple[HiddenWrite, ...], intended: Intended, space: LabelSpace
) -> Mapping[int, int]:
    """Finds the merged kernel calls that see the same versions, so that the merge does no harm, and the dropped calls that
    repeat what an earlier call did. Returns the value of `Matching.identical`: maps the index of a missing write to that of
    the write that the remaining call performs.

    Two calls on one array do not see the same versions, because the second one sees the write of the first.
    """
    tagged = intended.tagged
    found = dict(_find_repetitions(matching, writes, intended, space))
    for late, early in matching.merged_into.items():
        one, other = (tagged.get(writes[index].tag_path) for index in (late, early))
        own = space.all_original(late) | space.all_original(early)
        if one is None or other is None or (one.labels ^ other.labels) & ~own:
            continue
        if _list_versions(late, own, intended) == _list_versions(early, own, intended):
            found[late] = early
    return found


def _list_versions(write: int, own: Labels, intended: Intended) -> tuple[Labels, ...] | None:
    """Returns the dependence sets of the operands of a hidden write's call, without the labels in `own`. Returns None if
    they are unknown. write: index of the hidden write.
    """
    found = intended.operands.get(write)
    return None if found is None else tuple([labels & ~own for labels in found])


def assign_unmatched_calls(matching: Matching, writes: tuple[HiddenWrite, ...], positions: Positions) -> Matching:
    """Returns the matching with the hidden writes of calls that only the schedule has. Each such call performs its own
    writes, which were found in the schedule.

    Such a call may perform a missing write of the program, if the two have the same kernel or payload. The write then is not
    missing any more. The payloads differ if the kernel is called on shards of an array.
    """
    by_call = dict(matching.by_call)
    actual = list(matching.actual)
    unplaced = list(matching.unplaced)
    for frames in matching.unmatched:
        call = frames[-1].instruction
        own = tuple([write for write in writes if write.frames is frames])
        by_call[call.id] = own
        for write in own:
            place = locate_operand(write.module, frames, write.operand, positions)
            if place is None:
                unplaced.append(write)
            else:
                actual.append(ActualWrite(write.index, frames, place[0], place[1]))
    payloads = {frames[-1].instruction.kernel for frames in matching.unmatched}
    kernels = {write.kernel for write in writes if any(write.frames is frames for frames in matching.unmatched)}
    unclear = {write.index for write in matching.missing if write.call.kernel in payloads or write.kernel in kernels}
    return replace(
        matching,
        by_call=by_call,
        actual=tuple(actual),
        unplaced=tuple(unplaced),
        missing=tuple([write for write in matching.missing if write.index not in unclear]),
        ambiguous=matching.ambiguous | unclear,
        maybe_unmatched=frozenset(unclear),
    )


def find_conditional(matching: Matching, writes: tuple[HiddenWrite, ...], optimized: HloModule) -> Matching:
    """Returns the matching with its fields `conditional` and `idle` filled.

    If the schedule contains calls that never run, a missing write counts as the write of one of these calls. Writes of
    merged calls are excepted.
    """
    conditional = find_conditional_writes(writes, matching.actual, optimized)
    calls = list_idle_calls(optimized)
    paths = {path for call in calls if (path := optimized.find_tag_path(call))}
    missing = {write.index for write in matching.missing}
    lost = {write.index for write in writes if write.tag_path in paths}
    gone = missing - matching.merged_into.keys() if calls else set[int]()
    return replace(matching, conditional=conditional | (lost - missing), idle=frozenset(missing & lost | gone))


def _find_merged(
    writes: tuple[HiddenWrite, ...], by_call: Mapping[int, tuple[HiddenWrite, ...]]
) -> Mapping[int, HiddenWrite]:
    """Finds the write that a remaining call really performs, if XLA merged it with an earlier call in program order and
    kept the tags of the later one. Maps the index of the later write, which seems to be performed, to the write of the
    earliest such call, which seems to be missing.
    """
    present = {w.index: w for found in by_call.values() for w in found}
    first: dict[int, HiddenWrite] = {}
    for missing in writes:
        if missing.index in present:
            continue
        for index, kept in present.items():
            earlier = first.get(index, kept)
            if missing.tag_path < earlier.tag_path and missing.operand == kept.operand and _are_merged(missing, kept):
                first[index] = missing
    return first


def _find_repetitions(
    matching: Matching, writes: tuple[HiddenWrite, ...], intended: Intended, space: LabelSpace
) -> Iterator[tuple[int, int]]:
    """Yields pairs of hidden writes by index: one whose call is gone from the schedule, and the earliest one with the same
    operands, in values and versions, whose call remains. Both write the same contents, each in the program's storage for
    its own operand.

    JAX drops such a call where `jax.checkpoint` computes the forward pass again. If its operand is a saved value that the
    forward pass has overwritten, XLA keeps both in the same bytes, and the contents are there without the call. An operand
    that is computed again is in other bytes, and lacks the call.
    """
    gone = {write.index for write in matching.missing}
    for late in matching.missing:
        for early in writes:
            if early.tag_path >= late.tag_path or early.index in gone or late.index in matching.merged_into:
                continue
            if early.operand != late.operand or not _are_merged(late, early, sees_barriers=False):
                continue
            if _list_origins(late) != _list_origins(early):
                continue
            own = space.all_original(late.index) | space.all_original(early.index)
            versions = _list_versions(late.index, own, intended)
            if versions is not None and versions == _list_versions(early.index, own, intended):
                yield late.index, early.index
                break


def _list_origins(write: HiddenWrite) -> set[tuple[int, ...]]:
    """Returns the ids along the call path to each operation that makes the overwritten value (see `find_origins`)."""
    return {tuple([frame.instruction.id for frame in frames]) for frames in find_origins(write)}


def _are_merged(a: HiddenWrite, b: HiddenWrite, *, sees_barriers: bool = True) -> bool:
    """Returns whether two calls are one value to XLA. sees_barriers: as in `number_inlined`; if False, they only need
    equal operands.
    """
    one, other = (find_inlined(write.module, write.frames) for write in (a, b))
    if one.outer != other.outer or one.root is not other.root:
        return False  # two branches of one conditional have one caller
    found = number_inlined(a.module, one.root, sees_barriers=sees_barriers)
    (_, numbers_a), (_, numbers_b) = found[one.path], found[other.path]
    return numbers_a[a.call.id] == numbers_b[b.call.id]


def locate_operand(
    module: HloModule, frames: Frames, operand: int, positions: Positions
) -> tuple[tuple[int, ...], bool] | None:
    """Returns the place of a call's operand in memory, as (slice numbers, whether the kernel gets only a part of the
    slice). frames: the call path to the call. Returns None if the place is unknown.
    """
    found = find_scheduled_operand(module, frames, operand)
    if found is None:
        return None
    (value, index), partial = found
    leaves: list[ShapeIndex] = [index] if index else list(iterate_leaves(value.shape))
    numbers = [positions.find(value, leaf) for leaf in leaves]
    places = tuple([number for number in numbers if number is not None])
    return (places, partial) if len(places) == len(numbers) else None


def _find_slice_tags(module: HloModule, frames: Frames, operand: int) -> TagPath:
    """Returns the tags of the dynamic-slice of a fusion parameter that the call gets as this operand; () if the call is
    not in a fusion or gets another value.
    """
    value = look_through(frames[-1].instruction.operands[operand], _BITCASTS)
    is_part = value.opcode == "dynamic-slice" and value.operands[0].opcode == "parameter"
    return module.tags.get(value.id, ()) if is_part else ()


def _find_region(frames: Frames, operand: int) -> ArrayRegion | None:
    """Returns the part of an array that the call at the end of the call path gets as this operand, if the call is in a
    fusion and the operand is a slice of a fusion parameter; None if the part is unknown.
    """
    if len(frames) < 2 or frames[-2].instruction.opcode != "fusion":
        return None
    if len(frames) > 2 and frames[-3].instruction.opcode == "fusion":
        return None
    value = look_through(frames[-1].instruction.operands[operand], _BITCASTS)
    return find_region(value) if value.opcode == "slice" and value.operands[0].opcode == "parameter" else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TagCoverage:
    """How many tags the program has (one for each operation), and how many of them the optimized module still has."""

    tags: int = 0
    found: int = 0


def compute_tag_coverage(program: HloModule, optimized: HloModule) -> TagCoverage:
    """Counts the program's tags, and how many of them the optimized module still has."""
    written, seen = ({path[-1] for path in module.tags.values()} for module in (program, optimized))
    return TagCoverage(tags=len(written), found=len(written & seen))


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedKernel:
    """A kernel call in the traced jaxpr."""

    kernel: str
    outputs: int
    operands: int
    source: SourceLine | None
    in_program: bool
    """Whether the module that JAX lowered still contains the call."""
    operand_used_later: bool
    """Whether a later equation of the jaxpr uses one of the call's operands."""
    site: SourceLine | None = None
    """The line of the user's code that makes the call. It differs from `source` for a backward function, which autodiff
    calls.
    """
    tags: tuple[int, ...] = ()
    """Tags of the operations that the call became in the program."""
    dropped: tuple[int, ...] = ()
    """Tags of those operations of the call that only the program as written has, and not the program that XLA gets."""
    hidden: tuple[Access, ...] = ()
    """For a call that the lowered module lacks: the kernel's accesses to the operands that it may overwrite without an
    aliased output.
    """
    repeated: tuple[tuple[int, ...], ...] = ()
    """One group of operand numbers for each `Ref` that the call passes several times."""


class DroppedBy(Enum):
    """The tool that dropped a kernel call."""

    JAX = "JAX"
    XLA = "XLA"


@dataclass(frozen=True, slots=True, kw_only=True)
class VanishedCall:
    """A kernel call that the author made for its effect and that does not run."""

    kernel: str
    dropped_by: DroppedBy
    outputs: int
    source: SourceLine | None
    unknown: bool = False
    """True if it is unknown whether the call overwrites anything."""
    is_repeated: bool = False
    """Whether JAX still runs the call in one place, and drops it only where it reruns the function around the call."""
    write: int | None = None
    """Index of the call's hidden write, if the program as written still has the call; otherwise None."""
    is_unseen: bool = False
    """Whether the program as written lacks the call too, because JAX dropped it while tracing. The verdicts then do not
    consider the call's write.
    """
    lost: tuple[int, ...] = ()
    """Indices of all hidden writes that the schedule lacks with the call, or with another lost call of the same kernel
    on the same source line.
    """


def find_hidden_accesses(effects: CallEffects | None, declared: tuple[int, ...]) -> tuple[Access, ...]:
    """Returns a kernel's accesses to operands that it may overwrite and that no output aliases (`TracedKernel.hidden`).

    effects: None if unknown. declared: numbers of the operands that are declared to share their bytes with an output.
    """
    if effects is None:
        return (Access.UNKNOWN,)
    return tuple(access for number, access in enumerate(effects.operands) if access.writes and number not in declared)


def find_vanished(
    traced: tuple[TracedKernel, ...], matching: Matching, intended: Intended, space: LabelSpace
) -> tuple[VanishedCall, ...]:
    """Returns the lost calls that the author made for their effect. JAX dropped them, or XLA dropped them although some
    output depends on their hidden write.
    """
    found = [
        VanishedCall(
            kernel=call.kernel,
            dropped_by=DroppedBy.JAX,
            outputs=call.outputs,
            source=call.site or call.source,
            unknown=call.outputs > 0 and all(access is Access.UNKNOWN for access in call.hidden),
            is_unseen=not call.tags,
        )
        for call in traced
        if not call.in_program and (call.outputs == 0 or (call.hidden and call.operand_used_later))
    ]
    known = {(call.kernel, call.source) for call in found}
    by_tag = {tag: call for call in traced for tag in (*call.tags, *call.dropped)}
    lost: dict[tuple[str, SourceLine], list[int]] = {}
    for write in matching.missing:
        tag = write.tag_path[-1] if write.tag_path else 0
        asked = by_tag.get(tag)
        source = None if asked is None else asked.site or asked.source
        if source is not None and write.index not in matching.merged_into:
            lost.setdefault((write.kernel, source), []).append(write.index)
        if not any(labels & space.all_fresh(write.index) for labels in intended.outputs):
            continue
        if (write.kernel, source) in known or (source is None and any(kernel == write.kernel for kernel, _ in known)):
            continue
        is_dropped = asked is not None and tag in asked.dropped
        found.append(
            VanishedCall(
                kernel=write.kernel,
                dropped_by=DroppedBy.JAX if is_dropped else DroppedBy.XLA,
                outputs=1 if asked is None else asked.outputs,
                source=source,
                is_repeated=is_dropped and asked is not None and asked.in_program,
                write=write.index,
            )
        )
    return tuple(replace(call, lost=_list_lost(call, lost)) for call in found)


def _list_lost(call: VanishedCall, lost: Mapping[tuple[str, SourceLine], Sequence[int]]) -> tuple[int, ...]:
    """Returns the indices of the hidden writes that are lost with the call. lost: maps (kernel, source line) to the
    indices of all writes that are lost there, in program order.
    """
    own = () if call.write is None else (call.write,)
    alike = () if call.source is None else lost.get((call.kernel, call.source), ())
    return tuple(dict.fromkeys((*own, *alike)))


def find_sites(calls: Sequence[TracedKernel]) -> Mapping[int, SourceLine]:
    """Returns the line of the user's code that makes a kernel call, by the call's tag: `{5: SourceLine(...)}`. Leaves out a
    tag whose calls come from several lines.
    """
    found: dict[int, set[SourceLine | None]] = {}
    for call in calls:
        for tag in call.tags:
            found.setdefault(tag, set()).add(call.site)
    return {tag: site for tag, sites in found.items() if len(sites) == 1 and (site := next(iter(sites))) is not None}


def find_repeated(calls: Sequence[TracedKernel]) -> Mapping[int, tuple[tuple[int, ...], ...]]:
    """Returns the groups of operands for which a kernel call gets the same `Ref`, by the call's tag: `{5: ((0, 2),)}`.
    Leaves out a tag whose calls have different groups.
    """
    found: dict[int, set[tuple[tuple[int, ...], ...]]] = {}
    for call in calls:
        for tag in call.tags:
            found.setdefault(tag, set()).add(call.repeated)
    return {tag: next(iter(repeated)) for tag, repeated in found.items() if len(repeated) == 1}
