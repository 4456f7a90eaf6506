"""Parses what only the printed form of Triton IR shows: attributes, and the targets of branches.

Triton's bindings give neither attributes of integer kind nor successors. MLIR prints one operation a line; operations
without regions are in the text in the order of the walk, so each can be matched with its line. A text that does not fit
gives no lines at all, and results that need them are unknown.
"""

import re
from collections.abc import Sequence
from math import prod

_OPERATION = re.compile(r'\s*(?:%[^"=]*=\s)?"?([a-z_]\w*\.[\w.]+)"?', re.ASCII)
_LABEL = re.compile(r"\s*\^bb(\d+)", re.ASCII)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"')
_TENSOR = re.compile(r"tensor<((?:\d+x)*)(.*?)(?:, [#@].*)?>\Z", re.DOTALL)
_WIDTHS = {"f64": 8, "f32": 4, "tf32": 4, "bf16": 2, "f16": 2, "index": 8}
_INTEGER = re.compile(r"[su]?i(\d{1,3})\Z", re.ASCII)


def align_lines(text: str, names: Sequence[str]) -> tuple[str, ...]:
    """For each operation without regions, by name in the order of the walk, its line; () where the text does not fit.

    A `scf.yield` without operands may be left out of the text and must be left out of `names`.
    """
    wanted = set(names)
    lines: list[str] = []
    for line in text.splitlines():
        match = _OPERATION.match(line)
        if match is None or match[1] not in wanted or line.endswith("{"):
            continue
        if match[1] != "scf.yield" or "%" in line:
            lines.append(line)
    if len(lines) != len(names):
        return ()
    for line, name in zip(lines, names, strict=True):
        match = _OPERATION.match(line)
        if match is None or match[1] != name:
            return ()
    return tuple(lines)


def parse_successors(line: str) -> tuple[int, ...]:
    """Numbers of the blocks that a branch names, in its order; `^bb3` is block 3 of the function, 0 its entry."""
    return tuple(int(number) for number in re.findall(r"\^bb(\d+)", _STRING.sub("", line)))


def parse_integer(line: str, name: str) -> int | None:
    """Returns the attribute `name = 3 : i32`."""
    match = re.search(rf"[{{, <]{name} = (-?\d+)(?: : \w+)?[,}}]", _STRING.sub("", line))
    return int(match[1]) if match else None


def parse_integers(line: str, name: str) -> tuple[int, ...] | None:
    """Returns the attribute `name = array<i32: 1, 0>`."""
    match = re.search(rf"[{{, <]{name} = array<i\d+(?:: ([-\d, ]+))?>", _STRING.sub("", line))
    if match is None:
        return None
    return tuple(int(number) for number in (match[1] or "").split(",") if number.strip())


def parse_word(line: str, name: str) -> str:
    """Returns the word after the operation's name: the predicate of a comparison, the axis of a program id."""
    match = re.search(rf"{re.escape(name)} (\w+)", line)
    return match[1] if match else ""


def parse_constant(line: str) -> int | None:
    """Returns the integer, or truth value as 0 or 1, of an `arith.constant`, that of each element of a tensor; None for
    others."""
    match = re.search(r"arith\.constant (?:\{.*?\} )?(?:dense<)?(-?\d+|true|false)>?(?: : |\s*$)", line)
    if match is None:
        return None
    return {"true": 1, "false": 0}.get(match[1]) if match[1] in ("true", "false") else int(match[1])


def parse_shape(type_text: str) -> tuple[int, ...]:
    """Sizes of a tensor type, () of anything else; of a descriptor or a block pointer those of its block."""
    start = type_text.find("tensor<")
    if start < 0:
        return ()
    match = re.match(r"tensor<((?:\d+x)*)", type_text[start:])
    return tuple(int(size) for size in match[1].split("x")[:-1]) if match else ()


def parse_element(type_text: str) -> str:
    """Returns the element type of a tensor type, such as `i32` or `!tt.ptr<f32>`; the type itself of anything else."""
    match = _TENSOR.match(type_text)
    return match[2] if match else type_text


def parse_width(element: str) -> int | None:
    """Bytes of an element of this type in memory; None where it is not known."""
    if element.startswith("!tt.ptr"):
        return 8
    if element in _WIDTHS:
        return _WIDTHS[element]
    if re.match(r"f8E\w+\Z", element):
        return 1
    match = _INTEGER.match(element)
    if match is None:
        return None
    bits = int(match[1])
    return 1 if bits < 8 else bits // 8 if bits % 8 == 0 else None


def parse_bits(element: str) -> int | None:
    """Bits of an integer type; None for another."""
    if element == "index":
        return 64
    match = _INTEGER.match(element)
    return int(match[1]) if match else None


def parse_pointee(type_text: str) -> str:
    """Returns the type of one element that a pointer, tensor of pointers, block pointer or descriptor points to."""
    element = parse_element(type_text)
    match = re.match(r"!tt\.(?:ptr|tensordesc)<(.*)>\Z", element, re.DOTALL)
    if match is None:
        return ""
    inner = re.sub(r", \d+\Z", "", match[1])
    return parse_element(inner)


def count_elements(shape: Sequence[int]) -> int:
    """Their product."""
    return prod(shape)
