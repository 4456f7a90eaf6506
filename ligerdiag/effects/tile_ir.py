"""Computes the effects of a cuTile call (`cutile_launch`) from the Tile IR that its compiler keeps beside the machine code.

The call's backend_config is a dictionary. `cubin_code` is an ELF file with the kernel's machine code; its sections
`.nv.tileir.debug_txt.*` hold the text of the kernel's Tile IR, one operation per line. `function_name` is the name of
the kernel, `NAME_K<convention>_<types of the parameters>`. `buffer_ids` lists, for each array or scalar that the launch
passes, the number of the call's buffer (operands before outputs), or a larger number for a scalar. The kernel's
function takes a pointer for each array, followed by sizes and strides. An array that the user wraps in `InputOutput`
has only one pointer, for its operand; the output that aliases this operand has no pointer.

A value of Tile IR may be an address: a pointer, or a view of memory. An address *points to* the arguments from which it was
made, the union over all of them. Names are visible to the end of their region. Control flow, masks and bounds are ignored.
All accesses are UNKNOWN if an address is loaded, stored, made from an integer, passed through a loop or branch, or passed to
an operation that is missing here. They are also UNKNOWN if a line is no operation in the short form, such as MLIR's generic
form, a wrapped line, or the head of a block.
"""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

from ligerdiag.effects.access import Access, CallEffects, compute_plain_use, create_unknown_effects
from ligerdiag.effects.payload import parse_integer_attributes, parse_string_attributes
from ligerdiag.errors import ArtifactError

_SECTION = b".nv.tileir.debug_txt"
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_VALUE = re.compile(r"%[\w$.-]+")
_OPERATION = re.compile(r"(?:(?P<results>%[^=\n]*?) = )?(?P<name>[a-z_][\w.]*)(?P<rest>.*)", re.ASCII)
_ARGUMENT = re.compile(r"(?P<name>%[\w$.-]+): (?P<type>[^%]+?)(?:, (?=%)|$)", re.ASCII)
_ADDRESS_TYPES = ("ptr<", "view<")
_MANGLED = re.compile(r"_K[a-z]\d+(?:_.*)?$", re.ASCII | re.DOTALL)
_FRAME = frozenset({"", "}", "} else {"})
"""Lines inside a kernel, without indentation, that are no operations."""
_DEEPEST = 100
"""The most regions around an operation."""

_DERIVES = frozenset({
    "assume", "broadcast", "cat", "extract", "make_gather_scatter_view", "make_partition_view", "make_strided_view",
    "make_tensor_view", "offset", "permute", "ptr_to_ptr", "reshape", "select",
})  # fmt: skip
"""Operations whose result is an address if an operand is one, and points to the same arguments."""
_ACCESSES = {
    "load_view_tko": Access.READ,
    "load_ptr_tko": Access.READ,
    "store_view_tko": Access.WRITE,
    "store_ptr_tko": Access.WRITE,
    "atomic_rmw_tko": Access.READ_WRITE,
    "atomic_cas_tko": Access.READ_WRITE,
    "atomic_red_view_tko": Access.READ_WRITE,
}
_MAKES_OWN = frozenset({"alloca", "get_global"})
"""Operations that return the address of memory that is in none of the call's buffers."""
_READS_SHAPE = frozenset({"get_index_space_shape", "get_tensor_shape"})
"""Operations that take an address, and access no memory."""
_NO_DETAILS = "ligerdiag does not determine which elements a kernel in Tile IR accesses"


def compute_tile_effects(*, target: str, backend_config: bytes, operands: int, outputs: int) -> CallEffects:
    """Returns the effects of a cuTile call on its buffers. They are UNKNOWN, with a reason, if its Tile IR cannot be
    followed.
    """
    kernel = target
    try:
        attributes, numbers = parse_string_attributes(backend_config), parse_integer_attributes(backend_config)
        symbol = attributes.get("function_name", b"").decode("utf-8", "replace")
        kernel = _MANGLED.sub("", symbol) or target
        buffers = [number for number in numbers.get("buffer_ids", ()) if 0 <= number < operands + outputs]
        text = _find_text(attributes.get("cubin_code", b""), symbol)
        accesses = compute_tile_accesses(text, symbol)
        if len(accesses) != len(buffers):
            raise ArtifactError(f"`{kernel}` takes {len(accesses)} arrays, but the call passes {len(buffers)}")
    except ArtifactError as error:
        reason = f"{error}; declare the kernel's writes under [tool.ligerdiag.effects]"
        return create_unknown_effects(kernel=kernel, operands=operands, outputs=outputs, reason=reason)
    found = [Access.NONE] * (operands + outputs)
    for number, access in zip(buffers, accesses, strict=True):
        found[number] = found[number].cover(access)
    uses = [
        compute_plain_use(access, _NO_DETAILS, is_uninitialised=number >= operands)
        for number, access in enumerate(found)
    ]
    grid = [numbers.get(f"grid_{axis}", (-1,))[0] for axis in "xyz"]
    return CallEffects(
        kernel=kernel,
        operands=tuple(found[:operands]),
        outputs=tuple(found[operands:]),
        grid=(grid[0], grid[1], grid[2]),
        operand_uses=tuple(uses[:operands]),
        output_uses=tuple(uses[operands:]),
    )


def _find_text(cubin: bytes, symbol: str) -> str:
    """Returns the Tile IR in which the kernel `symbol` is defined."""
    entry = f"entry @{symbol}(".encode()
    texts = [text for text in find_elf_sections(cubin, _SECTION) if entry in text]
    if not symbol or len(texts) != 1:
        raise ArtifactError("the machine code of the kernel comes without its Tile IR")
    return texts[0].decode("utf-8", "replace")


def compute_tile_accesses(text: str, entry: str) -> tuple[Access, ...]:
    """Returns how the kernel `entry` accesses memory through each of its pointer arguments, in their order.

    text: the Tile IR of the kernel's module. Raises ArtifactError, with the reason, if it is unknown which memory an
    operation accesses.
    """
    lines = iter(_STRING.sub('""', text).splitlines())
    head = next((line for line in lines if line.lstrip().startswith(f"entry @{entry}(")), None)
    arguments, closed, _ = (head or "").partition("(")[2].rpartition(")")
    if not closed:
        raise ArtifactError(f"the Tile IR has no kernel `{entry}`")
    flow = _Flow()
    for match in _ARGUMENT.finditer(arguments):
        if _is_address(match["type"]):
            flow.add_argument(match["name"])
    flow.follow(lines)
    return tuple(flow.accesses)


@dataclass(slots=True)
class _Flow:
    """Follows the addresses of one kernel through its operations, in the order of the text."""

    accesses: list[Access] = field(default_factory=list[Access])
    """The access through each pointer argument so far."""
    scopes: list[dict[str, frozenset[int]]] = field(default_factory=lambda: [dict[str, frozenset[int]]()])
    """For each open region, outermost first, the addresses that it defines, with the arguments to which they point."""

    def add_argument(self, name: str) -> None:
        self.scopes[0][name] = frozenset({len(self.accesses)})
        self.accesses.append(Access.NONE)

    def follow(self, lines: Iterator[str]) -> None:
        """Visits the operations up to the end of the kernel. lines: the lines of the Tile IR after the kernel's head."""
        for line in map(str.strip, lines):
            opens = line.endswith("{")
            match = _OPERATION.match(line)
            if line not in _FRAME and (match is None or line.count("{") - line.count("}") != opens):
                raise ArtifactError("a line in the Tile IR has a form that ligerdiag does not read")
            if line.startswith("}"):
                self.scopes.pop()
                if not self.scopes:
                    return
            if match is not None:
                self._visit(match["name"], match["results"] or "", match["rest"], opens=opens)
            if opens:
                self.scopes.append({})
            if len(self.scopes) > _DEEPEST:
                raise ArtifactError("the Tile IR nests too deeply")
        raise ArtifactError("the Tile IR of the kernel is truncated")

    def _visit(self, name: str, results: str, rest: str, *, opens: bool) -> None:
        """Adds what one operation does. rest: the text after its name. opens: whether a region follows."""
        addresses = [pointees for value in _VALUE.findall(rest) if (pointees := self._find(value)) is not None]
        returned = rest.rpartition("->")[2] if "->" in rest else rest.rpartition(" : ")[2]
        returns_address = bool(results) and _is_address(returned)
        if name in _ACCESSES:
            if len(addresses) != 1 or returns_address:
                raise ArtifactError(
                    f"`{name}` in the Tile IR accesses memory through an address that cannot be followed"
                )
            for number in addresses[0]:
                self.accesses[number] = self.accesses[number].cover(_ACCESSES[name])
        elif name in _MAKES_OWN:
            self._define(results, frozenset())
        elif name in _DERIVES and not opens:
            if addresses:
                self._define(results, frozenset[int]().union(*addresses))
            elif returns_address:
                raise ArtifactError(f"`{name}` in the Tile IR makes an address of unknown origin")
        elif name not in _READS_SHAPE and (addresses or _is_address(rest)):
            raise ArtifactError(f"`{name}` in the Tile IR uses an address in a way that ligerdiag does not follow")

    def _find(self, value: str) -> frozenset[int] | None:
        """Returns the arguments to which a value points; None if it is no address."""
        return next((scope[value] for scope in reversed(self.scopes) if value in scope), None)

    def _define(self, results: str, pointees: frozenset[int]) -> None:
        for result in _VALUE.findall(results):
            self.scopes[-1][result] = pointees


def _is_address(text: str) -> bool:
    return any(kind in text for kind in _ADDRESS_TYPES)


_ELF_MAGIC = b"\x7fELF\x02\x01"
"""The first bytes of a 64-bit, little-endian ELF file."""
_ELF_HEADER = struct.Struct("<40xQ10xHHH")
"""Offset of the section headers; bytes of each, their number, and the number of the section with their names."""
_SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
_NO_BYTES = 8
"""Type of a section that has a size but no bytes in the file."""
_MOST_SECTIONS = 10_000


def find_elf_sections(data: bytes, prefix: bytes) -> tuple[bytes, ...]:
    """Returns the contents of the sections whose name starts with `prefix`, in the order of the file.

    Raises ArtifactError if `data` is not a 64-bit, little-endian ELF file, or if a section lies outside of `data`.
    """
    if not data.startswith(_ELF_MAGIC) or len(data) < _ELF_HEADER.size:
        raise ArtifactError("the machine code is not an ELF file")
    start, size, count, names = cast(tuple[int, int, int, int], _ELF_HEADER.unpack_from(data))
    if size != _SECTION_HEADER.size or not names < count <= _MOST_SECTIONS or start + size * count > len(data):
        raise ArtifactError("the ELF file of the machine code has no valid table of sections")
    headers = [_read_section_header(data, start + size * number) for number in range(count)]
    table = _cut_section(data, headers[names])
    found: list[bytes] = []
    for header in headers:
        if table.startswith(prefix, header[0]) and header[1] != _NO_BYTES:
            found.append(_cut_section(data, header))
    return tuple(found)


def _read_section_header(data: bytes, place: int) -> tuple[int, ...]:
    return _SECTION_HEADER.unpack_from(data, place)


def _cut_section(data: bytes, header: tuple[int, ...]) -> bytes:
    offset, size = header[4], header[5]
    if offset + size > len(data):
        raise ArtifactError("a section of the machine code lies outside of its ELF file")
    return data[offset : offset + size]
