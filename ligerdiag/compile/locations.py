"""Worker side: reads and sets MLIR locations with the Python bindings of MLIR that this jaxlib has.

1. Since jaxlib 0.9 or so a location is an object with a class and an operation's location can be set.
2. Before, a location can only be printed and parsed, and an operation keeps the one that it was made with: another
   operation is made in its place.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from jaxlib.mlir import ir

_BINDINGS: Any = ir
_HAS_CLASSES = hasattr(_BINDINGS, "NameLoc")

_STRING = r'"(?:[^"\\]|\\.)*"'
_NAME = re.compile(rf"loc\(({_STRING})(?!:\d)")
_LINE = re.compile(rf"({_STRING}):(\d+):\d+")
_ESCAPE = re.compile(rb'\\([0-9A-Fa-f]{2}|\\|")')


def read_name(location: Any) -> str | None:
    """Returns the name of a named location; None for any other."""
    if _HAS_CLASSES:
        return location.name_str if isinstance(location, _BINDINGS.NameLoc) else None
    found = _NAME.match(str(location))
    return None if found is None else _read_string(found[1])


def rename_location(location: Any, name: str, context: Any) -> Any:
    """Returns the location under this name: in the place of the name that it had, or around it."""
    if _HAS_CLASSES:
        child = location.child_loc if isinstance(location, _BINDINGS.NameLoc) else location
        return ir.Location.name(name, childLoc=child, context=context)
    found = _NAME.match(text := str(location))
    if found is None:
        return ir.Location.name(name, childLoc=location, context=context)
    attribute = ir.Attribute.parse(f"loc({_print_string(name)}{text[found.end() :]}", context)
    return ir.Location.from_attr(attribute, context)


def iterate_lines(location: Any) -> Iterator[tuple[str, int]]:
    """(file, line) of the frames, innermost first."""
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


def put_location(operation: Any, location: Any) -> None:
    """Gives the operation this location. The handle is not to be used afterwards: it may stand for an erased operation."""
    try:
        operation.location = location
    except AttributeError:
        make_anew(operation, location)


def make_anew(
    operation: Any, location: Any, *, more_operands: Sequence[Any] = (), more_results: Sequence[Any] = ()
) -> Any:
    """Replaces an operation by one like it, with further operands and result types after its own."""
    operations: Any = ir.Operation
    attributes = operation.attributes  # a loop over it gives names or named attributes, by the version
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
    """Returns the text that MLIR printed in quotes: bytes that are not printable are escaped by two hexadecimal
    digits."""

    def unescape(match: re.Match[bytes]) -> bytes:
        return match[1] if match[1] in (b"\\", b'"') else bytes.fromhex(match[1].decode())

    return _ESCAPE.sub(unescape, literal[1:-1].encode()).decode(errors="replace")


def _print_string(text: str) -> str:
    printable = range(0x20, 0x7F)
    escaped = "".join(
        chr(byte) if byte in printable and byte not in b'"\\' else f"\\{byte:02X}" for byte in text.encode()
    )
    return f'"{escaped}"'
