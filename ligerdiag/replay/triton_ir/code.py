"""Prepares the operations of a function in Triton IR for evaluation. Also keeps the values of each call of the
function, and reports errors with source lines.

Preparation drops operations whose results nothing needs, and reads the attributes of each operation once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ligerdiag.effects.libtriton import parse_successors
from ligerdiag.effects.ttir_module import Function, Operation
from ligerdiag.replay.ops.scope import Array, NotCoveredError
from ligerdiag.replay.triton_ir.launch_memory import Memory
from ligerdiag.replay.triton_ir.operations.block_products import PRODUCTS
from ligerdiag.replay.triton_ir.operations.conversions import CONVERSIONS
from ligerdiag.replay.triton_ir.operations.floats import FLOATS
from ligerdiag.replay.triton_ir.operations.integers import INTEGERS, Compute, Prepare
from ligerdiag.replay.triton_ir.operations.mathematics import FUNCTIONS
from ligerdiag.replay.triton_ir.operations.shaping import CONSTANTS, SHAPING
from ligerdiag.replay.triton_ir.values import Active, Value, select_programs, to_array

PURE: dict[str, Prepare] = {**INTEGERS, **FLOATS, **CONVERSIONS, **FUNCTIONS, **SHAPING, **PRODUCTS}
"""Functions that prepare the operations whose results depend on their operands alone, by the operation's name."""
_REMOVABLE = (
    frozenset(PURE)
    | frozenset(CONSTANTS)
    | {
        "tt.addptr",
        "tt.advance",
        "tt.make_tensor_ptr",
        "tt.make_tensor_descriptor",
        "tt.get_program_id",
        "tt.get_num_programs",
        "tt.load",
        "tt.reduce",
        "tt.scan",
    }
)


@dataclass(slots=True, eq=False)
class Instruction:
    """An operation that is prepared for evaluation."""

    op: Operation
    compute: Compute | None
    """Computes the results of a pure operation from its operands; None before the first evaluation, and for other
    operations.
    """
    regions: tuple["Region", ...]
    memo: Any = None
    """State that one evaluation of the operation keeps for the next one."""


@dataclass(slots=True, eq=False)
class Region:
    """A block of operations: one of the blocks of a function's body, or the only block of an operation's region."""

    arguments: tuple[int, ...]
    body: list[Instruction]
    """The operations of the block; the last one is its terminator."""


@dataclass(slots=True, eq=False)
class Code:
    """A function that is prepared for evaluation."""

    function: Function
    blocks: list[Region]
    successors: dict[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    """Maps the index of a branch operation to the numbers of the blocks to which it may go."""


class Library:
    """The functions of a kernel's module, each prepared for evaluation when it is first called."""

    def __init__(self, functions: Mapping[str, Function], *, has_lines: bool) -> None:
        self.functions, self._has_lines = functions, has_lines
        self._codes: dict[str, Code] = {}

    def get(self, name: str) -> Code:
        """Returns the prepared function called `name`. Raises NotCoveredError if the module has no function of this
        name.
        """
        if name not in self._codes:
            function = self.functions.get(name)
            if function is None or not function.blocks:
                raise NotCoveredError(f"a call of `{name}`, which the module does not define")
            if not self._has_lines:
                raise NotCoveredError("a module of Triton IR whose operations do not match its printed text")
            self._codes[name] = _make_code(function)
        return self._codes[name]


def _make_code(function: Function) -> Code:
    live = _find_live(function)
    code = Code(
        function=function,
        blocks=[
            Region(arguments=block.arguments, body=_make_body(function, -1, 0, number, live))
            for number, block in enumerate(function.blocks)
        ],
    )
    for op in function.operations:
        if op.name in ("cf.br", "cf.cond_br"):
            code.successors[op.index] = parse_successors(op.text)
    return code


def _make_body(function: Function, parent: int, region: int, block: int, live: frozenset[int]) -> list[Instruction]:
    return [
        Instruction(op, None, _make_regions(function, op, live))
        for op in function.get_operations(parent, region, block)
        if op.index in live
    ]


def _make_regions(function: Function, op: Operation, live: frozenset[int]) -> tuple[Region, ...]:
    if any(len(blocks) > 1 for blocks in op.regions):
        raise NotCoveredError(f"{op.name} with a region of several blocks")
    return tuple(
        Region(
            arguments=blocks[0].arguments if blocks else (),
            body=_make_body(function, op.index, number, 0, live) if blocks else [],
        )
        for number, blocks in enumerate(op.regions)
    )


def _find_live(function: Function) -> frozenset[int]:
    """Returns the indices of the operations that must run: they write, end a block, or compute what these need."""
    live: set[int] = set()
    needed: set[int] = set()
    while True:
        before = len(live)
        for op in reversed(function.operations):
            if op.index in live:
                continue
            inside_dropped = (
                op.parent >= 0 and op.parent not in live and function.operations[op.parent].name in _REMOVABLE
            )
            if inside_dropped:
                continue
            if op.name not in _REMOVABLE or any(result in needed for result in op.results):
                live.add(op.index)
                needed.update(op.operands)
        if len(live) == before:
            return frozenset(live)


def prepare_pure(op: Operation, function: Function) -> Compute:
    """Returns a function that computes the results of a pure operation. Raises NotCoveredError if the operation is
    unknown.
    """
    if op.name in CONSTANTS:
        value = CONSTANTS[op.name](op, function)
        value.flags.writeable = False
        return lambda: value
    if op.name not in PURE:
        raise NotCoveredError(op.name)
    return PURE[op.name](op, function)


class LocatedError(NotCoveredError):
    """A NotCoveredError whose message already names a source line, so that no caller adds one."""


@dataclass(slots=True, eq=False)
class Activation:
    """One call of a function that is being evaluated. It keeps the values computed so far, for all programs of the
    batch.
    """

    code: Code
    values: dict[int, Value]
    programs: int
    depth: int
    memory: Memory | None
    """The launch's memory; None in a combining function (that of a reduction or scan), which cannot access it."""
    merges: bool = False
    """Whether the current block has run before; inactive programs then keep the values that it computed for them."""
    returned: list[tuple[Active, list[Value]]] = field(default_factory=list[tuple[Active, list[Value]]])

    def take(self, numbers: Sequence[int]) -> list[Value]:
        """Returns the values with these numbers."""
        return [self.values[number] for number in numbers]

    def put(self, numbers: Sequence[int], values: Sequence[Value], active: Active) -> None:
        """Sets the values with these numbers. If the current block has run before, they change only for the active
        programs.
        """
        if len(numbers) != len(values):
            raise NotCoveredError("an operation whose number of results contradicts its type")
        for number, value in zip(numbers, values, strict=True):
            old = self.values.get(number) if self.merges and active is not None else None
            self.values[number] = value if old is None or active is None else select_programs(active, value, old)


class Captured(dict[int, Value]):
    """The values that a combining function may use: its own, and scalars from outside of the reduction or scan. A
    reduction or scan combines two elements by such a function.

    A combining function runs with a block's elements as its programs. So a scalar is repeated for each element of the
    program to which it belongs.
    """

    def __init__(self, outer: dict[int, Value], programs: int, size: int) -> None:
        super().__init__()
        self._outer, self._programs, self._size = outer, programs, size

    def __missing__(self, number: int) -> Value:
        array = to_array(self._outer[number])
        if array.ndim > 1:
            raise NotCoveredError("a reduction or scan whose combining function uses a tensor that is not its argument")
        if array.size > 1:
            array = np.repeat(np.broadcast_to(array, (self._programs,)), self._size // self._programs)
        self[number] = array
        return array


def narrow_active(active: Active, gate: Array, programs: int) -> Active:
    """Returns the active programs in which the condition `gate` is true, as bool[programs]. Returns None if all
    programs of the batch remain.

    active: bool[programs], None for all programs. gate: bool[programs or 1]. programs: the number of programs in the
    batch.
    """
    chosen = np.broadcast_to(gate, (programs,))
    chosen = chosen if active is None else chosen & active
    return None if bool(chosen.all()) else chosen


def render_place(op: Operation | None) -> str:
    """Returns the source line of an operation as a suffix for messages. Returns an empty string if the line is unknown."""
    return f" ({op.place.file}:{op.place.line})" if op is not None and op.place is not None else ""
