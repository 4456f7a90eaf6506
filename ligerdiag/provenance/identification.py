"""Finds out which values of the program an array of the schedule equals, who made it, and on what evidence this is known.

A *tag path* names an operation: the tag of the operation (the number that ligerdiag gave it before the compile), after
the tags of the calls that lead to it. The *expression number* of an array names the expression that computes it: arrays
with one number are equal (see `expression_table`).

Three witnesses are heard, and their contradictions are part of the answer:

- **structure**: program and schedule are numbered in one table of expressions (see `module_values`). An equal number is a
  proof, up to rounding. It ends at every rewrite that the table does not know.
- **lineage**: XLA's own original value, if the program was compiled with it (see `compile.lowering.lineage`). It says
  which value the array equals, also after a rewrite; XLA drops it inside of functions and at many other places.
- **tag**: the operation for which the instruction was made. A pass copies it to instructions that compute something else. So
  it is firm, that is, it counts as equality, only if the instruction also has the operation's name, opcode, type and
  dimensions.

Neither tag nor lineage is firm on a part of a sum or product, and in other iterations of a loop than the operation's.

A fusion's result is the root of its computation, a copy is its operand, and so on: the evidence of all instructions
that hold the array is heard. Values are those of a run in which no kernel writes; which *version* of a value a read gets
is another question.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from ligerdiag.hlo.counters import find_trips
from ligerdiag.hlo.dataflow import ALL_SOURCES, Dataflow, PassThrough, Position, list_running, search
from ligerdiag.hlo.module import HloInstruction, HloModule, TagPath
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import ShapeIndex, iterate_leaf_shapes, iterate_leaves, render_index
from ligerdiag.hlo.xla_pb2 import ShapeProto
from ligerdiag.provenance.expression_table import ExpressionTable, Number
from ligerdiag.provenance.footprints import Footprint, compute_footprints, number_kernels
from ligerdiag.provenance.identity import UNKNOWN, Evidence, EvidenceKind, Maker, ProgramValue, ValueIdentity
from ligerdiag.provenance.module_values import (
    Callers,
    ModuleValues,
    TooManyInstructionsError,
    Tree,
    find_leaf_number,
    list_numbered_leaves,
)

_SAME_ARRAY = PassThrough(tuples=True, barriers=True, fusions=True, calls=True, arguments=True, asynchronous=True)
_SAME_ELEMENTS = having(Trait.SAME_ELEMENTS)
_LIBRARY_CALLS = having(Trait.LIBRARY_CALL)
_ENTERED = frozenset({"parameter", "while"})
_CONTROL_FLOW = having(Trait.CONTROL_FLOW)
_COMBINES = having(Trait.REDUCES, Trait.REARRANGES)
"""Opcodes of operations whose result may have the right dimensions although an operand is only a part."""
_CHAINED = having(Trait.MULTIPLIES, Trait.ADDS) & having(Trait.ELEMENTWISE)
_UNTAGGED = having(Trait.NO_OPERATION, Trait.CALLEE_TAKES_OPERANDS)
"""Opcodes whose metadata belongs to another instruction: a tuple has the metadata of the loop whose state it is, a fusion
the metadata of its root.
"""
_NOT_OPERATIONS = having(Trait.NO_OPERATION, Trait.TOKEN)

type _Nest = tuple[int, ...]
"""The trip counts of the loops around a computation, outermost first; 0 where the count is unknown. Loops that run once
do not count.
"""


@dataclass(eq=False)
class Identification:
    """Identifies arrays of one schedule with values of one program.

    program: the module as written, or as XLA got it, with tags. optimized: the schedule, with the tags by which the
    program's operations are found again. Both are modules as `analysis.provenance` returns them.
    """

    program: HloModule
    optimized: HloModule
    _known: dict[tuple[int, ShapeIndex], ValueIdentity] = field(
        init=False, default_factory=dict[tuple[int, ShapeIndex], ValueIdentity]
    )
    _above: dict[TagPath, frozenset[TagPath]] = field(init=False, default_factory=dict[TagPath, frozenset[TagPath]])

    def identify(self, instruction: HloInstruction, index: ShapeIndex = ()) -> ValueIdentity:
        """Returns the identity of one array of the schedule: the values of the program that it equals.

        instruction: an instruction of `optimized`. index: the leaf of its result that is the array; () if the result is an
        array. The identity of a whole tuple is unknown.
        """
        key = (instruction.id, index)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._identify(instruction, index)
        return found

    def is_another(self, instruction: HloInstruction, path: TagPath) -> bool:
        """Returns whether the result of an instruction surely differs from the value of an operation by more than a
        conversion. path: tag path of the operation. The result must be an array.

        Either the structure proves that the result is the value of an operation that the program computes from this one.
        Or the instruction is part of a sum or product to which XLA has moved terms or factors: its footprint (see
        `footprints`) then has an argument or a kernel that the operation's footprint lacks.

        A structure that differs from the operation's proves nothing by itself: XLA computes `x * 2 * 3` as `x * 6`, which
        may be another value of the program as well.
        """
        if instruction.opcode in _CHAINED and self._footprints.is_foreign(instruction, path):
            return True
        return bool(self._find_others(instruction, path))

    def is_foreign(self, instruction: HloInstruction, path: TagPath) -> bool:
        """Returns whether an instruction depends on an argument or kernel on which an operation does not depend. path: tag
        path of the operation.
        """
        return self._footprints.is_foreign(instruction, path)

    def list_others(self, instruction: HloInstruction, path: TagPath) -> list[TagPath]:
        """Returns the tag paths of the operations that an instruction computes in place of a given operation, by structure:
        a user of the given operation, behind which XLA has moved it, and the operations that are equal to this user.

        path: tag path of the given operation. Returns [] if the instruction may compute it, or only convert its value.
        """
        return sorted(value.path for value in self._find_others(instruction, path) if value.path)

    def _find_others(self, instruction: HloInstruction, path: TagPath) -> frozenset[ProgramValue]:
        """Returns the values of the program that the instruction's result is by its structure; none if that of the
        operation with this tag path, or a conversion of it, is among them, or if none is computed from the operation.
        """
        values = self._numbered.find_in_schedule(instruction, ())
        if not values or any(one.path == path for one in values):
            return frozenset()
        if any(one.path == path for one in self._list_near(values)):
            return frozenset()
        equal = {one.path[-1:] for one in self.list_equal(ProgramValue(path, ()))}
        is_user = any(not equal.isdisjoint(self._list_above(one.path[-1:])) for one in values)
        return values if is_user else frozenset()

    def _list_above(self, own: TagPath) -> frozenset[TagPath]:
        """Returns the last tags of the operations from which the operation with the last tag `own` is computed."""
        operation = self._operations.find(own)
        if operation is None:
            return frozenset()
        if own not in self._above:
            flow, tags = Dataflow(self.program, ALL_SOURCES), self.program.tags
            starts: list[Position] = [(operation, ())]
            reached = search(starts, lambda position: _list_inputs(flow, position))
            above = {tags.get(one.id, ())[-1:] for one, _ in reached}
            self._above[own] = frozenset(above - {own, ()})
        return self._above[own]

    def find_values(self, number: Number) -> frozenset[ProgramValue]:
        """Returns the values of the program that have the expression number `number`."""
        return self._numbered.by_number.get(number, frozenset())

    def list_equal(self, value: ProgramValue) -> frozenset[ProgramValue]:
        """Returns a value of the program and all values that the program computes by an equal expression."""
        number = self._numbered.numbers.get(value)
        return frozenset({value}) if number is None else self.find_values(number) | {value}

    def find_operation(self, value: ProgramValue) -> HloInstruction | None:
        """Returns the instruction of the program that computes a value. Returns None if the value is an argument, or if no
        instruction is found.
        """
        return self._operations.find(value.path)

    @cached_property
    def _footprints(self) -> "_Footprints":
        return _Footprints(self.program, self.optimized)

    @cached_property
    def _numbered(self) -> "_Numbered":
        return _number_both(self.program, self.optimized)

    @cached_property
    def _rounded(self) -> "_Numbered":
        return _number_both(self.program, None, rounds=False)

    def _list_near(self, values: frozenset[ProgramValue]) -> frozenset[ProgramValue]:
        """Returns the values, and those that differ from them only by conversions between floating-point types."""
        numbers = [self._rounded.numbers.get(value) for value in values]
        near = [self._rounded.by_number[number] for number in set(numbers) if number is not None]
        return values.union(*near)

    @cached_property
    def _operations(self) -> "_Operations":
        return _Operations(self.program)

    def _identify(self, instruction: HloInstruction, index: ShapeIndex) -> ValueIdentity:
        shape = _find_shape(instruction, index)
        if shape is None:
            return UNKNOWN
        holders = self._list_holders(instruction, index)
        source, _ = holders[-1]
        evidence = [*self._ask_structure(instruction, index)]
        made_for: TagPath = ()
        is_authored = False
        for holder, leaf in holders:
            evidence += self._ask_lineage(holder, leaf, source, shape)
            if holder.opcode not in _UNTAGGED and holder.id in self.optimized.tags:
                for one in self._ask_tag(holder, leaf, shape):
                    evidence.append(one)
                    made_for, is_authored = self.optimized.tags[holder.id], one.is_firm
        distinct = tuple(dict.fromkeys(evidence))
        found = ValueIdentity(
            values=_agree(distinct),
            maker=self._find_maker(source, made_for, distinct, is_authored=is_authored),
            made_for=made_for,
            evidence=distinct,
        )
        is_proved = any(one.kind is EvidenceKind.STRUCTURE for one in distinct)
        return found if is_proved or not found.is_contradicted else replace(found, values=frozenset())

    def _list_holders(self, instruction: HloInstruction, index: ShapeIndex) -> list[Position]:
        """Returns the positions that hold the array unchanged, from this one back to the one that computes it."""
        flow, holders = Dataflow(self.optimized, _SAME_ARRAY), [(instruction, index)]
        while True:
            one, leaf = holders[-1]
            sources = list(flow.list_sources(one, leaf)) if one.opcode != "while" else []
            if one.opcode == "copy":
                sources = [(one.operands[0], leaf)]
            if len(sources) != 1 or sources[0] in holders:
                return holders
            if _find_shape(*sources[0]) is None:
                return holders
            holders.append(sources[0])

    def _ask_structure(self, instruction: HloInstruction, index: ShapeIndex) -> Iterator[Evidence]:
        values = self._numbered.find_in_schedule(instruction, index)
        if values:
            yield self._make_evidence(EvidenceKind.STRUCTURE, values, "the same expression", is_firm=True)

    def _ask_lineage(
        self, holder: HloInstruction, leaf: ShapeIndex, source: HloInstruction, shape: ShapeProto
    ) -> Iterator[Evidence]:
        original = holder.original_values.get(leaf)
        if original is None:
            return
        paths = self._operations.find_paths(original.name)
        said = f'origin={{{{"{original.name}"{" " + render_index(original.index) if original.index else ""}}}}}'
        if len(paths) == 1:
            value = ProgramValue(paths[0], original.index)
            operation = self._operations.find(value.path)
            is_whole = operation is not None and not _is_partial(source, operation)
            is_same = operation is not None and self._runs_with(holder, operation)
            is_firm = is_whole and is_same and self._operations.has_shape(value, shape)
            yield self._make_evidence(EvidenceKind.LINEAGE, self.list_equal(value), said, is_firm=is_firm)
        else:
            yield self._make_evidence(EvidenceKind.LINEAGE, frozenset(), said, is_firm=False)

    def _ask_tag(self, holder: HloInstruction, leaf: ShapeIndex, shape: ShapeProto) -> Iterator[Evidence]:
        path = self.optimized.tags[holder.id]
        value = ProgramValue(path, leaf)
        operation = self._operations.find(path)
        if operation is None or _find_shape(operation, leaf) is None:
            return
        is_same = holder.opcode == operation.opcode or (
            (holder.opcode == "custom-call" and operation.opcode in _LIBRARY_CALLS)
            or (holder.opcode == "bitcast" and operation.opcode in _SAME_ELEMENTS)
        )
        is_whole = self._operations.has_shape(value, shape) and not _is_partial(holder, operation)
        is_firm = (
            is_same
            and is_whole
            and _has_all_results(holder, operation)
            and _is_named_after(path, holder)
            and self._runs_with(holder, operation)
        )
        said = "/".join(f"#ld{tag}" for tag in path)
        yield self._make_evidence(EvidenceKind.TAG, self.list_equal(value), said, is_firm=is_firm)

    def _runs_with(self, instruction: HloInstruction, operation: HloInstruction) -> bool:
        """Returns whether the instruction of the schedule runs in the same iterations as the operation of the program."""
        meant, actual = self._nests
        home, other = self.program.homes[operation.id].id, self.optimized.homes[instruction.id].id
        return _are_same_iterations(meant[home], actual[other])

    @cached_property
    def _nests(self) -> tuple[Mapping[int, _Nest | None], Mapping[int, _Nest | None]]:
        return _find_nests(self.program), _find_nests(self.optimized)

    def _make_evidence(
        self, kind: EvidenceKind, values: frozenset[ProgramValue], said: str, *, is_firm: bool
    ) -> Evidence:
        return Evidence(kind=kind, values=values, near=self._list_near(values), is_firm=is_firm, said=said)

    def _find_maker(
        self, source: HloInstruction, made_for: TagPath, evidence: tuple[Evidence, ...], *, is_authored: bool
    ) -> Maker:
        if source.opcode == "parameter" and self.optimized.homes[source.id] is self.optimized.entry:
            return Maker.ARGUMENT
        if is_authored:
            return Maker.AUTHOR
        proved = [one.values for one in evidence if one.kind is EvidenceKind.STRUCTURE]
        operations = [self._operations.find(value.path) for values in proved for value in values if value.path]
        if any(one is not None and one.opcode == source.opcode for one in operations):
            return Maker.AUTHOR
        if source.opcode in _ENTERED:
            return Maker.UNKNOWN
        return Maker.XLA if made_for or source.id not in self.optimized.tags else Maker.UNKNOWN


@lru_cache(maxsize=8)
def identify_arrays(program: HloModule, optimized: HloModule) -> Identification:
    """Returns the `Identification` of the two modules. Returns the same object for every call with these modules."""
    return Identification(program, optimized)


class _Footprints:
    """The footprints of both modules: the arguments and kernels from which each value is computed.

    A slice that XLA takes of a value, such as a product that it has joined with others, has none here: the whole value may
    depend on something on which the slice does not depend.
    """

    def __init__(self, program: HloModule, optimized: HloModule) -> None:
        kernels = number_kernels(program)
        authored = {path[-1:] for one in program.instructions if (path := _find_tag_of_slice(program, one))}
        slices = {one.id for one in optimized.instructions if one.opcode == "slice"}
        slices -= {one.id for one in optimized.instructions if _find_tag_of_slice(optimized, one)[-1:] in authored}
        program_footprints = compute_footprints(program, kernels)
        self._schedule = compute_footprints(optimized, kernels, empty=slices)
        self._meant: dict[TagPath, Footprint] = {}
        for one, path in program.tags.items():
            if one in program_footprints:
                self._meant[path[-1:]] = self._meant.get(path[-1:], 0) | program_footprints[one]

    def is_foreign(self, instruction: HloInstruction, path: TagPath) -> bool:
        """Returns whether an instruction depends on an argument or kernel on which an operation does not depend. path:
        tag path of the operation.
        """
        meant = self._meant.get(path[-1:])
        return meant is not None and bool(self._schedule.get(instruction.id, 0) & ~meant)


def _find_tag_of_slice(module: HloModule, one: HloInstruction) -> TagPath:
    return module.find_tag_path(one) if one.opcode == "slice" else ()


@dataclass(frozen=True, slots=True, eq=False)
class _Numbered:
    """The numbers of the program's values, and of the arrays of the schedule."""

    by_number: Mapping[Number, frozenset[ProgramValue]]
    numbers: Mapping[ProgramValue, Number]
    schedule: Mapping[int, Sequence[tuple[Callers, Tree]]]

    def find_in_schedule(self, instruction: HloInstruction, index: ShapeIndex) -> frozenset[ProgramValue]:
        """Returns the program's values that have the number of an array of the schedule. Returns an empty set if the
        array has several numbers, as in a computation with several callers.
        """
        numbers = {find_leaf_number(tree, index) for _, tree in self.schedule.get(instruction.id, ())}
        if len(numbers) != 1:
            return frozenset()
        (number,) = numbers
        return frozenset() if number is None else self.by_number.get(number, frozenset())


def _number_both(program: HloModule, optimized: HloModule | None, *, rounds: bool = True) -> _Numbered:
    table = ExpressionTable(rounds=rounds)
    meant, actual = ModuleValues(program, table), None if optimized is None else ModuleValues(optimized, table)
    try:
        meant.compute()
        if actual is not None:
            actual.compute()
    except TooManyInstructionsError:
        return _Numbered({}, {}, {})
    operations, numbers = _Operations(program), dict[ProgramValue, Number]()
    for one in program.instructions:
        own = program.tags.get(one.id, ())
        is_argument = one.opcode == "parameter" and program.homes[one.id] is program.entry
        if not is_argument and (not own or not operations.is_result(own, one)):
            continue
        for callers, tree in meant.found.get(one.id, ()):
            path = (*operations.find_call_tags(callers), *own) if own and not is_argument else ()
            for index, number in list_numbered_leaves(tree):
                if is_argument:
                    numbers[ProgramValue((), index, one.proto.parameter_number)] = number
                else:
                    numbers[ProgramValue(path, index)] = number
    by_number: defaultdict[Number, set[ProgramValue]] = defaultdict(set)
    for value, number in numbers.items():
        by_number[number].add(value)
    return _Numbered(
        {key: frozenset(values) for key, values in by_number.items()}, numbers, {} if actual is None else actual.found
    )


class _Operations:
    """The operations of the program by tag."""

    def __init__(self, program: HloModule) -> None:
        self._calls = {one.id: program.tags.get(one.id, ()) for one in program.instructions if one.opcode == "call"}
        grouped: defaultdict[TagPath, list[HloInstruction]] = defaultdict(list)
        running = [one for computation in list_running(program) for one in computation.instructions]
        for one in running:  # a reducer has the tag of its reduction
            own = program.tags.get(one.id, ())
            if own and one.opcode not in _NOT_OPERATIONS:
                grouped[own].append(one)
        self._results: dict[TagPath, HloInstruction] = {}
        for own, parts in grouped.items():
            used = {operand.id for one in parts for operand in one.operands if one.opcode != "opt-barrier"}
            last = [one for one in parts if one.id not in used and one.opcode != "opt-barrier"]
            if len(last) == 1 or len(parts) == 1:
                self._results[own] = (last or parts)[0]
        self._homes = {own: program.homes[one.id].id for own, one in self._results.items()}
        self._callers = program.callers
        self._module = program

    def is_result(self, own: TagPath, instruction: HloInstruction) -> bool:
        """Returns whether an instruction has the result of the operation with tag `own`. Of several instructions with
        the tag, the result of one is the operation's.
        """
        return self._results.get(own) is instruction

    def find(self, path: TagPath) -> HloInstruction | None:
        """Returns the instruction that has the result of the operation with tag path `path`. Returns None if there is
        none.
        """
        return self._results.get(path[-1:]) if path else None

    def has_shape(self, value: ProgramValue, shape: ShapeProto) -> bool:
        """Returns whether a value has the element type and the dimensions of `shape`."""
        operation = self.find(value.path)
        own = None if operation is None else _find_shape(operation, value.index)
        return own is not None and own.element_type == shape.element_type and own.dimensions == shape.dimensions

    def find_call_tags(self, callers: Callers) -> TagPath:
        """Returns the tags of the calls among `callers`, outermost first."""
        return tuple([tag for caller in callers for tag in self._calls.get(caller, ())])

    def find_paths(self, name: str) -> list[TagPath]:
        """Returns the tag paths of the operation with a tag, given as text: `ld17` for tag 17. There are several if the
        operation's function is called several times. Returns [] if the text is not such a tag.
        """
        number = name.removeprefix("ld")
        if number == name or not number.isdecimal() or (int(number),) not in self._results:
            return []
        own = (int(number),)
        return [(*path, *own) for path in self._list_call_paths(self._homes[own])]

    def _list_call_paths(self, computation: int) -> list[TagPath]:
        if computation == self._module.entry.id:
            return [()]
        found: list[TagPath] = []
        for caller in self._callers.get(computation, ()):
            tags = self._calls.get(caller.id, ())
            found += [(*path, *tags) for path in self._list_call_paths(self._module.homes[caller.id].id)]
            if len(found) > 1:
                break
        return found


def _agree(evidence: tuple[Evidence, ...]) -> frozenset[ProgramValue]:
    """Returns the values that firm evidence names: those of the structure if it says anything."""
    firm = [one for one in evidence if one.is_firm and one.values]
    proved = [one for one in firm if one.kind is EvidenceKind.STRUCTURE]
    return frozenset[ProgramValue]().union(*(one.values for one in proved or firm))


def _list_inputs(flow: Dataflow, position: Position) -> list[Position]:
    """Returns the positions from which a position gets its value, or whose values it is computed from."""
    sources = list(flow.list_sources(*position))
    return sources or [(one, index) for one in position[0].operands for index in iterate_leaves(one.shape)]


def _find_shape(instruction: HloInstruction, index: ShapeIndex) -> ShapeProto | None:
    """Returns the shape of a leaf of the instruction's result; None if there is no such leaf."""
    return dict(iterate_leaf_shapes(instruction.shape)).get(index)


def _is_partial(instruction: HloInstruction, operation: HloInstruction) -> bool:
    """Returns whether the instruction has the operation's opcode and combines other arrays than the operation does, as a
    sum over the rows of one device does, whose result has the dimensions of the whole sum.
    """
    if instruction.opcode != operation.opcode or instruction.opcode not in _COMBINES:
        return False
    pairs = zip(instruction.operands, operation.operands, strict=False)
    return any(_list_sizes(one.shape) != _list_sizes(other.shape) for one, other in pairs)


def _has_all_results(instruction: HloInstruction, operation: HloInstruction) -> bool:
    """Returns whether element k of the instruction's result can only be element k of the operation's: XLA adds and removes
    elements of a loop's state.
    """
    leaves = [len(list(iterate_leaf_shapes(one.shape))) for one in (instruction, operation)]
    return leaves[0] == leaves[1] and (leaves[0] == 1 or instruction.opcode not in _CONTROL_FLOW)


def _list_sizes(shape: ShapeProto) -> list[int]:
    """Returns the dimensions above 1, sorted by size, which a transpose does not change."""
    return sorted(size for size in shape.dimensions if size > 1)


def _is_named_after(path: TagPath, instruction: HloInstruction) -> bool:
    """Returns whether the instruction's name has the operation's tag: XLA names an instruction of the program after its
    op_name, and one that a pass makes after its opcode.
    """
    pieces = instruction.name.replace(".", "_").split("_")
    return f"ld{path[-1]}" in pieces


def _find_nests(module: HloModule) -> Mapping[int, _Nest | None]:
    """Maps the id of each computation to the loops around it; None if it has callers in different loops."""
    trips = find_trips(module)
    found: dict[int, _Nest | None] = {}
    for computation in reversed(list(module.computations.values())):  # callers before callees
        nests: set[_Nest | None] = set()
        for caller in module.callers.get(computation.id, ()):
            outer, count = found[module.homes[caller.id].id], trips.get(caller.id, 0)
            is_loop = caller.opcode == "while" and count != 1
            nests.add((*outer, count) if outer is not None and is_loop else outer)
        found[computation.id] = () if computation is module.entry else nests.pop() if len(nests) == 1 else None
    return found


def _are_same_iterations(one: _Nest | None, other: _Nest | None) -> bool:
    """Returns whether two computations run in the same iterations of loops, as far as the trip counts are known."""
    if one is None or other is None or len(one) != len(other):
        return False
    return all(mine == theirs or not (mine and theirs) for mine, theirs in zip(one, other, strict=True))
