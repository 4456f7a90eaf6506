"""Follows the accesses of a function of Triton IR through each of its arguments, and finds the lines that store.

The *roots* of a pointer are the arguments from which it may have been computed, or ELSEWHERE: an address that was
loaded from memory, made from an integer, or returned by an unknown operation. Roots flow forward, as a least fixpoint
over the values of a function, through pointer arithmetic, loops, branches and selects. Control flow is ignored: an
effect of one branch is an effect of the function.

A function is summarised in terms of its own arguments, and again when the summary of a function that it calls changes:
recursive functions are iterated to a fixpoint. A call replaces these arguments by the roots of the values that it
passes.

A write through ELSEWHERE may hit any buffer: the access through every pointer is then UNKNOWN. A read through ELSEWHERE
may read any buffer. An address that goes through an integer becomes ELSEWHERE, and so does an address to which such an
integer is added. An operation in no table makes the accesses through the roots of its operands UNKNOWN. It makes all
accesses UNKNOWN if it has no pointer operand, if it has regions, or if addresses became integers.

Not modelled: bounds and masks (a store that never happens counts), and address spaces.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from ligerdiag.effects.access import Access
from ligerdiag.effects.pointer_edges import (
    FIRST_OPERAND_ACCESS,
    NULL_POINTERS,
    REGION_OPERATIONS,
    TERMINATORS,
    compute_edges,
    find_address_integers,
    is_confined,
    is_free,
    touches_memory,
)
from ligerdiag.effects.ttir_module import Function, Operation, TtirModule
from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.dataflow import unite
from ligerdiag.model.findings import SourceLine

ELSEWHERE_BIT = 1
"""The bit of a root set that represents addresses of unknown origin; argument `i` has bit `i + 1`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointerSummary:
    """The arguments through which a function reads, writes, and has unknown effects.

    Each of these sets of arguments is an integer. Bit `i + 1` represents argument `i`; bit 0 represents addresses of unknown
    origin.
    """

    reads: int = 0
    writes: int = 0
    unknown: int = 0
    results: tuple[int, ...] = ()
    """For each result of the function, the arguments from which a returned pointer may come."""
    reasons: tuple[str, ...] = ()
    returns_integers: bool = False
    """Whether the function returns integers made from an address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentEffects:
    """How a kernel accesses memory through each argument of its entry function."""

    accesses: tuple[Access, ...]
    """The access through each argument; NONE for arguments that are not pointers."""
    is_pointer: tuple[bool, ...]
    reasons: tuple[str, ...]


def compute_argument_effects(module: TtirModule, entry: str) -> ArgumentEffects:
    """Returns how the function called `entry` accesses memory through its arguments.

    Raises ArtifactError if the module has no such function.
    """
    function = module.functions.get(entry)
    if function is None or not function.blocks:
        raise ArtifactError(f"the kernel's MLIR has no function `{entry}`")
    summary = compute_summaries(module, entry)[entry]
    is_pointer = tuple(argument in function.pointers for argument in function.arguments)
    return ArgumentEffects(
        accesses=tuple(
            _get_access(summary, 1 << (index + 1)) if pointer else Access.NONE
            for index, pointer in enumerate(is_pointer)
        ),
        is_pointer=is_pointer,
        reasons=summary.reasons,
    )


def _get_access(summary: PointerSummary, bit: int) -> Access:
    if (summary.unknown & (bit | ELSEWHERE_BIT)) or summary.writes & ELSEWHERE_BIT:
        return Access.UNKNOWN
    read = Access.READ if summary.reads & (bit | ELSEWHERE_BIT) else Access.NONE
    return read.cover(Access.WRITE) if summary.writes & bit else read


def compute_summaries(module: TtirModule, entry: str) -> dict[str, PointerSummary]:
    """Returns the summaries of the function called `entry`, and of each function that it may call, by name."""
    callees = {
        name: tuple(dict.fromkeys(op.callee for op in function.operations if op.name == "tt.call"))
        for name, function in module.functions.items()
    }
    order = _sort_callees_first(callees, entry)
    callers: dict[str, list[str]] = {name: [] for name in order}
    for name in order:
        for callee in callees[name]:
            if callee in callers:
                callers[callee].append(name)
    summaries = {name: PointerSummary() for name in order}
    queue = deque(order)
    queued = set(order)
    while queue:
        name = queue.popleft()
        queued.discard(name)
        summary = _summarise(module.functions[name], summaries)
        if summary != summaries[name]:
            summaries[name] = summary
            fresh = [caller for caller in callers[name] if caller not in queued]
            queue.extend(fresh)
            queued.update(fresh)
    return summaries


def _sort_callees_first(callees: dict[str, tuple[str, ...]], entry: str) -> list[str]:
    order: list[str] = []
    seen = {entry}
    stack: list[tuple[str, Iterator[str]]] = [(entry, iter(callees[entry]))]
    while stack:
        name, rest = stack[-1]
        callee = next((callee for callee in rest if callee in callees and callee not in seen), None)
        if callee is None:
            order.append(name)
            stack.pop()
        else:
            seen.add(callee)
            stack.append((callee, iter(callees[callee])))
    return order


def _summarise(function: Function, summaries: dict[str, PointerSummary]) -> PointerSummary:
    if not function.blocks:
        return PointerSummary(
            unknown=ELSEWHERE_BIT, reasons=(f"the function `{function.name}` has no body to analyse",)
        )
    integers = _find_integers(function, summaries)
    roots = compute_roots(function, summaries)
    address_in_integer = any(op.name == "tt.ptr_to_int" for op in function.operations)
    reads = writes = unknown = 0
    results: list[int] = []
    returns_integers = False
    reasons: list[str] = []
    for op in function.operations:
        first = roots.get(op.operands[0], ELSEWHERE_BIT) if op.operands else ELSEWHERE_BIT
        access = FIRST_OPERAND_ACCESS.get(op.name, Access.NONE)
        if access is not Access.NONE:
            reads |= first if access.reads else 0
            writes |= first if access.writes else 0
            if access.writes and first & ELSEWHERE_BIT:
                reasons.append(f"`{op.name}` in `{function.name}` writes through an address of unknown origin")
        elif op.name == "tt.call":
            callee = summaries.get(op.callee)
            if callee is None:
                unknown |= ELSEWHERE_BIT
                reasons.append(f"`{function.name}` calls `{op.callee}`, which the module does not define")
                continue
            actual = [roots.get(operand, ELSEWHERE_BIT) for operand in op.operands]
            reads |= _translate(callee.reads, actual)
            writes |= _translate(callee.writes, actual)
            unknown |= _translate(callee.unknown, actual)
            reasons.extend(callee.reasons)
            if not integers.isdisjoint(op.operands):
                unknown |= ELSEWHERE_BIT
                reasons.append(
                    f"`{op.callee}`, called in `{function.name}`, takes an address as an integer and may access any memory"
                )
        elif op.name == "tt.return":
            returns_integers = returns_integers or not integers.isdisjoint(op.operands)
            returned = [roots.get(operand, 0) for operand in op.operands]
            width = max(len(results), len(returned))
            results = [
                (results[index] if index < len(results) else 0) | (returned[index] if index < len(returned) else 0)
                for index in range(width)
            ]
        else:
            reason = _explain_unknown(op, function, address_in_integer=address_in_integer)
            if reason:
                pointers = [roots[operand] for operand in op.operands if operand in roots]
                is_contained = bool(pointers) and not op.regions and not address_in_integer and not op.assembly
                unknown |= unite(pointers) if is_contained else ELSEWHERE_BIT
                reasons.append(reason)
    return PointerSummary(
        reads=reads,
        writes=writes,
        unknown=unknown,
        results=tuple(results),
        reasons=tuple(dict.fromkeys(reasons)),
        returns_integers=returns_integers,
    )


def _explain_unknown(op: Operation, function: Function, *, address_in_integer: bool) -> str:
    """Returns why the effects of an operation are unknown; empty if they are known. address_in_integer: whether the
    function converts any pointer to an integer, so that inline assembly may take an address as an integer.
    """
    has_pointer = any(operand in function.pointers for operand in op.operands)
    where = f"`{op.name}` in `{function.name}`"
    if op.name in ("tt.elementwise_inline_asm", "tt.extern_elementwise"):
        if not op.is_pure and not is_confined(op.assembly):
            return f"{where} has unknown side effects"
        if has_pointer:
            return f"{where} takes a pointer and may access memory through it"
        if address_in_integer and op.operands:
            return f"{where} may take an address as an integer and access memory there"
        return f"{where} contains an instruction that may access any memory" if touches_memory(op.assembly) else ""
    if is_free(op.name) or op.name in REGION_OPERATIONS or op.name in TERMINATORS or op.name == "tt.int_to_ptr":
        return ""
    return f"{where} has unknown effects"


def compute_roots(function: Function, summaries: dict[str, PointerSummary]) -> dict[int, int]:
    """Returns the arguments from which each pointer of a function may come, by the pointer's value number.

    A set of arguments is an integer. Bit `i + 1` represents argument `i`; ELSEWHERE_BIT represents an address of unknown
    origin.
    """
    integers = _find_integers(function, summaries)
    pointers = function.pointers
    roots = dict.fromkeys(pointers, 0)
    for index, argument in enumerate(function.arguments):
        if argument in pointers:
            roots[argument] = 1 << (index + 1)
    targets: dict[int, list[int]] = {}
    for source, target in compute_edges(function):
        targets.setdefault(source, []).append(target)
    for op in function.operations:
        made = [result for result in op.results if result in pointers]
        if not made:
            continue
        if op.name == "tt.call":
            callee = summaries.get(op.callee)
            for index, result in enumerate(op.results):
                if result not in pointers:
                    continue
                if callee is None or index >= len(callee.results):
                    # The callee has no results in a recursion that is not followed yet, or if it has no body.
                    roots[result] |= ELSEWHERE_BIT if callee is None or callee.unknown & ELSEWHERE_BIT else 0
                    continue
                roots[result] |= callee.results[index] & ELSEWHERE_BIT
                for number, operand in enumerate(op.operands):
                    if not callee.results[index] & (1 << (number + 1)):
                        continue
                    if operand in pointers:
                        targets.setdefault(operand, []).append(result)
                    else:
                        roots[result] |= ELSEWHERE_BIT
        elif op.name not in REGION_OPERATIONS and op.name not in NULL_POINTERS:
            moved = op.name == "tt.addptr" and op.operands[1] in integers
            follows = not moved and is_free(op.name) and any(operand in pointers for operand in op.operands)
            if not follows:
                for result in made:
                    roots[result] |= ELSEWHERE_BIT
    queue = deque(value for value, mask in roots.items() if mask)
    while queue:
        source = queue.popleft()
        mask = roots[source]
        for target in targets.get(source, ()):
            if roots[target] | mask != roots[target]:
                roots[target] |= mask
                queue.append(target)
    return roots


def _find_integers(function: Function, summaries: dict[str, PointerSummary]) -> frozenset[int]:
    return find_address_integers(function, [name for name, one in summaries.items() if one.returns_integers])


def _translate(mask: int, actual: list[int]) -> int:
    """Returns a set of a callee's arguments, given as bits, as the set of the caller's arguments from which they may
    come.

    mask: the callee's set. actual: for each value that the call passes, the caller's arguments from which it may come.
    """
    result = mask & ELSEWHERE_BIT
    for index, roots in enumerate(actual):
        if mask & (1 << (index + 1)):
            result |= roots
    return result


_MOST_CALLS = 1_000
"""The most calls that are followed, each a function with the roots of its arguments. Beyond this limit lines are
missing, but none is wrong.
"""


def find_store_lines(module: TtirModule, entry: str) -> tuple[tuple[SourceLine, ...], ...]:
    """Returns the source lines that write through each argument of the function called `entry`, in source order. An argument
    without a known line has ().
    """
    summaries = compute_summaries(module, entry)
    arguments = module.functions[entry].arguments
    found: list[dict[SourceLine, None]] = [{} for _ in arguments]
    own = tuple(1 << (index + 1) for index, _ in enumerate(arguments))
    pending, seen = [(entry, own)], {(entry, own)}
    while pending:
        name, passed = pending.pop()
        function = module.functions[name]
        roots = compute_roots(function, summaries)
        for op in function.operations:
            if FIRST_OPERAND_ACCESS.get(op.name, Access.NONE).writes and op.operands and op.place is not None:
                mask = _translate_roots(roots.get(op.operands[0], 0), passed)
                for index, lines in enumerate(found):
                    if mask & (1 << (index + 1)):
                        lines[op.place] = None
            elif op.name == "tt.call" and op.callee in summaries:
                actual = tuple(_translate_roots(roots.get(operand, 0), passed) for operand in op.operands)
                if (op.callee, actual) not in seen and len(seen) < _MOST_CALLS:
                    seen.add((op.callee, actual))
                    pending.append((op.callee, actual))
    return tuple(tuple(sorted(lines, key=lambda place: (place.file, place.line))) for lines in found)


def _translate_roots(mask: int, passed: tuple[int, ...]) -> int:
    """Returns a set of a function's arguments, given as bits, as the set of the kernel's arguments from which they may
    come.

    mask: the function's set. passed: for each of its arguments, the kernel's. ELSEWHERE_BIT is left out.
    """
    result = 0
    for index, roots in enumerate(passed):
        if mask & (1 << (index + 1)):
            result |= roots
    return result & ~ELSEWHERE_BIT
