"""Gives each StableHLO operation a unique number, its tag, in its MLIR location. Also reads and sets MLIR locations.

The tag follows the operation's own name, `jit(f)/mul#ld17`; the locations below it (file, line, callers) stay. An
operation without a name gets `#ld17`. Tags are 1, 2, ... in the order of a walk over the module, an operation before
those in its regions. An existing tag is replaced, because JAX returns a cached module when it lowers a program again. A
`;` or `#` that the author uses, as in `jax.named_scope("a;b")`, is written `%3B` or `%23`: XLA joins names with `;`,
and `#` marks a tag.

XLA keeps the name as `op_name`. For an inlined function it joins caller and callee: `jit(f)/call#ld15/add#ld85`. Two
traces of one program, one of which has more operations (see `intent`), get the same tags for the same operations
(`tag_like`).

Since about jaxlib 0.9, a location has a Python class that shows its kind, and an operation's location can be set. In
older versions a location can only be printed and parsed, and an operation keeps its location, so another operation
replaces it.
"""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any

from jaxlib.mlir import ir

from ligerdiag.compile.cases.stablehlo_program import walk_operations
from ligerdiag.hlo.custom_calls import PARTITIONED

_BINDINGS: Any = ir
_HAS_CLASSES = hasattr(_BINDINGS, "NameLoc")

_STRING = r'"(?:[^"\\]|\\.)*"'
_NAME = re.compile(rf"loc\(({_STRING})(?!:\d)")
_LINE = re.compile(rf"({_STRING}):(\d+):\d+")
_ESCAPE = re.compile(rb'\\([0-9A-Fa-f]{2}|\\|")')


def read_name(location: Any) -> str | None:
    if _HAS_CLASSES:
        return location.name_str if isinstance(location, _BINDINGS.NameLoc) else None
    found = _NAME.match(str(location))
    return None if found is None else _read_string(found[1])


def rename_location(location: Any, name: str, context: Any) -> Any:
    """Returns a copy of the MLIR location with this name. The name that the location may have is replaced."""
    if _HAS_CLASSES:
        child = location.child_loc if isinstance(location, _BINDINGS.NameLoc) else location
        return ir.Location.name(name, childLoc=child, context=context)
    found = _NAME.match(text := str(location))
    if found is None:
        return ir.Location.name(name, childLoc=location, context=context)
    attribute = ir.Attribute.parse(f"loc({_print_string(name)}{text[found.end() :]}", context)
    return ir.Location.from_attr(attribute, context)


def iterate_lines(location: Any) -> Iterator[tuple[str, int]]:
    """Yields (file, line) of each Python frame in an MLIR location, innermost first."""
    if not _HAS_CLASSES:
        yield from ((_read_string(match[1]), int(match[2])) for match in _LINE.finditer(str(location)))
        return
    match location:
        case _BINDINGS.NameLoc():
            yield from iterate_lines(location.child_loc)
        case _BINDINGS.CallSiteLoc():
            yield from iterate_lines(location.callee)
            yield from iterate_lines(location.caller)
        case _BINDINGS.FileLineColLoc():
            yield location.filename, location.start_line
        case _:
            return


def set_location(operation: Any, location: Any) -> None:
    """Gives the operation this location. The Python object `operation` must not be used afterwards: in older versions
    of jaxlib, another operation has replaced it.
    """
    try:
        operation.location = location
    except AttributeError:
        replace_operation(operation, location)


def replace_operation(
    operation: Any, location: Any, *, more_operands: Sequence[Any] = (), more_results: Sequence[Any] = ()
) -> Any:
    """Replaces the operation by an equal one at this location, and returns the new operation. The new one may have
    further operands, and further results of the types `more_results`; they come after the operation's own.
    """
    operations: Any = ir.Operation
    attributes = operation.attributes  # iteration yields names or named attributes, depending on the version
    named = [attributes[number] for number in range(len(attributes))]
    new = operations.create(
        operation.name,
        results=[*(result.type for result in operation.results), *more_results],
        operands=[*operation.operands, *more_operands],
        attributes={one.name: one.attr for one in named},
        successors=list(operation.successors),
        regions=len(operation.regions),
        loc=location,
        ip=ir.InsertionPoint(operation),
    )
    for region, target in zip(operation.regions, new.regions, strict=True):
        for block in list(region.blocks):
            block.append_to(target)
    for result, replacement in zip(operation.results, new.results, strict=False):
        result.replace_all_uses_with(replacement)
    operation.erase()
    return new


def _read_string(literal: str) -> str:
    """Returns the text of a quoted string that MLIR has printed: two hexadecimal digits replace each byte that is not
    printable.
    """

    def unescape(match: re.Match[bytes]) -> bytes:
        return match[1] if match[1] in (b"\\", b'"') else bytes.fromhex(match[1].decode())

    return _ESCAPE.sub(unescape, literal[1:-1].encode()).decode(errors="replace")


def _print_string(text: str) -> str:
    printable = range(0x20, 0x7F)
    escaped = "".join(
        chr(byte) if byte in printable and byte not in b'"\\' else f"\\{byte:02X}" for byte in text.encode()
    )
    return f'"{escaped}"'


_TAG = re.compile(r"#ld\d+$")
CALL_NAME = re.compile(r"ld_call_[0-9a-f]{8}")
"""Matches the name that `call_names` gives a kernel call or an access to a Ref. The name is a scope of JAX's name stack, and
is removed before the module is compiled.
"""
_EVALUATED = "eval_jaxpr/"
"""A step that JAX adds to the name of an operation each time it evaluates the jaxpr around the operation. Two traces of
a program may have different numbers of these steps.
"""
_CALL_STEP = re.compile(rf"{CALL_NAME.pattern}/?")

_TYPED_BY_CONTENTS = frozenset({"func.call", "stablehlo.while", "stablehlo.case", "stablehlo.if"})
"""Operations whose results depend on the operations inside them, so that the same operation may have more results in
one trace than in another.
"""


type _Key = tuple[str, str, tuple[str, ...]]


def tag_operations(module: ir.Module) -> int:
    """Tags all operations of the module in place with 1, 2, ... in program order. Returns the number of operations."""
    operations = list(walk_operations(module.operation))
    _put_tags(module, operations, range(1, len(operations) + 1))
    return len(operations)


def tag_like(module: ir.Module, other: ir.Module) -> int:
    """Tags each operation of the module, in place, with the tag of the same operation in `other`. Returns the number of
    operations.

    other: a module that `tag_operations` has tagged. Operations that `other` lacks get numbers above all tags of
    `other`.
    """
    operations = list(walk_operations(module.operation))
    known = list(walk_operations(other.operation))
    numbers = [0] * len(operations)
    for position, found in match_keys([_read_key(one) for one in operations], [_read_key(one) for one in known]):
        numbers[position] = found + 1
    free = len(known)
    for position, number in enumerate(numbers):
        if not number:
            free += 1
            numbers[position] = free
    _put_tags(module, operations, numbers)
    return len(operations)


def read_tag(operation: Any) -> int:
    """Returns the tag of an operation, the number at the end of its name. Returns 0 if it has none."""
    found = _TAG.search(read_name(operation.location) or "")
    return int(found[0][3:]) if found else 0


def find_target(operation: Any) -> str:
    """Returns the target of a custom call. Returns an empty string for any other operation."""
    if operation.name != "stablehlo.custom_call":
        return ""
    return ir.StringAttr(operation.attributes["call_target_name"]).value


def strip_tag(name: str) -> str:
    """Returns an operation's name without its tag, and without the name of a kernel call or Ref access. All remaining
    `;` and `#` are escaped.
    """
    return drop_call_name(_strip_number(name))


def read_call_name(text: object) -> str:
    """Returns the name of a kernel call or Ref access (see `call_names`) in a name stack or in a location's name.
    Returns an empty string if there is none.
    """
    found = CALL_NAME.search(str(text))
    return "" if found is None else found[0]


def drop_call_name(name: str) -> str:
    """Removes the part that names a kernel call or Ref access (see `call_names`) from an operation's name. Slashes
    separate the parts.
    """
    return _CALL_STEP.sub("", name)


def _strip_number(name: str) -> str:
    return _TAG.sub("", name).replace(";", "%3B").replace("#", "%23")


def _put_tags(module: ir.Module, operations: Sequence[Any], numbers: Sequence[int]) -> None:
    for operation, number in reversed(
        list(zip(operations, numbers, strict=True))
    ):  # inner ones first: see set_location
        set_location(operation, _tag_location(operation.location, number, module.context))


def _read_key(operation: Any) -> _Key:
    """Returns the properties by which an operation is recognized in another trace of the same program: kind, name and
    result types.
    """
    kind = "func.call" if find_target(operation) == PARTITIONED else operation.name
    types = () if kind in _TYPED_BY_CONTENTS else tuple([str(result.type) for result in operation.results])
    return kind, _strip_number(read_name(operation.location) or "").replace(_EVALUATED, ""), types


def match_keys(ours: Sequence[Hashable], others: Sequence[Hashable]) -> Iterator[tuple[int, int]]:
    """Pairs the operations of two lists that have equal keys. Yields (position in `ours`, position in `others`); both
    positions increase from pair to pair.

    Keys that occur equally often in both lists are paired first, in their order, unless the pairs would cross. Between
    these pairs, the longest equal runs are matched. A model's layers repeat each key, so comparing every operation with
    every other one would take quadratic time.
    """
    last = (-1, -1)
    for pair in (*_pair_by_count(ours, others), (len(ours), len(others))):
        (begin, first), (end, stop) = (last[0] + 1, last[1] + 1), pair
        if begin < end and first < stop:
            between = SequenceMatcher(None, ours[begin:end], others[first:stop], autojunk=False)
            for block in between.get_matching_blocks():
                for offset in range(block.size):
                    yield begin + block.a + offset, first + block.b + offset
        if pair[0] < len(ours):
            yield pair
        last = pair


def _pair_by_count(ours: Sequence[Hashable], others: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Returns pairs of positions of keys that occur equally often in both lists: the longest run of pairs in which both
    positions increase.
    """
    places: defaultdict[Hashable, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for side, keys in enumerate((ours, others)):
        for position, key in enumerate(keys):
            places[key][side].append(position)
    pairs = sorted(
        pair for mine, theirs in places.values() if len(mine) == len(theirs) for pair in zip(mine, theirs, strict=True)
    )
    ends: list[int] = []
    heads: list[int] = []
    before: list[int] = []
    for number, (_, other) in enumerate(pairs):
        length = bisect_left(ends, other)
        before.append(heads[length - 1] if length else -1)
        ends[length : length + 1] = [other]
        heads[length : length + 1] = [number]
    chosen: list[tuple[int, int]] = []
    number = heads[-1] if heads else -1
    while number >= 0:
        chosen.append(pairs[number])
        number = before[number]
    return chosen[::-1]


def _tag_location(location: Any, number: int, context: Any) -> Any:
    return rename_location(location, f"{_strip_number(read_name(location) or '')}#ld{number}", context)
