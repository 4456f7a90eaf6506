"""Finds writes to Refs that JAX lost between the trace and XLA: an output needs the contents that a kernel writes to a Ref,
and does not get them in XLA's program.

A *tag path* names an operation: the tag of the operation (the number that ligerdiag gave it before the compile), after
the tags of the calls that lead to it.

Two programs are compared: the program as written, in which a Ref is a value and a kernel call returns the Ref's new
value (see `compile.lowering.refs`), and the program that JAX gives to XLA. Both are evaluated in program order, with
the labels of `evaluation.labels`: FRESH(W) means that a value depends on what W wrote, ORIG(W) that it depends on the
contents from before W. Each output of a kernel call that is declared to alias an operand counts as a write W.

- Two calls, one in each program, are the same if they come from one call in the user's code, whichever function JAX has
  put it into. So a value that is saved in one program and recomputed in the other has the same set in both. Iterations
  are distinguished only if both programs have the same operations for the call.
- Two operations are the same if they have the same tag, opcode and source line; they are compared operand by operand. An
  operation is *stale* about a call if an operand lacks FRESH, or has ORIG beside FRESH and should not; it is *clobbered* if
  an operand has FRESH and should not. If a call overwrites all of an operand and reads none of it, the contents of the
  operand before the call do not matter. Then neither the operand nor the iterations of its write are compared.
- An output is wrong if it depends on a wrong operation, also through a hidden write, or if the output's own sets differ
  in the way that makes an operation wrong.
- A difference alone is no evidence of a lost write. For the derivative of a conditional JAX saves values of several
  branches in one place, and may choose other values in the two programs; and only one program may have a kernel call
  whose results nobody needs. A call, or a store, is *lost* if the trace records that JAX moved or dropped an access to
  its Ref. It is *unexplained*, and the outputs are unknown, if the trace records this only for another call, or if XLA
  gets fewer operations for the call and an output depends on one that XLA does not get. Otherwise nothing is lost.

A store that no kernel makes counts too, if the compile worker has recorded it (`RefStore`): a mark (an extra bit in
dependence sets) takes the role of FRESH, and there is no ORIG. If all iterations store into one Ref where each
iteration means a Ref of its own, the values that depend on the store are clobbered. Values that depend on a kernel call
of this kind are unknown if its iterations cannot be distinguished. Not modelled: a Ref whose reads and writes JAX
separates before they are in a function of their own.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain

from ligerdiag.analysis.evaluation.carriers import Carriers, compute_carriers, is_same_operation
from ligerdiag.analysis.evaluation.labels import Labels, LabelSpace, unite
from ligerdiag.analysis.evaluation.program_order import Intended, TaggedSet, compute_intended
from ligerdiag.analysis.verdict.comparison import ComparedEdge, Comparison
from ligerdiag.analysis.writes import (
    EffectsOf,
    HiddenWrite,
    count_loops,
    find_hidden_writes,
    iterate_kernel_calls,
    tag_path_of,
)
from ligerdiag.artifacts.call_records import MovedRef, RefMove, RefStore
from ligerdiag.effects.access import Access, ReadsBeforeWrite, WriteCoverage
from ligerdiag.hlo.module import HloInstruction, HloModule, TagPath, find_user_line
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.model.findings import SourceLine, Verdict

_NOT_COMPUTED = having(
    Trait.MOVES,
    Trait.JOINS,
    Trait.BARRIER,
    Trait.FORWARDS,
    Trait.CONTROL_FLOW,
    Trait.CASTS,
    Trait.MAKES_TUPLE,
    Trait.TAKES_ELEMENT,
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LostRef:
    """A kernel call or a store whose write to a Ref does not get to all outputs that need it."""

    kernel: str
    """The kernel's function name; empty for a store without a kernel."""
    call: str
    """Name of the kernel call or store in the trace; empty if the trace has none."""
    source: SourceLine | None
    """The line of a store; None for a kernel call."""
    tags: tuple[int, ...]
    """Tags of the call's operations in the program as written."""
    verdict: Verdict
    """The verdict on the outputs: stale or clobbered if the write is lost, unknown if the trace does not explain why
    the two programs differ.
    """
    outputs: tuple[str, ...]
    reader: HloInstruction | None
    """The first operation of the program as written whose operands are wrong; None if only outputs are wrong."""

    def find_moves(self, moves: Sequence[MovedRef]) -> tuple[MovedRef, ...]:
        """Returns the moves that concern the kernel call or store. moves: the Ref accesses that JAX moved or dropped,
        according to the trace.
        """
        return tuple(move for move in moves if self.call and move.call == self.call)

    def is_dropped(self, moves: Sequence[MovedRef]) -> bool:
        """Returns whether JAX only dropped the call, when it ran the function around the call again. False if JAX also
        moved a read of the call's Ref.

        moves: the Ref accesses that JAX moved or dropped, according to the trace.
        """
        return {move.kind for move in self.find_moves(moves)} == {RefMove.DROPPED}


def find_lost_refs(
    program: HloModule,
    lowered: HloModule,
    effects_of: EffectsOf,
    output_names: tuple[str, ...],
    *,
    call_names: Mapping[int, str],
    stores: Sequence[RefStore] = (),
    moves: Sequence[MovedRef] = (),
) -> tuple[LostRef, ...]:
    """Returns the kernel calls and stores whose write to a Ref is lost, or seems lost for an unknown reason.

    program: the program as written. lowered: the program that JAX gives to XLA. effects_of: returns the effects of a
    custom call's kernel. output_names: name of each leaf of the program's result. call_names: maps the tag of a
    kernel's custom call to the call's name in the trace. stores: the stores into Refs that the compile worker has
    recorded. moves: the Ref accesses that JAX moved or dropped, according to the trace.
    """
    numbers: dict[tuple[str | TagPath, int], int] = {}
    writes = tuple(_find_writes(program, effects_of, call_names, numbers))
    others = tuple(_find_writes(lowered, effects_of, call_names, numbers))
    if not writes and not stores:
        return ()
    hidden = [replace(one, index=len(numbers) + one.index) for one in find_hidden_writes(program, effects_of)]
    space = LabelSpace(
        len(numbers) + len(hidden), max((write.loop_depth for write in (*writes, *others, *hidden)), default=0)
    )
    ours, theirs = _join_carriers(program, lowered, compute_carriers(writes), compute_carriers(others))
    as_written = _Side(program, writes, ours, effects_of, space)
    as_lowered = _Side(lowered, others, theirs, effects_of, space)
    meant, got = as_written.evaluate_with(stores), as_lowered.evaluate_with(stores)
    comparison = _Comparison(
        space,
        Comparison((), space, loop_depth_differs=frozenset(range(space.writes)), undecided=frozenset()),
        _find_comparable(writes, others, effects_of),
        {one.name: space.mark(one.name) for one in stores},
        frozenset(move.call for move in moves if move.kind is RefMove.SHARED),
    )
    unread: defaultdict[TagPath, set[int]] = defaultdict(set)
    for write in writes:
        if _overwrites_all(write, effects_of):
            unread[write.tag_path].add(write.operand)
    settled = {tag for tag, _ in _list_lines(program).items() & _list_lines(lowered).items()}
    wrong = {
        path: differing
        for path, tagged in meant.tagged.items()
        if path in got.tagged and path[-1] in settled
        if (differing := comparison.compare_operations(tagged, got.tagged[path], unread.get(path, ())))
    }
    none: tuple[tuple[_Wrong, ...], ...] = ((),) * len(output_names)
    reached = as_lowered.follow(wrong) if wrong else none
    behind = as_written.follow_hidden_writes(wrong, hidden) if wrong and hidden else none
    outputs: defaultdict[_Wrong, list[str]] = defaultdict(list)
    for name, one, other, *marks in zip(output_names, meant.outputs, got.outputs, reached, behind, strict=False):
        for key in dict.fromkeys((*comparison.compare(one, other), *chain.from_iterable(marks))):
            outputs[key].append(name)
    for number in _find_indistinguishable(writes, comparison, effects_of, call_names):
        for name, labels in zip(output_names, got.outputs, strict=False):
            if labels & space.all_fresh(number):
                outputs[number, Verdict.UNKNOWN].append(name)
    needed = as_written.follow(_find_removed(writes, others)) if outputs and not moves else ()
    missed = {(key, name) for name, keys in zip(output_names, needed, strict=False) for key, _ in keys}
    operations = {path: one for one in program.instructions if (path := program.find_tag_path(one))}
    found: list[LostRef] = []
    for (number, verdict), names in outputs.items():
        own = [write for write in writes if write.index == number]
        tags = tuple(dict.fromkeys(write.tag_path[-1] for write in own if write.tag_path))
        readers = sorted(path[-1:] for path, about in wrong.items() if (number, verdict) in about)
        one = LostRef(
            kernel=own[0].kernel if own else "",
            call=number if isinstance(number, str) else call_names.get(tags[0], "") if tags else "",
            source=next((one.source for one in stores if one.name == number), None),
            tags=tags,
            verdict=verdict,
            outputs=tuple(names),
            reader=next((operations[path] for path in readers if path in operations), None),
        )
        if not one.find_moves(moves):
            unexplained = tuple(names if moves else [name for name in names if (number, name) in missed])
            one = replace(one, verdict=Verdict.UNKNOWN, outputs=unexplained)
        if one.outputs:
            found.append(one)
    return _drop_followers(found)


def _drop_followers(found: Sequence[LostRef]) -> tuple[LostRef, ...]:
    """Returns the calls and stores, without each unexplained one whose outputs are all outputs of lost ones too: the
    lost write then explains them. For example, the result of the unexplained call may be stored in the Ref of the lost
    call.
    """
    known = {name for one in found if one.verdict is not Verdict.UNKNOWN for name in one.outputs}
    return tuple(one for one in found if one.verdict is not Verdict.UNKNOWN or not known.issuperset(one.outputs))


def _find_removed(
    writes: Sequence[HiddenWrite], others: Sequence[HiddenWrite]
) -> Mapping[TagPath, tuple[tuple[int, Verdict], ...]]:
    """Looks for calls of which XLA got fewer operations than the program as written has. Maps the tag path of each
    operation that XLA did not get to the writes of its call, each with the verdict unknown.
    """
    ours, theirs = (defaultdict[int, set[TagPath]](set) for _ in range(2))
    for side, found in ((ours, writes), (theirs, others)):
        for write in found:
            side[write.index].add(write.tag_path[-1:])
    gone: defaultdict[TagPath, list[tuple[int, Verdict]]] = defaultdict(list)
    for write in writes:
        is_there = write.tag_path[-1:] in theirs[write.index]
        if write.tag_path and not is_there and len(ours[write.index]) > len(theirs[write.index]):
            gone[write.tag_path].append((write.index, Verdict.UNKNOWN))
    return {path: tuple(dict.fromkeys(found)) for path, found in gone.items()}


def _list_lines(module: HloModule) -> dict[int, tuple[str, int] | None]:
    """Maps the tag of each operation that computes something to its line in the user's code; None if the line is
    unknown.

    Operations that only move elements are left out: JAX also makes such operations to store a loop's residuals, and
    they all look alike.
    """
    found: dict[int, tuple[str, int] | None] = {}
    for one in module.instructions:
        if (path := module.find_tag_path(one)) and one.opcode not in _NOT_COMPUTED:
            line = find_user_line(module, one)
            found[path[-1]] = None if line is None else (line.file, line.line)
    return found


type _Wrong = tuple[int | str, Verdict]
"""An error of a value: the number of a write, or the name of a store, and the verdict (stale or clobbered) on the value
for it.
"""


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """One of the two programs that are compared: the program as written, or the program that JAX gives to XLA."""

    module: HloModule
    writes: tuple[HiddenWrite, ...]
    carriers: Carriers
    effects_of: EffectsOf
    space: LabelSpace

    def evaluate_with(self, stores: Sequence[RefStore]) -> Intended:
        """Evaluates the program with a mark for each store. The mark is an extra bit in the dependence set of every value
        that depends on the store.
        """
        names = {one.tag: one.name for one in stores}
        return self._evaluate({path: self.space.mark(names[path[-1]]) for path in _list_paths(self.module, names)})

    def follow(self, wrong: Mapping[TagPath, tuple[_Wrong, ...]]) -> tuple[tuple[_Wrong, ...], ...]:
        """Returns, for each output, the errors of all operations on which it depends. An error is (number of the write or
        name of the store, verdict). wrong: maps the tag path of a wrong operation to its errors.
        """
        marks = {one: self.space.mark((_WRONG, one)) for found in wrong.values() for one in found}
        outputs = self._evaluate({path: unite(marks[one] for one in found) for path, found in wrong.items()}).outputs
        return tuple(tuple(one for one, mark in marks.items() if labels & mark) for labels in outputs)

    def follow_hidden_writes(
        self, wrong: Mapping[TagPath, tuple[_Wrong, ...]], hidden: Sequence[HiddenWrite]
    ) -> tuple[tuple[_Wrong, ...], ...]:
        """Returns, for each output, the errors that `follow` does not find. These are errors of operations on which the
        output depends only through a hidden write. hidden: the program's hidden writes. wrong: maps the tag path of a
        wrong operation to its errors.
        """
        every = replace(self, writes=(*self.writes, *hidden))
        pairs = zip(every.follow(wrong), self.follow(wrong), strict=True)
        return tuple(tuple(one for one in found if one not in known) for found, known in pairs)

    def _evaluate(self, marked: Mapping[TagPath, Labels]) -> Intended:
        return compute_intended(self.module, self.writes, self.carriers, self.effects_of, self.space, marked=marked)


def _list_paths(module: HloModule, tags: Collection[int]) -> Iterator[TagPath]:
    """Yields the tag path of each operation that has one of these tags, once for each path of calls to the operation."""

    @cache
    def list_prefixes(computation: int) -> frozenset[TagPath]:
        if computation == module.entry.id:
            return frozenset({()})
        return frozenset(
            [
                (*prefix, *module.find_tag_path(caller)) if caller.opcode == "call" else prefix
                for caller in module.callers.get(computation, ())
                for prefix in list_prefixes(module.homes[caller.id].id)
            ]
        )

    for one in module.instructions if tags else ():
        if (path := module.find_tag_path(one)) and path[-1] in tags:
            for prefix in list_prefixes(module.homes[one.id].id):
                yield (*prefix, *path)


_WRONG = "wrong"
"""First part of the key of a mark that represents an error; the key of a store's mark is the store's name."""


def _find_writes(
    module: HloModule,
    effects_of: EffectsOf,
    call_names: Mapping[int, str],
    numbers: dict[tuple[str | TagPath, int], int],
) -> Iterator[HiddenWrite]:
    """Yields one write for each operand of a kernel call that an output of the call aliases. Adds each new pair of
    (call name or tag path, number of the operand) to `numbers`.
    """
    for frames, call in iterate_kernel_calls(module):
        path = tag_path_of(module, frames)
        for operand, output in sorted(call.operand_output_aliases.items()):
            name = call_names.get(path[-1], "") if path else ""
            number = numbers.setdefault((name or path, operand), len(numbers))
            kernel = effects_of(call).kernel
            yield HiddenWrite(number, kernel, operand, False, path, count_loops(module, frames), frames, module, output)


def _join_carriers(
    program: HloModule, lowered: HloModule, ours: Carriers, theirs: Carriers
) -> tuple[Carriers, Carriers]:
    """Returns the carriers of both programs (operations that hold the value of an operand from before a write). Only
    operations that both programs have count; such an operation is a carrier in both if it is one in either.
    """
    paths: dict[TagPath, dict[int, HloInstruction]] = {}
    for carriers in (ours, theirs):
        for path, found in carriers.paths.items():
            for operation, number in found:
                paths.setdefault(path, {}).setdefault(number, operation)
    parameters = {
        number: tuple(dict.fromkeys((*ours.parameters.get(number, ()), *theirs.parameters.get(number, ()))))
        for number in (*ours.parameters, *theirs.parameters)
    }
    found = [_list_operations(module, paths) for module in (program, lowered)]
    common = found[0].keys() & found[1].keys()
    joined = [
        Carriers(
            {(path, one.id): tuple(paths[path]) for path in common for one in operations[path]},
            {path: tuple((one, number) for number, one in paths[path].items()) for path in common},
            parameters,
        )
        for operations in found
    ]
    return joined[0], joined[1]


def _list_operations(
    module: HloModule, paths: Mapping[TagPath, Mapping[int, HloInstruction]]
) -> dict[TagPath, list[HloInstruction]]:
    """Maps each of the tag paths to the operations in the module that may be the path's carriers, found by the last tag
    of the path and by opcode.
    """
    own: defaultdict[int, list[HloInstruction]] = defaultdict(list)
    for one in module.instructions:
        path = module.find_tag_path(one)
        if path:
            own[path[-1]].append(one)
    found: dict[TagPath, list[HloInstruction]] = {}
    for path, carried in paths.items():
        opcodes = {one.opcode for one in carried.values()}
        alike = [one for one in own[path[-1]] if any(is_same_operation(opcode, one) for opcode in opcodes)]
        if alike:
            found[path] = alike
    return found


def _find_comparable(
    writes: tuple[HiddenWrite, ...], others: tuple[HiddenWrite, ...], effects_of: EffectsOf
) -> frozenset[int]:
    """Returns the numbers of the writes for which the two programs' iteration classes can be compared: both have the
    same operations at the same loop depth, and no call overwrites its whole operand unread.
    """
    ours, theirs = defaultdict[int, set[tuple[TagPath, int]]](set), defaultdict[int, set[tuple[TagPath, int]]](set)
    hiding: set[int] = set()
    for side, found in ((ours, writes), (theirs, others)):
        for write in found:
            side[write.index].add((write.tag_path, write.loop_depth))
            if _overwrites_all(write, effects_of):
                hiding.add(write.index)
    return frozenset(number for number, found in ours.items() if found == theirs[number] and number not in hiding)


def _overwrites_all(write: HiddenWrite, effects_of: EffectsOf) -> bool:
    effects = effects_of(write.call)
    if write.operand >= len(effects.operands) or effects.operands[write.operand] is not Access.WRITE:
        return False
    use = effects.operand_uses[write.operand] if write.operand < len(effects.operand_uses) else None
    return use is not None and use.coverage is WriteCoverage.COMPLETE and use.reads_before_write is ReadsBeforeWrite.NO


def _find_indistinguishable(
    writes: Sequence[HiddenWrite], comparison: "_Comparison", effects_of: EffectsOf, call_names: Mapping[int, str]
) -> frozenset[int]:
    """Returns the numbers of writes to a Ref that all iterations share by mistake, if iterations cannot be
    distinguished and the kernel does not overwrite the whole Ref.
    """
    return frozenset(
        [
            write.index
            for write in writes
            if write.tag_path
            and call_names.get(write.tag_path[-1]) in comparison.shared
            and write.index not in comparison.comparable
            and not _overwrites_all(write, effects_of)
        ]
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Comparison:
    space: LabelSpace
    comparison: Comparison
    """Does not distinguish iterations, because JAX moves calls out of loops."""
    comparable: frozenset[int]
    stores: Mapping[str, Labels]
    """Maps the name of each store to its mark: the bit in the dependence set of every value that depends on the store.
    """
    shared: frozenset[str]
    """Names of the kernel calls and stores that write to one Ref in all iterations, although each iteration means a Ref
    of its own.
    """

    def compare_operations(self, meant: TaggedSet, got: TaggedSet, unread: Collection[int]) -> tuple[_Wrong, ...]:
        """Returns the errors of an operation, each as (number of the write or name of the store, verdict).

        Compares the dependence sets of the operation's operands in the two programs. unread: numbers of operands that a
        kernel call overwrites as a whole and does not read.
        """
        if meant.opcode != got.opcode:
            return ()
        if meant.edges and len(meant.edges) == len(got.edges):
            edges = enumerate(zip(meant.edges, got.edges, strict=True))
            pairs = [(one, other) for number, ((_, one), (_, other)) in edges if number not in unread]
        else:
            pairs = [(meant.labels, got.labels)]
        return tuple(dict.fromkeys(found for one, other in pairs for found in self.compare(one, other)))

    def compare(self, meant: Labels, got: Labels) -> tuple[_Wrong, ...]:
        """Returns the errors of a value, each as (number of the write or name of the store, stale or clobbered). meant: the
        value's dependence set in the program as written. got: its set in the program that JAX gives to XLA.
        """
        space = self.space
        missing = [(name, Verdict.STALE) for name, mark in self.stores.items() if meant & ~got & mark]
        added = [
            (name, Verdict.CLOBBERED)
            for name, mark in self.stores.items()
            if got & mark and (name in self.shared or not meant & mark)
        ]
        if meant == got:
            return tuple(added)
        stale, clobbered = self.comparison.find_errors(ComparedEdge(meant, got))
        for number in self.comparable:
            mine, its = (labels & space.all_fresh(number) for labels in (meant, got))
            if mine and its & ~mine:
                clobbered |= space.fresh(number)
        found = [(number, Verdict.STALE) for number in space.writes_of(stale)]
        more = [(number, Verdict.CLOBBERED) for number in space.writes_of(clobbered & ~stale)]
        return (*found, *more, *missing, *added)
