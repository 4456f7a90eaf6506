"""A kernel's Triton IR as plain data: functions, operations, and the values among them that can carry an address.

1. Operations stand in the order of MLIR's post-order walk: the operations of a region come before the operation that
   owns the region.
2. A value is the number of its MLIR implementation, unique in its module. Only values whose type contains a pointer or
   a tensor descriptor are kept apart as `pointers`; integers never are, so an address that went through an integer is
   the analysis's business (`pointer_flow`, 4).
3. Successors of branches are not visible through Triton's bindings; blocks are only known by their arguments.
"""

from dataclasses import dataclass

from ligerdiag.effects import libtriton
from ligerdiag.errors import ArtifactError

_POINTER_TYPES = ("!tt.ptr", "tensordesc", "!llvm.ptr")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A basic block: its arguments."""

    arguments: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Operation:
    """One operation of a function's body."""

    name: str
    """With its dialect, such as `tt.store`."""
    operands: tuple[int, ...]
    results: tuple[int, ...]
    regions: tuple[tuple[Block, ...], ...]
    """Per region its blocks, the entry block first; a region without operations has none."""
    parent: int
    """Index of the operation, in the same function, whose region holds this one; -1 in the function's own body."""
    region: int
    """Number of the region of `parent` that holds this one; 0 in the function's own body."""
    callee: str
    """Of `tt.call`: the function's name. Empty otherwise."""
    assembly: str
    """Of inline assembly: its text. Empty otherwise."""
    is_pure: bool
    """What the operation's `pure` attribute says; false where it has none."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Function:
    """One `tt.func`."""

    name: str
    arguments: tuple[int, ...]
    """Empty for a declaration, whatever its type."""
    blocks: tuple[Block, ...]
    """The body's blocks, the entry block first; none for a declaration."""
    operations: tuple[Operation, ...]
    pointers: frozenset[int]
    """The values, of this function, that can carry an address."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TtirModule:
    """All functions of a kernel's module, by name."""

    functions: dict[str, Function]


@dataclass(slots=True)
class _Region:
    owner: libtriton.Operation
    index: int
    blocks: dict[int, libtriton.Block]


def parse_ttir(source: bytes) -> TtirModule:
    """The functions of a module given as MLIR text or bytecode; raises ArtifactError where it is not one."""
    module, context = libtriton.parse_module(source)
    handles: list[libtriton.Operation] = []
    module.walk(handles.append)
    reader = _Reader(handles)
    functions: dict[str, Function] = {}
    for handle in handles:
        if handle.get_name() == "tt.func":
            function = reader.read_function(handle)
            functions[function.name] = function
    del module, context
    if not functions:
        raise ArtifactError("the kernel's MLIR has no tt.func")
    return TtirModule(functions=functions)


class _Reader:
    """The regions of one module, found from the operations inside them: bindings give no way down."""

    def __init__(self, handles: list[libtriton.Operation]) -> None:
        self._regions: dict[int, _Region] = {}
        self._home: list[int] = []
        self._handles = handles
        for handle in handles:
            for index in range(handle.get_num_regions()):
                region = handle.get_region(index)
                self._regions[region.id()] = _Region(handle, index, {})
        self._members: dict[int, list[int]] = {number: [] for number in self._regions}
        for position, handle in enumerate(handles):
            if handle.get_name() == "builtin.module":
                continue
            block = handle.get_block()
            number = block.get_parent().id()
            self._regions[number].blocks.setdefault(block.id(), block)
            self._members[number].append(position)

    def read_function(self, handle: libtriton.Operation) -> Function:
        pointers: set[int] = set()
        body = handle.get_region(0).id()
        order: list[tuple[int, int]] = []
        pending = [(body, position) for position in self._members[body]]
        while pending:
            number, position = pending.pop()
            order.append((position, number))
            inner = self._handles[position]
            for index in range(inner.get_num_regions()):
                number = inner.get_region(index).id()
                pending.extend((number, member) for member in self._members[number])
        order.sort()
        index_of = {position: index for index, (position, _) in enumerate(order)}
        owner_of = {
            inner.get_region(index).id(): index_of[position]
            for position, _ in order
            for inner in (self._handles[position],)
            for index in range(inner.get_num_regions())
        }
        operations = tuple(
            self._read_operation(self._handles[position], owner_of.get(number, -1), number, pointers)
            for position, number in order
        )
        blocks = self._read_blocks(body, pointers)
        return Function(
            name=handle.get_str_attr("sym_name") or "",
            arguments=blocks[0].arguments if blocks else (),
            blocks=blocks,
            operations=operations,
            pointers=frozenset(pointers),
        )

    def _read_operation(self, handle: libtriton.Operation, parent: int, region: int, pointers: set[int]) -> Operation:
        name = handle.get_name()
        has_assembly = name == "tt.elementwise_inline_asm"
        may_be_pure = has_assembly or name in ("tt.extern_elementwise", "tt.map_elementwise")
        return Operation(
            name=name,
            operands=tuple(handle.get_operand(index).id() for index in range(handle.get_num_operands())),
            results=tuple(_read_value(handle.get_result(index), pointers) for index in range(handle.get_num_results())),
            regions=tuple(
                self._read_blocks(handle.get_region(index).id(), pointers) for index in range(handle.get_num_regions())
            ),
            parent=parent,
            region=self._regions[region].index,
            callee=(handle.get_flat_symbol_ref_attr("callee") or "") if name == "tt.call" else "",
            assembly=(handle.get_str_attr("asm_string") or "") if has_assembly else "",
            is_pure=bool(handle.get_bool_attr("pure")) if may_be_pure else False,
        )

    def _read_blocks(self, region: int, pointers: set[int]) -> tuple[Block, ...]:
        return tuple(
            Block(
                arguments=tuple(
                    _read_value(block.get_argument(index), pointers) for index in range(block.get_num_arguments())
                )
            )
            for block in self._regions[region].blocks.values()
        )


def _read_value(value: libtriton.Value, pointers: set[int]) -> int:
    number = value.id()
    text = str(value.get_type())
    # What lies in shared memory is not followed: a pointer that is read from there comes from anywhere.
    if "!ttg.memdesc" not in text and any(name in text for name in _POINTER_TYPES):
        pointers.add(number)
    return number
