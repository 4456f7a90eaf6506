"""Numbers every array of a module by its expression (see `expression_table`), through calls, fusions, branches and loops.

The *expression number* of an array names the expression that computes it: arrays with one number are equal (see
`expression_table`).

An instruction has one tree of numbers for each path of callers that leads to it. Within a loop, a number is an array of
one iteration:

- An element of a loop's state that the body returns unchanged has the number of its initial value.
- Every other element gets a symbol. Two elements, of one loop or of two modules, get the same symbol under three conditions:
  they start from equal values, the body computes the next value of both by the same expression of such elements, and the
  condition is the same expression. Then they are equal in each iteration, by induction. The key of the symbol is this system
  of expressions, of all elements that the element and the condition depend on.
- A loop that runs once is its body.

A computation that is applied to elements, such as a reducer, is part of its caller's expression: the number of its result
for symbolic parameters.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from ligerdiag.hlo.counters import runs_once
from ligerdiag.hlo.custom_calls import CallTrait, is_call_with
from ligerdiag.hlo.fixed_values import sort_branches
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import ShapeIndex, is_counted, is_tuple
from ligerdiag.hlo.xla_pb2 import ShapeProto
from ligerdiag.provenance.expression_table import ExpressionTable, Number, Symbol, list_attributes, sort_operands
from ligerdiag.provenance.value_numbers import find_equal_operand, find_same_elements

type Tree = Number | tuple["Tree", ...]
"""The number of an array, or a tree for each element of a tuple."""
type Callers = tuple[int, ...]
"""Ids of the instructions that lead from the entry computation to a computation, outermost first."""

_MOST_STEPS = 400_000
"""The most instructions to number. An instruction counts once for each path of callers and for each pass over a loop's
body.
"""
_BARRIERS = having(Trait.BARRIER)
_VIEWS = having(Trait.MOVES) & having(Trait.VIEW)
_FINISHES = having(Trait.DONE) & having(Trait.HANDS_ON)
_UPDATES = having(Trait.UPDATE)
_IMPURE = having(Trait.HAS_EFFECTS, Trait.PEER_TO_PEER) - {"rng-bit-generator"}
"""Opcodes whose result is not a function of the operands."""
_STARTS = having(Trait.START)
_ELEMENTWISE = having(Trait.ELEMENTWISE) - having(Trait.COLLECTIVE)


class TooManyInstructionsError(Exception):
    """Raised if a module has too many paths of callers to be numbered."""


@dataclass(slots=True, eq=False)
class ModuleValues:
    """Gives each array of one module its expression number, in a table that several modules share."""

    module: HloModule
    table: ExpressionTable
    found: defaultdict[int, list[tuple[Callers, Tree]]] = field(
        default_factory=lambda: defaultdict[int, list[tuple[Callers, Tree]]](list)
    )
    """Maps the id of an instruction to the numbers of its result, for each path of callers."""
    _attributes: dict[int, bytes] = field(default_factory=dict[int, bytes])
    _applied: dict[int, Hashable] = field(default_factory=dict[int, Hashable])
    _records: bool = True
    _steps: int = 0

    def compute(self) -> None:
        """Computes all numbers and stores them in `found`. Raises TooManyInstructionsError if the module is too large."""
        parameters = [
            _build_tree(one.shape, lambda index, shape, number=number: self._number_argument(number, index, shape))
            for number, one in enumerate(self.module.entry.parameters)
        ]
        self._enter(self.module.entry, parameters, (), 0)

    def _number_argument(self, number: int, index: ShapeIndex, shape: ShapeProto) -> Number:
        return self.table.number("argument", number, index, shape.element_type, tuple(shape.dimensions))

    def _enter(self, computation: HloComputation, arguments: Sequence[Tree], path: Callers, depth: int) -> Tree:
        """Numbers the instructions of a computation for these arguments, and returns the numbers of its result."""
        values: dict[int, Tree] = {}
        for one in computation.instructions:
            self._steps += 1
            if self._steps > _MOST_STEPS:
                raise TooManyInstructionsError
            if one.opcode == "parameter":
                value = arguments[one.proto.parameter_number]
            else:
                value = self._number(one, [values[operand.id] for operand in one.operands], path, depth)
            values[one.id] = value
            if self._records:
                self.found[one.id].append((path, value))
        return values[computation.root.id]

    def _number(self, one: HloInstruction, operands: list[Tree], path: Callers, depth: int) -> Tree:
        opcode = one.opcode
        match opcode:
            case "tuple":
                return tuple(operands)
            case "get-tuple-element":
                return _take(operands[0], one.proto.tuple_index, self._number_anew)
            case "call" | "fusion":
                return self._enter(self._find_callee(one), operands, (*path, one.id), depth)
            case "while":
                return self._number_loop(one, operands[0], path, depth)
            case "conditional":
                return self._number_conditional(one, operands, path, depth)
            case _:
                pass
        if opcode in _STARTS and one.called_computations:
            return tuple(operands), self._enter(self._find_callee(one), operands, (*path, one.id), depth)
        if opcode in _FINISHES:
            start = operands[0]
            number = 0 if one.operands[0].opcode.startswith("copy") else 1
            return _take(start, number, self._number_anew) if isinstance(start, tuple) else start
        if opcode in _STARTS and opcode.startswith("copy"):
            return operands[0], operands[0], self._number_anew()
        same = find_equal_operand(one)
        if opcode in _BARRIERS or opcode in _UPDATES:
            return operands[0]
        if same is not None and _are_alike(same.shape, one.shape):
            return operands[one.operands.index(same)]
        if opcode in _IMPURE or is_tuple(one.shape) or any(isinstance(operand, tuple) for operand in operands):
            return self._number_result(one, operands)
        numbers = [operand for operand in operands if isinstance(operand, int)]
        return self._number_array(one, numbers)

    def _number_array(self, one: HloInstruction, operands: list[Number]) -> Number:
        table, dimensions = self.table, tuple(one.shape.dimensions)
        before = tuple(one.operands[0].shape.dimensions) if one.operands else ()
        match one.opcode:
            case "constant":
                return table.number_constant(one)
            case "copy":
                return operands[0]
            case "convert" if self._hands_on(one):
                return operands[0]
            case "convert" if (converted := table.number_converted(operands[0], one.shape)) is not None:
                return converted
            case "dot" if (product := table.number_product(one, _size(one, operands), dimensions)) is not None:
                return product
            case "bitcast":
                moved = None
                if one.operands[0].shape.element_type == one.shape.element_type:
                    moved = table.number_moved(operands[0], one.shape)
                return table.number_bitcast(operands[0], one.operands[0].shape, one.shape) if moved is None else moved
            case "concatenate":
                return table.number_concatenation(one.proto.dimensions[0], _size(one, operands))
            case opcode if opcode in _VIEWS:
                moved = table.number_moved(operands[0], one.shape)
                if moved is not None:
                    return moved
                if one.opcode == "reshape":
                    return table.number_reshape(operands[0], before, dimensions)
                if one.opcode == "transpose":
                    return table.number_transpose(operands[0], before, tuple(one.proto.dimensions))
                if one.opcode == "slice":
                    return table.number_slice(one, operands[0], self._list_attributes(one))
                if before == dimensions and list(one.proto.dimensions) == list(range(len(dimensions))):
                    return operands[0]
            case _:
                pass
        if self._is_reshape(one):
            same = find_same_elements(one)
            taken = next(number for number, operand in enumerate(one.operands) if operand is same)
            return table.number_reshape(operands[taken], tuple(one.operands[taken].shape.dimensions), dimensions)
        if one.opcode in _ELEMENTWISE:
            return table.number_elementwise(one, operands, self._list_attributes(one))
        if one.opcode == "broadcast":
            return table.number_broadcast(one, operands[0], self._list_attributes(one))
        result = self._number_result(one, operands)
        assert isinstance(result, int)
        return result

    def _is_reshape(self, one: HloInstruction) -> bool:
        """Returns whether the result has exactly the elements of one operand in their order, as a sum over dimensions of
        size 1 has.
        """
        same = find_same_elements(one)
        if same is None or is_tuple(same.shape) or same.shape.element_type != one.shape.element_type:
            return False
        if one.opcode == "reduce" and self._find_callee(one).root.opcode != "add":
            return False
        return list(one.proto.dimensions) == sorted(one.proto.dimensions)

    def _hands_on(self, convert: HloInstruction) -> bool:
        before, after = convert.operands[0].shape, convert.shape
        if before.element_type == after.element_type:
            return True
        return not self.table.rounds and not any(map(is_counted, (before, after)))

    def _number_result(self, one: HloInstruction, operands: Sequence[Tree]) -> Tree:
        """Returns the numbers of the result of an operation that is known by its opcode, attributes and operands."""
        table = self.table
        if one.opcode in _IMPURE or _is_impure_call(one):
            return _build_tree(one.shape, lambda index, shape: table.number_anew())
        given = sort_operands(one.opcode, [number for operand in operands for number in _list_leaves(operand)])
        applied = tuple([self._number_applied(callee) for callee in one.called_computations])
        whole = table.number("operation", self._list_attributes(one), applied, operands=given)
        if not is_tuple(one.shape):
            return whole
        return _build_tree(one.shape, lambda index, shape: table.number("element", index, operands=(whole,)))

    def _number_applied(self, callee: int) -> Hashable:
        """Returns the expression of a computation that is applied to elements."""
        if callee not in self._applied:
            computation = self.module.computations[callee]
            records, self._records = self._records, False
            formal = [
                _build_tree(one.shape, lambda index, shape, number=number: self.table.number("formal", number, index))
                for number, one in enumerate(computation.parameters)
            ]
            self._applied[callee] = self._enter(computation, formal, (), 0)
            self._records = records
        return self._applied[callee]

    def _number_conditional(self, one: HloInstruction, operands: list[Tree], path: Callers, depth: int) -> Tree:
        inner = (*path, one.id)
        results = [
            self._enter(self._find_callee(one, number), [operand], inner, depth)
            for number, operand in enumerate(operands[1:])
        ]
        results = [results[number] for number in sort_branches(one)]
        chooser = operands[0] if isinstance(operands[0], int) else self._number_anew()
        kind = one.operands[0].shape.element_type

        def choose(index: ShapeIndex, shape: ShapeProto) -> Number:
            found = [_find_leaf(result, index) for result in results]
            numbers = [self._number_anew() if number is None else number for number in found]
            if len(set(numbers)) == 1:
                return numbers[0]
            return self.table.number("choose", kind, operands=(chooser, *numbers))

        return _build_tree(one.shape, choose)

    def _number_loop(self, loop: HloInstruction, initial: Tree, path: Callers, depth: int) -> Tree:
        body, condition = self._find_callee(loop), self._find_callee(loop, 1)
        inner = (*path, loop.id)
        if runs_once(self.module, loop):
            return self._enter(body, [initial], inner, depth)
        starts = initial if isinstance(initial, tuple) else (initial,)
        kept = body.kept_elements if isinstance(initial, tuple) else frozenset[int]()

        def enter(symbols: Mapping[int, Tree]) -> tuple[tuple[Tree, ...], Tree]:
            state = tuple([start if number in kept else symbols[number] for number, start in enumerate(starts)])
            given: Tree = state if isinstance(initial, tuple) else state[0]
            result = self._enter(body, [given], inner, depth + 1)
            runs = self._enter(condition, [given], inner, depth + 1)
            return result if isinstance(result, tuple) and isinstance(initial, tuple) else (result,), runs

        carried = [number for number in range(len(starts)) if number not in kept]
        shapes = list(loop.shape.tuple_shapes) if isinstance(initial, tuple) else [loop.shape]
        records, self._records = self._records, False
        symbols = self._make_symbols(carried, shapes, depth, {number: number for number in carried})
        results, runs = enter(symbols)
        closures = _close(
            {number: self._list_carried(results[number], depth) for number in carried}, self._list_carried(runs, depth)
        )
        systems: dict[frozenset[int], Number] = {}
        for closure in dict.fromkeys(closures.values()):
            ranks = {number: rank for rank, number in enumerate(sorted(closure))}
            ranks |= {number: -1 - number for number in carried if number not in ranks}
            nexts, runs = enter(self._make_symbols(carried, shapes, depth, ranks))
            systems[closure] = self.table.number(
                "loop",
                len(closure),
                operands=[
                    *(leaf for number in sorted(closure) for leaf in _list_leaves(starts[number])),
                    *(leaf for number in sorted(closure) for leaf in _list_leaves(nexts[number])),
                    *_list_leaves(runs),
                ],
                bound=depth,
            )
        self._records = records

        def number_elements(kind: str) -> dict[int, Tree]:
            def make(number: int) -> Tree:
                closure = closures[number]
                rank, system = sorted(closure).index(number), systems[closure]
                return _build_tree(
                    shapes[number], lambda index, shape: self.table.number(kind, rank, index, operands=(system,))
                )

            return {number: make(number) for number in carried}

        enter(number_elements("state"))
        finals = number_elements("final")
        ends = tuple([start if number in kept else finals[number] for number, start in enumerate(starts)])
        return ends if isinstance(initial, tuple) else ends[0]

    def _make_symbols(
        self, carried: Sequence[int], shapes: Sequence[ShapeProto], depth: int, ranks: Mapping[int, int]
    ) -> dict[int, Tree]:
        def make(number: int) -> Tree:
            return _build_tree(
                shapes[number],
                lambda index, shape: self.table.number_symbol(
                    Symbol(depth, ranks[number]), index, shape.element_type, tuple(shape.dimensions)
                ),
            )

        return {number: make(number) for number in carried}

    def _list_carried(self, value: Tree, depth: int) -> frozenset[int]:
        """Returns the numbers of the elements of the state of the loop at this depth that a value depends on."""
        symbols = frozenset[Symbol]().union(*(self.table.list_symbols(leaf) for leaf in _list_leaves(value)))
        return frozenset([one.rank for one in symbols if one.depth == depth])

    def _list_attributes(self, one: HloInstruction) -> bytes:
        found = self._attributes.get(one.id)
        if found is None:
            found = self._attributes[one.id] = list_attributes(one)
        return found

    def _find_callee(self, one: HloInstruction, number: int = 0) -> HloComputation:
        return self.module.computations[one.called_computations[number]]

    def _number_anew(self) -> Number:
        return self.table.number_anew()


def _size(one: HloInstruction, operands: Sequence[Number]) -> list[tuple[Number, tuple[int, ...]]]:
    """Returns the operands with their dimensions."""
    return [(number, tuple(given.shape.dimensions)) for number, given in zip(operands, one.operands, strict=True)]


def find_leaf_number(tree: Tree, index: ShapeIndex) -> Number | None:
    """Returns the expression number at one leaf of a tree of numbers; None if the tree has no such leaf."""
    return _find_leaf(tree, index)


def list_numbered_leaves(tree: Tree, prefix: ShapeIndex = ()) -> list[tuple[ShapeIndex, Number]]:
    """Returns the leaves of a tree of expression numbers, each as (index of the leaf, number)."""
    if isinstance(tree, int):
        return [(prefix, tree)]
    return [leaf for number, one in enumerate(tree) for leaf in list_numbered_leaves(one, (*prefix, number))]


def _list_leaves(tree: Tree) -> list[Number]:
    return [number for _, number in list_numbered_leaves(tree)]


def _find_leaf(tree: Tree, index: ShapeIndex) -> Number | None:
    for number in index:
        if isinstance(tree, int) or number >= len(tree):
            return None
        tree = tree[number]
    return tree if isinstance(tree, int) else None


def _take(tree: Tree, number: int, number_anew: Callable[[], Number]) -> Tree:
    return tree[number] if isinstance(tree, tuple) and number < len(tree) else number_anew()


def _build_tree(shape: ShapeProto, number: Callable[[ShapeIndex, ShapeProto], Number], prefix: ShapeIndex = ()) -> Tree:
    if not is_tuple(shape):
        return number(prefix, shape)
    return tuple([_build_tree(part, number, (*prefix, place)) for place, part in zip(count(), shape.tuple_shapes)])


def _are_alike(one: ShapeProto, other: ShapeProto) -> bool:
    return one.element_type == other.element_type and list(one.dimensions) == list(other.dimensions)


def _is_impure_call(one: HloInstruction) -> bool:
    """Returns whether the instruction is a custom call whose result may be more than a function of its operands."""
    is_kernel = is_call_with(one, CallTrait.CARRIES_TRITON)
    has_effect = one.opcode == "custom-call" and one.proto.custom_call_has_side_effect and not is_kernel
    return has_effect or is_call_with(one, CallTrait.ALLOCATES)


def _close(needs: Mapping[int, frozenset[int]], always: frozenset[int]) -> dict[int, frozenset[int]]:
    """Maps each element of a loop's state to all elements that its values depend on, itself and the condition's included.

    needs: the elements from which the next value of each element is computed. always: those of the condition.
    """
    found: dict[int, frozenset[int]] = {}
    for number in needs:
        known, pending = set[int](), [number, *always]
        while pending:
            one = pending.pop()
            if one not in known:
                known.add(one)
                pending += needs.get(one, ())
        found[number] = frozenset(known)
    return found
