"""Represents the places to which values of a Mosaic GPU module point, and the accesses to buffers through these values.

A *place* is memory: a buffer of the call, the table of the buffers' addresses, bytes of the host function's stack frame,
memory of the kernel's own, or unknown memory.
"""

import re
from dataclasses import dataclass, field
from typing import Any

from ligerdiag.effects.access import Access

_OWN_MEMORY = re.compile(r"!llvm\.ptr<(?:3|6|7)>|memref<.*(?:workgroup|private|tmem|smem).*>", re.ASCII | re.DOTALL)
_ADDRESS = re.compile(r"!llvm\.ptr|memref<|index$|i64$", re.ASCII)
_POINTER = re.compile(r"!llvm\.ptr|memref<", re.ASCII)


@dataclass(frozen=True, slots=True)
class InBuffer:
    """A place in one of the call's buffers."""

    number: int


@dataclass(frozen=True, slots=True)
class Table:
    """A place in the table of buffer addresses that the host function receives. It has the address of buffer `entry`, which
    is None if unknown.
    """

    entry: int | None


@dataclass(frozen=True, slots=True)
class Slot:
    """Bytes of the host function's stack frame, or the kernel's copy of them. `offset` is None if unknown."""

    allocation: int
    offset: int | None


@dataclass(frozen=True, slots=True)
class Own:
    """Memory outside of the call's buffers: memory of the thread, or a constant of the module."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """An unknown place. An address points there if it was loaded from memory or made from a number."""


type Place = InBuffer | Table | Slot | Own | Foreign
type Places = frozenset[Place]
NOWHERE: Places = frozenset()


@dataclass(slots=True, kw_only=True, eq=False)
class PlaceFacts:
    """The facts found so far about a module: where values and addresses in the stack frame point, and how buffers are
    accessed.
    """

    count: int
    """Number of buffers of the call."""
    accesses: list[Access]
    reasons: list[str] = field(default_factory=list[str])
    changed: bool = False
    """Whether the current pass over the module, which began with `start_round`, has found a new place."""
    _points: dict[Any, Places] = field(default_factory=dict[Any, Places])
    _contents: dict[Slot, Places] = field(default_factory=dict[Slot, Places])
    _slots: dict[Any, int] = field(default_factory=dict[Any, int])

    def start_round(self) -> None:
        """Clears the accesses before each pass over the module. Passes are repeated until one finds no new place: a pass
        that finds a new place may miss accesses to it.
        """
        self.changed = False
        self.accesses = [Access.NONE] * self.count
        self.reasons.clear()

    def number_slot(self, value: Any) -> Slot:
        """Returns the bytes of the stack frame that the operation with result `value` allocates."""
        return Slot(self._slots.setdefault(value, len(self._slots)), 0)

    def get(self, value: Any) -> Places:
        return self._points.get(value, NOWHERE)

    def add(self, value: Any, places: Places) -> None:
        known = self.get(value)
        if not places <= known:
            self._points[value] = known | places
            self.changed = True

    def record(self, number: int, access: Access) -> None:
        if not 0 <= number < self.count:
            self.mark_unknown(range(self.count), "the kernel uses an address outside the call's buffers")
        else:
            self.accesses[number] = self.accesses[number].cover(access)

    def mark_unknown(self, numbers: Any, reason: str) -> None:
        for number in numbers:
            if 0 <= number < self.count:
                self.accesses[number] = Access.UNKNOWN
        if reason not in self.reasons:
            self.reasons.append(reason)

    def mark_all_unknown(self, reason: str) -> None:
        self.mark_unknown(range(self.count), reason)

    def find_buffers(self, places: Places) -> frozenset[int]:
        """Returns the numbers of the buffers that an operation can access through some places. It can access a buffer
        itself, through the table of addresses, or through a descriptor or address in the stack frame.
        """
        found = {place.number for place in places if isinstance(place, InBuffer)}
        for place in places:
            if isinstance(place, Table | Foreign):
                found |= set(range(self.count))
            elif isinstance(place, Slot):
                found |= {one.number for one in self.load(place) if isinstance(one, InBuffer)}
        return frozenset(found)

    def load(self, slot: Slot) -> Places:
        """Returns the places to which the descriptors and addresses in some bytes of the stack frame point."""
        return NOWHERE.union(
            *(
                places
                for other, places in self._contents.items()
                if other.allocation == slot.allocation
                and (slot.offset is None or other.offset is None or other.offset == slot.offset)
            )
        )

    def put(self, slot: Slot, places: Places) -> None:
        known = self._contents.get(slot, NOWHERE)
        if not places <= known:
            self._contents[slot] = known | places
            self.changed = True

    def has_unknown_origin(self, value: Any) -> bool:
        """Returns whether a value without a known place may be an address in a buffer, by its type."""
        return not self.get(value) and not _OWN_MEMORY.match(str(value.type))

    def find_addresses(self, values: list[Any]) -> list[Any]:
        """Returns the values that are addresses, or integers as wide as an address."""
        return [value for value in values if _ADDRESS.search(str(value.type))]

    def mark_operands_unknown(self, operands: list[Any], places: Places, reason: str) -> None:
        if reached := self.find_buffers(places):
            self.mark_unknown(reached, reason)
        for value in operands:
            if self.has_unknown_origin(value) and _POINTER.search(str(value.type)):
                self.mark_all_unknown(reason)


def make_foreign(value: Any) -> Places:
    """Returns the places to which a value of unknown origin may point: `Foreign` if it may be an address in a buffer.
    Returns no place if the value is no address, or an address in memory without buffers, such as shared memory.
    """
    kind = str(value.type)
    return frozenset({Foreign()}) if _POINTER.search(kind) and not _OWN_MEMORY.match(kind) else NOWHERE


def pass_through_regions(operation: Any, facts: PlaceFacts) -> None:
    """Records where the values of an operation with regions may point. The arguments of a region may point where the
    operation's operands point; the operation's results may point where the yielded values point.
    """
    name: str = operation.name
    if not operation.regions or name in ("builtin.module", "func.func", "gpu.launch"):
        return
    operands = list(operation.operands)
    blocks = [block for region in operation.regions for block in region.blocks]
    yields = [list(list(block.operations)[-1].operation.operands) for block in blocks if list(block.operations)]
    results = list(operation.results)
    if name == "scf.for" and len(operands) == len(results) + 3 and len(blocks) == 1:
        carried = list(blocks[0].arguments)[1:]
        for argument, first, result, last in zip(carried, operands[3:], results, yields[0], strict=True):
            places = facts.get(first) | facts.get(last)
            facts.add(argument, places)
            facts.add(result, places)
        return
    if name in ("scf.if", "scf.index_switch") and all(len(one) == len(results) for one in yields):
        for number, result in enumerate(results):
            facts.add(result, NOWHERE.union(*(facts.get(one[number]) for one in yields)))
        return
    places = NOWHERE.union(*(facts.get(value) for value in (*operands, *(one for some in yields for one in some))))
    for value in (*results, *(argument for block in blocks for argument in block.arguments)):
        facts.add(value, places)
