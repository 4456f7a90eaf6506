"""Represents a kernel's Triton IR as plain data: functions, operations, values that can carry pointers, and source
lines.

Operations are in the order of MLIR's post-order walk: the operations of a region come before the operation that owns
the region. A value is a number, unique in its module: the bindings' `id()`. `Function.pointers` has
only values whose type contains a pointer or a tensor descriptor, never an integer: `pointer_flow` handles addresses
that go through integers.

Triton's bindings show neither attributes nor the successors of branches. `Operation.text` is the operation's line of the
printed module, if `libtriton` could match the two; `pointer_flow` does not need it. `Operation.place` is the line of the
kernel's Python source. MLIR prints `loc(#loc7)` after an operation and defines `#loc7` at the module's end as a line, a name
with a line, a line with its caller's line, or several of these. The innermost line outside installed packages counts.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ligerdiag.effects import libtriton
from ligerdiag.effects.libtriton import align_lines
from ligerdiag.errors import ArtifactError
from ligerdiag.model.findings import SourceLine

_DEFINITION = re.compile(r"^(#loc\d*) = loc\((.*)\)$", re.MULTILINE)
_PART = re.compile(r'"((?:[^"\\]|\\.)*)":(\d{1,9}):\d+|(#loc\d*)')
_MOST_PARTS = 64
_NAMED = re.compile(r' loc\((?:"([^"\\]*)"\(|(#loc\d*)\))')
"""The location of a function's argument: a name with a place, or the number of its definition."""
_NAME = re.compile(r'"([^"\\]*)"\(')
_LONGEST_NAME = 60
_OWN_TEXT = "/proc/self/fd/"
"""Start of the name of the file from which `libtriton` parses a module. MLIR gives a location in that file to an
operation without a location in the kernel's Python source.
"""


def parse_places(text: str, lines: Sequence[str]) -> tuple[SourceLine | None, ...]:
    """Returns the line of Python source that a printed line of a module names, for each line in `lines`. None for a line
    without one.

    text: the whole printed module, which defines the locations. lines: some lines of `text`.
    """
    definitions = dict(_DEFINITION.findall(text))
    return tuple(_find_place(line, definitions) for line in lines)


def _find_place(line: str, definitions: Mapping[str, str]) -> SourceLine | None:
    start = line.rfind(" loc(")
    if start < 0:
        return None
    found: list[SourceLine] = []
    pending, steps = [line[start:]], 0
    while pending and steps < _MOST_PARTS:
        steps += 1
        inner: list[str] = []
        for match in _PART.finditer(pending.pop()):
            file, number, name = match.groups()
            inner.append(definitions.get(name, "") if name else f'"{file}":{number}:0')
        if len(inner) == 1 and inner[0].startswith('"') and _PART.fullmatch(inner[0]):
            file, number, _ = inner[0].rsplit(":", 2)
            if file.startswith(f'"{_OWN_TEXT}'):
                continue
            found.append(SourceLine(file=file[1:-1], line=int(number)))
        else:
            pending += reversed(inner)
    return next((place for place in found if not place.is_installed), next(iter(found), None))


def parse_argument_names(text: str, function: str, arguments: int) -> tuple[str, ...]:
    """Returns the names of a function's arguments in the kernel's Python source; '' for an argument with an unknown name.
    Returns () if the text does not give a location for each argument.

    text: the whole printed module. function: the function's name. arguments: how many arguments it has. Triton writes the
    names as locations since about version 3.3.
    """
    head = next((line for line in text.splitlines() if _is_head(line, function)), "")
    found = _NAMED.findall(head)
    if len(found) != arguments:
        return ()
    definitions = dict(_DEFINITION.findall(text))
    names: list[str] = []
    for name, number in found:
        match = _NAME.match(definitions.get(number, ""))
        own = name or (match[1] if match else "")
        names.append(own if own.isidentifier() and len(own) <= _LONGEST_NAME else "")
    return tuple("" if names.count(name) > 1 else name for name in names)  # the parts of a tuple have one name


def _is_head(line: str, function: str) -> bool:
    return line.lstrip().startswith("tt.func ") and (f"@{function}(" in line or f'@"{function}"(' in line)


_POINTER_TYPES = ("!tt.ptr", "tensordesc", "!llvm.ptr")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A basic block of a function, with its arguments only."""

    arguments: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Operation:
    """One operation of a function's body."""

    name: str
    """The operation's name with its dialect, such as `tt.store`."""
    operands: tuple[int, ...]
    results: tuple[int, ...]
    regions: tuple[tuple[Block, ...], ...]
    """For each region its blocks, the entry block first; a region without operations has no blocks."""
    parent: int
    """Index, in the same function, of the operation that contains this operation in a region; -1 if this operation is in
    the function's own body.
    """
    region: int
    """Number of the region of `parent` that contains this operation; 0 in the function's own body."""
    block: int
    """Number of the block, in its region, that contains this operation."""
    index: int
    """Index of this operation in its function."""
    text: str
    """The operation's line of the printed module; for an operation with regions, its first line; empty if unknown."""
    callee: str
    """For a `tt.call`, the name of the called function; empty for other operations."""
    assembly: str
    """The text of inline assembly; empty for other operations."""
    is_pure: bool
    """The value of the operation's `pure` attribute; false if it has none."""
    place: SourceLine | None = None
    """The line of the kernel's Python source; None if the module does not give it, and for operations with regions."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Function:
    """One function of a kernel's module (`tt.func`)."""

    name: str
    arguments: tuple[int, ...]
    """The function's arguments; empty for a declaration, whatever its type."""
    blocks: tuple[Block, ...]
    """The blocks of the function's body, the entry block first; none for a declaration."""
    operations: tuple[Operation, ...]
    pointers: frozenset[int]
    """The values of this function that can carry an address."""
    types: Mapping[int, str]
    """The type of every value of this function, as MLIR prints it."""
    names: tuple[str, ...] = ()
    """The name of each argument in the kernel's Python source, empty where unknown; () if none is known."""

    @cached_property
    def _members(self) -> Mapping[tuple[int, int, int], list[Operation]]:
        """The operations of each block, by (parent, region, block)."""
        members: dict[tuple[int, int, int], list[Operation]] = {}
        for op in self.operations:
            members.setdefault((op.parent, op.region, op.block), []).append(op)
        return members

    def get_operations(self, parent: int, region: int, block: int) -> list[Operation]:
        """Returns the operations of one block, in order.

        parent: index of the operation whose region contains the block; -1 for the function's own body. region: number of the
        region in that operation. block: number of the block in the region.
        """
        return self._members.get((parent, region, block), [])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class TtirModule:
    """All functions of a kernel's module, by name."""

    functions: Mapping[str, Function]
    has_lines: bool
    """Whether the printed lines of the operations without regions are known."""


@dataclass(slots=True)
class _Region:
    index: int
    blocks: dict[int, libtriton.MlirBlock]


def parse_ttir(source: bytes) -> TtirModule:
    """Returns the functions of a module given as MLIR text or bytecode; raises ArtifactError if it cannot be read."""
    module, context = libtriton.parse_module(source)
    handles: list[libtriton.MlirOperation] = []
    module.walk(handles.append)
    printed = module.str()
    lines, places = _align(module, handles, printed)
    reader = _Reader(handles, lines, places)
    reader.add_first_lines(libtriton.print_module(module))
    functions: dict[str, Function] = {}
    for handle in handles:
        if handle.get_name() == "tt.func":
            function = reader.read_function(handle, printed)
            functions[function.name] = function
    del module, context
    if not functions:
        raise ArtifactError("the kernel's MLIR has no tt.func")
    return TtirModule(functions=functions, has_lines=bool(lines))


def _align(
    module: libtriton.Module, handles: list[libtriton.MlirOperation], printed: str
) -> tuple[dict[int, str], dict[int, SourceLine]]:
    """Returns the lines of the printed module, and of the kernel's source, by an operation's position in the walk; both
    empty if the text does not match. printed: the printed module with its locations.
    """
    leaves = [
        position
        for position, handle in enumerate(handles)
        if not handle.get_num_regions() and not _is_left_out(handle.get_name(), handle.get_num_operands())
    ]
    names = [handles[position].get_name() for position in leaves]
    lines = align_lines(libtriton.print_module(module), names)
    if not lines:
        return {}, {}
    places = parse_places(printed, align_lines(printed, names))
    return dict(zip(leaves, lines, strict=True)), {
        position: place for position, place in zip(leaves, places, strict=False) if place is not None
    }


def _is_left_out(name: str, operands: int) -> bool:
    return name == "scf.yield" and not operands


class _Reader:
    """Reads the functions of a module; finds the contents of each region from the operations inside it, because the
    bindings do not list them.
    """

    def __init__(
        self, handles: list[libtriton.MlirOperation], lines: dict[int, str], places: dict[int, SourceLine]
    ) -> None:
        self._lines = lines
        self._places = places
        self._regions: dict[int, _Region] = {}
        self._home: list[int] = []
        self._handles = handles
        for handle in handles:
            for index in range(handle.get_num_regions()):
                region = handle.get_region(index)
                self._regions[region.id()] = _Region(index, {})
        self._members: dict[int, list[int]] = {number: [] for number in self._regions}
        self._block_of: dict[int, int] = {}
        numbers: dict[int, int] = {}
        for position, handle in enumerate(handles):
            if handle.get_name() == "builtin.module":
                continue
            block = handle.get_block()
            number = block.get_parent().id()
            self._regions[number].blocks.setdefault(block.id(), block)
            self._members[number].append(position)
            blocks = self._regions[number].blocks
            self._block_of[position] = numbers.setdefault(block.id(), len(blocks) - 1)

    def add_first_lines(self, text: str) -> None:
        """Records the text of each operation with regions: the printed line that opens its first region. Records nothing if
        the names of the operations in `text` differ from those in the module.

        text: the printed module. An operation with regions comes before its contents there.
        """
        before: list[int] = []
        pending = [
            position
            for position, handle in reversed(list(enumerate(self._handles)))
            if handle.get_name() == "tt.func" and not handle.get_num_operands()
        ]
        while pending:
            position = pending.pop()
            handle = self._handles[position]
            if handle.get_num_regions() and handle.get_name() != "tt.func":
                before.append(position)
            inner = [
                member
                for number in range(handle.get_num_regions())
                for member in self._members[handle.get_region(number).id()]
            ]
            pending.extend(reversed(inner))
        lines = libtriton.align_first_lines(text, [self._handles[position].get_name() for position in before])
        self._lines = {**self._lines, **dict(zip(before, lines, strict=False))}

    def read_function(self, handle: libtriton.MlirOperation, printed: str) -> Function:
        types: dict[int, str] = {}
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
            self._read_operation(position, owner_of.get(number, -1), number, index, types)
            for index, (position, number) in enumerate(order)
        )
        blocks = self._read_blocks(body, types)
        name = handle.get_str_attr("sym_name") or ""
        arguments = blocks[0].arguments if blocks else ()
        return Function(
            name=name,
            arguments=arguments,
            blocks=blocks,
            operations=operations,
            pointers=frozenset(number for number, text in types.items() if _carries_address(text)),
            types=types,
            names=parse_argument_names(printed, name, len(arguments)),
        )

    def _read_operation(self, position: int, parent: int, region: int, index: int, types: dict[int, str]) -> Operation:
        handle = self._handles[position]
        name = handle.get_name()
        has_assembly = name == "tt.elementwise_inline_asm"
        may_be_pure = has_assembly or name in ("tt.extern_elementwise", "tt.map_elementwise")
        return Operation(
            name=name,
            operands=tuple(handle.get_operand(number).id() for number in range(handle.get_num_operands())),
            results=tuple(_read_value(handle.get_result(number), types) for number in range(handle.get_num_results())),
            regions=tuple(
                self._read_blocks(handle.get_region(number).id(), types) for number in range(handle.get_num_regions())
            ),
            parent=parent,
            region=self._regions[region].index,
            block=self._block_of[position],
            index=index,
            text=self._lines.get(position, ""),
            callee=(handle.get_flat_symbol_ref_attr("callee") or "") if name == "tt.call" else "",
            assembly=(handle.get_str_attr("asm_string") or "") if has_assembly else "",
            is_pure=bool(handle.get_bool_attr("pure")) if may_be_pure else False,
            place=self._places.get(position),
        )

    def _read_blocks(self, region: int, types: dict[int, str]) -> tuple[Block, ...]:
        return tuple(
            Block(
                arguments=tuple(
                    _read_value(block.get_argument(number), types) for number in range(block.get_num_arguments())
                )
            )
            for block in self._regions[region].blocks.values()
        )


def _read_value(value: libtriton.Value, types: dict[int, str]) -> int:
    number = value.id()
    types[number] = str(value.get_type())
    return number


def _carries_address(text: str) -> bool:
    # The contents of shared memory are not tracked: a pointer that is read from there may point anywhere.
    return "!ttg.memdesc" not in text and any(name in text for name in _POINTER_TYPES)
