"""Decides which values must share storage by XLA's rules, and whether a buffer assignment from a file obeys them.

`build_must_alias_buffers` gives every value storage of its own, except values that XLA's buffer assignment always puts
together:

- a value and every position (an instruction and an index into its shape) that passes it on: tuples, bitcasts and calls
  (see `dataflow`); the operand, the parameters, the body's result and the result of a loop; the result of a conditional
  and the results of its branches;
- in-place operations: dynamic-update-slice and scatter with the operand that they update, a fusion that returns one of
  these with the parameter that it updates, all-reduce-start with its operands
  (HloDataflowAnalysis::GetInPlaceInputOutputPairs in xla/hlo/analysis/hlo_dataflow_analysis.cc);
- aliases that an instruction (`output_to_operand_aliasing`) or the module (`input_output_alias`) declares.

It does not model that XLA reuses the bytes of dead values.

`find_buffer_fault` checks an assignment that was read from a file and may be incomplete: a missing value could be the
value that a kernel overwrites. It requires that

- each logical buffer is assigned once, within one allocation, with its own size (`buffers`);
- each leaf of an entry parameter lies in that parameter's allocation and each constant in a constant's, and every
  position where a scheduled instruction defines a value has a slice of the value's size. Tokens have no bytes, and
  sizes of packed elements are not compared. An instruction that only passes a value on has no slice, except for the
  table of a tuple;
- positions that must share storage have one slice, including listed positions that only pass a value on.

Two live values may share bytes by XLA's own decision: `shared_bytes` looks for that. A kernel's hidden write (a write
to an operand without XLA's knowledge) is not a fault of the buffer assignment.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace

from ligerdiag.hlo.buffers import BufferAssignment, Slice
from ligerdiag.hlo.dataflow import PASSED_ON, Dataflow, PassThrough, Position, Positions, list_running
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import TOKEN, ShapeIndex, compute_byte_size, iterate_leaf_shapes, iterate_leaves, render_index

type _Key = tuple[int, ShapeIndex]

_IN_PLACE = having(Trait.IN_PLACE)
_SHARED = replace(PASSED_ON, loop_back=True)


def build_must_alias_buffers(module: HloModule, *, ambiguous: bool = False) -> BufferAssignment:
    """Returns a buffer assignment that only says which values must share storage. Values that must share storage are in one
    allocation of 1 byte; all other values have allocations of their own.

    ambiguous: whether aliases count if several entries of `output_to_operand_aliasing` name one output or operand. XLA
    counts them.
    """
    sharing = _Sharing(module)
    sharing.run(ambiguous=ambiguous)
    numbers: dict[_Key, int] = {}
    definitions: defaultdict[int, list[tuple[ShapeIndex, int]]] = defaultdict(list)
    for key in sharing.defined:
        number = numbers.setdefault(sharing.find(key), len(numbers))
        definitions[key[0]].append((key[1], number))
    parameters = {
        numbers[sharing.find((parameter.id, index))]: (parameter.proto.parameter_number, index)
        for parameter in module.entry.parameters
        for index in iterate_leaves(parameter.shape)
    }
    return BufferAssignment(
        slices=tuple([Slice(number, 0, 1) for number in range(len(numbers))]),
        definitions={key: tuple(value) for key, value in definitions.items()},
        overlapping={number: (number,) for number in range(len(numbers))},
        parameters=parameters,
        constants=frozenset(numbers[sharing.find(key)] for key in sharing.constants),
    )


class _Sharing:
    """Joins the positions that share storage, with a union-find structure."""

    def __init__(self, module: HloModule) -> None:
        self._module = module
        self._flow = Dataflow(module, _SHARED)
        self._parent: dict[_Key, _Key] = {}
        self.defined: list[_Key] = []
        self.constants: list[_Key] = []

    def find(self, key: _Key) -> _Key:
        root = key
        while (parent := self._parent.get(root, root)) != root:
            root = parent
        while key != root:
            self._parent[key], key = root, self._parent.get(key, key)
        return root

    def run(self, *, ambiguous: bool = False) -> None:
        for computation in list_running(self._module):
            for instruction in computation.instructions:
                for index in iterate_leaves(instruction.shape):
                    self._place(instruction, index)
                    if instruction.opcode == "constant":
                        self.constants.append((instruction.id, index))
                for index, operand in find_in_place(self._module, instruction):
                    self._join((instruction, index), operand)
        for alias in self._module.invalid_aliases if ambiguous else ():
            if alias.is_shared:
                call = next(one for one in self._module.instructions if one.id == alias.instruction)
                self._join((call, alias.output), (call.operands[alias.operand], alias.part))
        for entry in self._module.input_output_alias.entries:
            parameter = self._module.entry.parameters[entry.parameter_number]
            self._join(
                (self._module.entry.root, tuple(entry.output_shape_index)),
                (parameter, tuple(entry.parameter_shape_index)),
            )

    def _place(self, instruction: HloInstruction, index: ShapeIndex) -> None:
        """Joins a leaf of an instruction's result with the positions whose value it passes on; if there are none, adds the
        leaf to `defined`.
        """
        shared = [] if instruction.opcode == "all-reduce-start" else self._list_shared(instruction, index)
        if not shared:
            self.defined.append((instruction.id, index))
        for position in shared:
            self._join((instruction, index), position)

    def _list_shared(self, instruction: HloInstruction, index: ShapeIndex) -> list[Position]:
        """Returns the positions whose value this one passes on. For a parameter, they belong to the first caller of its
        computation and to every `while` among the other callers: an operand of another call or branch is not joined.
        """
        callers = self._module.callers.get(self._module.homes[instruction.id].id, ())
        asked = [caller for caller in callers if caller is callers[0] or caller.opcode == "while"]
        return list(self._flow.list_sources(instruction, index, asked))

    def _join(self, one: Position, other: Position) -> None:
        a, b = self.find((one[0].id, one[1])), self.find((other[0].id, other[1]))
        if a != b:
            self._parent[a] = b


def find_in_place(module: HloModule, instruction: HloInstruction) -> Iterator[tuple[ShapeIndex, Position]]:
    """Yields the leaves of an operation's result that must share storage with an operand, each as (leaf, position). The
    position is the operand and its leaf. They share storage if the operation works in place or declares an alias.
    """
    opcode, operands = instruction.opcode, instruction.operands
    for alias in instruction.proto.output_operand_aliasing:
        if alias.operand_index < len(operands):
            yield tuple(alias.output_shape_index), (operands[alias.operand_index], tuple(alias.operand_shape_index))
    if opcode in _IN_PLACE:
        for number, index in enumerate(iterate_leaves(instruction.shape)):
            if number < len(operands):
                yield index, (operands[number], ())
    elif opcode == "fusion":
        yield from _find_fused_in_place(module, instruction)


def _find_fused_in_place(module: HloModule, fusion: HloInstruction) -> Iterator[tuple[ShapeIndex, Position]]:
    flow = Dataflow(module, PassThrough(tuples=True))
    root = module.computations[fusion.called_computations[0]].root
    for index in iterate_leaves(fusion.shape):
        value, rest = flow.find_definition(root, index)
        if value.opcode not in ("dynamic-update-slice", "scatter") or (value.opcode == "scatter" and len(rest) > 1):
            continue
        updated, inner = flow.find_definition(value.operands[rest[0] if rest else 0])
        if updated.opcode == "parameter":
            yield index, (fusion.operands[updated.proto.parameter_number], inner)


_PASSES_ON = having(Trait.MAKES_TUPLE, Trait.TAKES_ELEMENT) | {"bitcast"}
_HANDS_ON = having(Trait.RUNS_SCHEDULED, Trait.BARRIER, Trait.UPDATE, Trait.DONE) | {"parameter"}
"""Opcodes whose results are mostly values that other instructions define. If such an instruction does define a value,
as a loop may, `_Check._shared` knows this value, too, so the check treats both cases alike.
"""


def find_buffer_fault(module: HloModule, buffers: BufferAssignment) -> str:
    """Returns how a buffer assignment contradicts itself or XLA's rules, as one clause; '' if it does not."""
    return buffers.fault or _Check(module, buffers).run()


class _Fault(Exception):
    """Raised at the first contradiction in a buffer assignment; the message is one clause about it."""


class _Check:
    def __init__(self, module: HloModule, buffers: BufferAssignment) -> None:
        self._module = module
        self._buffers = buffers
        self._positions = Positions(module, buffers)
        self._shared = build_must_alias_buffers(module)
        self._shared_positions = Positions(module, self._shared)
        self._constants = [one for one in module.instructions if one.opcode == "constant"]

    def run(self) -> str:
        try:
            self._require_places()
        except _Fault as fault:
            return str(fault)
        return ""

    def _require_places(self) -> None:
        """Raises _Fault if an entry parameter or a constant is in a wrong allocation, if a value has no slice or one of
        the wrong size, or if values that must share storage have different slices.
        """
        self._require_parameters()
        self._require_definitions()
        slices: dict[int, int] = {}
        for instruction in self._module.instructions:
            defined = self._shared.definitions.get(instruction.id, ())
            shapes = dict(iterate_leaf_shapes(instruction.shape)) if defined else {}
            for index, group in defined:
                shape, name = shapes[index], f"`{instruction.name}`{_render(index)}"
                if shape.element_type == TOKEN:
                    continue
                number = self._positions.find(instruction, index)
                if number is None:
                    raise _Fault(f"the assignment has no bytes for {name}")
                size, given = compute_byte_size(shape), self._buffers.slices[number].size
                if size is not None and given != size:
                    raise _Fault(f"{name} needs {size} bytes, but {given} are assigned to it")
                if slices.setdefault(group, number) != number:
                    raise _Fault(
                        f"{name} must share its bytes with a second value, but is in other bytes than that value"
                    )
        self._require_shared(slices)

    def _require_shared(self, slices: Mapping[int, int]) -> None:
        """Raises _Fault if the assignment lists a position that only passes a value on, but with another slice than
        that value.
        """
        for instruction in self._module.instructions:
            listed = self._buffers.definitions.get(instruction.id, ())
            if instruction.opcode not in _HANDS_ON or not listed:
                continue
            leaves = frozenset(iterate_leaves(instruction.shape))
            for index, number in listed:
                group = self._shared_positions.find(instruction, index) if index in leaves else None
                if group is not None and slices.get(group, number) != number:
                    raise _Fault(
                        f"`{instruction.name}`{_render(index)} is not in the bytes of the value that it passes on"
                    )

    def _require_definitions(self) -> None:
        """Raises _Fault if an instruction that only passes a value on has a slice of its own."""
        for instruction in self._module.instructions:
            if instruction.opcode not in _PASSES_ON:
                continue
            for index, _ in self._buffers.definitions.get(instruction.id, ()):
                if index or instruction.opcode != "tuple":
                    name = f"`{instruction.name}`{_render(index)}"
                    raise _Fault(f"{name} only passes a value on, but has bytes of its own")

    def _require_parameters(self) -> None:
        entry, slices = self._module.entry, self._buffers.slices
        own: set[int] = set()
        for parameter in entry.parameters:
            for index, shape in iterate_leaf_shapes(parameter.shape):
                number = self._positions.find(parameter, index)
                if number is None:
                    continue
                own.add(slices[number].allocation)
                if shape.element_type == TOKEN:  # a token has no bytes
                    continue
                if self._buffers.parameters.get(slices[number].allocation) != (parameter.proto.parameter_number, index):
                    name = f"`{parameter.name}`{_render(index)}"
                    raise _Fault(f"entry parameter {name} is not in its own allocation")
        if self._buffers.parameters.keys() - own:
            raise _Fault("an allocation is marked as that of an entry parameter, but no entry parameter is in it")
        for constant in self._constants:
            number = self._positions.find(constant, ())
            if number is not None and slices[number].allocation not in self._buffers.constants:
                raise _Fault(f"the constant `{constant.name}` is in an allocation that is not marked as a constant's")


def _render(index: ShapeIndex) -> str:
    return render_index(index) if index else ""
