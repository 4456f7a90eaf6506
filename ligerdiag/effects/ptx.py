"""Follows the pointers of a kernel's PTX, if its payload has no IR, to find the parameters through which it may write.

A statement is an opcode and its operands; it sets the registers of its first operand, or of its first group in braces.
Guards, labels and order are ignored: a register may hold any of its values everywhere. A register holds the pointers
from which its value was computed: a `ld.param` gives it a pointer, and any operation passes pointers on from register
to register. Values loaded from memory, and parameters that are numbers, are not pointers.

`st`, `red`, `atom`, and bulk copies to global memory write through the pointers in their address. An address without a
pointer, a tensor map, a function call, and an unknown operation on memory could write anywhere. An access to shared or
local memory, or to a parameter of a call, writes through no pointer.

Names of opcodes and state spaces: PTX ISA 9.0, chapters 5 and 9.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from ligerdiag.artifacts.ptx_text import cut_entry
from ligerdiag.errors import ArtifactError

_ENTRY = re.compile(r"\.entry\s+[\w$]+\s*\((?P<parameters>[^)]*)\)[^{]*\{(?P<body>.*)\}", re.DOTALL)
_PARAMETER = re.compile(r"(?<![\w$])([\w$]++)\s*+(?:\[\d+\]\s*+)?$")
_STATEMENT = re.compile(r"^(?:[\s{}]|[\w$]++:|@!?%?[\w$]++)*+(?P<opcode>[a-z][\w.:]*)\s*(?P<operands>.*)$", re.DOTALL)
_NAME = re.compile(r"[%A-Za-z_$][\w$]*")
_ADDRESS = re.compile(r"\[([^\[\]]*)\]")
_OFFSET = re.compile(r"[\w$]+\s*(?:\+\s*(\d+))?", re.ASCII)
_WIDTH = re.compile(r"(?:\.v(?P<count>\d))?\.[bsuf](?P<bits>\d+)$", re.ASCII)
_WRITES = ("st", "red", "atom")
_ELSEWHERE = frozenset({"shared", "shared::cta", "shared::cluster", "local", "param"})
_ONLY_READS = (
    "ld", "ldu", "prefetch", "prefetchu", "ldmatrix", "stmatrix", "mbarrier", "applypriority", "wgmma", "tcgen05",
)  # fmt: skip
"""Operations that write no global memory, whatever their addresses; the tensor cores' operations use shared memory."""
_MOST_STEPS = 5_000_000
"""The most pointers to pass on from register to register: some seconds. A kernel of 10 000 instructions needs about as
many steps for each pointer that it takes.
"""
_UNREADABLE = "?"
"""The opcode of a statement that may access memory and has no opcode that can be read."""
_HARMLESS_CALLS = re.compile(r"\b(?:vprintf|__assertfail)\b")


@dataclass(frozen=True, slots=True)
class PtxWrites:
    """The parameters through which a kernel may write, by its PTX."""

    parameters: frozenset[int]
    """Numbers of the parameters through which the kernel may write."""
    reason: str = ""
    """Why the kernel may write anywhere; empty if it writes only through `parameters`."""


def find_ptx_writes(
    ptx: str, entry: str, parameters: Sequence[bool], *, addresses: Sequence[Sequence[int]] | None = None
) -> PtxWrites:
    """Returns the parameters of the PTX function `entry` through which the function may write.

    parameters: whether each parameter in the payload is a pointer. Parameters that the compiler appends count as pointers.
    addresses: the byte offsets of the addresses in each parameter: (0, 16) for a structure with a pointer at byte 0 and at
    byte 16. None if every pointer parameter is one address.
    """
    try:
        function = _ENTRY.fullmatch(cut_entry(ptx, entry))
    except ArtifactError as error:
        return PtxWrites(frozenset(), str(error))
    if function is None:
        return PtxWrites(frozenset(), f"the parameters of `{entry}` in its PTX cannot be read")
    names = [match[1] for part in function["parameters"].split(",") if (match := _PARAMETER.search(part.strip()))]
    statements = tuple(_iterate_statements(function["body"]))
    if len(names) < len(parameters):
        return PtxWrites(
            frozenset(), f"`{entry}` takes {len(names)} parameters in its PTX, but the call passes {len(parameters)}"
        )
    numbers = range(len(names))
    pointers = {names[number]: number for number in numbers if number >= len(parameters) or parameters[number]}
    offsets = {names[number]: tuple(one) for number, one in enumerate(addresses or ())}
    try:
        pointees = _follow(statements, pointers, offsets)
    except ArtifactError as error:
        return PtxWrites(frozenset(), str(error))
    written: set[int] = set()
    for opcode, operands in statements:
        through, reason = _find_written(opcode, operands, pointees)
        if reason:
            return PtxWrites(frozenset(), f"`{opcode}` in its PTX {reason}")
        written |= through
    return PtxWrites(frozenset(written))


def _iterate_statements(body: str) -> Iterator[tuple[str, str]]:
    for text in body.split(";"):
        match = _STATEMENT.match(text)
        if match is not None:
            yield match["opcode"], match["operands"].strip()
        elif "[" in text:
            yield _UNREADABLE, text


def _follow(
    statements: tuple[tuple[str, str], ...], parameters: dict[str, int], offsets: Mapping[str, Sequence[int]]
) -> dict[str, frozenset[int]]:
    """Returns, for each register, the numbers of the parameters whose addresses it may hold.

    statements: each as (opcode, operands). parameters: from the name to the number of each parameter that is a pointer.
    offsets: from the name of a parameter that is a structure to the offsets of its addresses. Raises ArtifactError if that
    takes too many steps.
    """
    pointees: dict[str, frozenset[int]] = {}
    users: dict[str, list[tuple[str, ...]]] = {}
    """For each register, the registers whose values are computed from it, by statement."""
    for opcode, operands in statements:
        target, sources = _split(operands)
        if opcode.startswith("ld.param"):
            address = _ADDRESS.search(sources)
            name = _NAME.search(address[1]) if address else None
            number = parameters.get(name[0]) if name else None
            if address and name and name[0] in offsets and not _loads_address(opcode, address[1], offsets[name[0]]):
                number = None
            for name in _NAME.findall(target):
                pointees[name] = pointees.get(name, frozenset()) | ({number} if number is not None else frozenset())
        elif not opcode.startswith(("ld", "atom", "call", "st", "red")):
            targets = tuple(_NAME.findall(target))
            for name in set(_NAME.findall(sources)):
                users.setdefault(name, []).append(targets)
    changed, steps = list(pointees), 0
    while changed:
        source = changed.pop()
        found = pointees[source]
        for name in chain.from_iterable(users.get(source, ())):
            steps += len(found)
            if steps > _MOST_STEPS:
                raise ArtifactError("its PTX has too many pointers in too many registers to follow them")
            known = pointees.get(name, frozenset())
            if not found <= known:
                pointees[name] = known | found
                changed.append(name)
    return pointees


def _loads_address(opcode: str, address: str, offsets: Sequence[int]) -> bool:
    """Returns whether a load from a parameter may load a part of one of the addresses at these offsets."""
    place = _OFFSET.fullmatch(address.strip())
    width = _WIDTH.search(opcode)
    if place is None or width is None:
        return True
    start = int(place[1] or 0)
    end = start + int(width["bits"]) // 8 * int(width["count"] or 1)
    return any(start < offset + 8 and offset < end for offset in offsets)


def _split(operands: str) -> tuple[str, str]:
    """Returns a statement's first operand, or its first group in braces, and the rest of its operands."""
    if operands.startswith("{"):
        group, _, rest = operands[1:].partition("}")
        return group, rest
    target, _, rest = operands.partition(",")
    return target, rest


def _find_written(opcode: str, operands: str, pointees: dict[str, frozenset[int]]) -> tuple[frozenset[int], str]:
    """Returns the numbers of the parameters through which a statement may write, and the reason if it may write anywhere,
    else an empty text.

    pointees: for each register, the parameters whose addresses it may hold (see `_follow`).
    """
    parts = opcode.split(".")
    if parts[0] == "call":
        return frozenset(), "" if _HARMLESS_CALLS.search(operands) else "calls a function, which may write anywhere"
    if opcode == _UNREADABLE:
        return frozenset(), "is an unknown instruction"
    address = _ADDRESS.search(operands)
    if parts[0] in _ONLY_READS or address is None:
        return frozenset(), ""
    if parts[0] == "cp" or opcode.startswith("cp.reduce"):
        space = next((part for part in parts if part == "global" or part in _ELSEWHERE), "")
        if space != "global":  # the first space is the destination
            return frozenset(), "" if space else "copies to an unknown state space"
        if "tensor" in parts:
            return frozenset(), "stores through a tensor map"
    elif parts[0] in _WRITES:
        if _ELSEWHERE & set(parts):
            return frozenset(), ""
    else:
        return frozenset(), "is an unknown instruction"
    through = frozenset[int]().union(*(pointees.get(name, frozenset()) for name in _NAME.findall(address[1])))
    return through, "" if through else "stores to an address that comes from no parameter"
