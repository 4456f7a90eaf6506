"""Follows the pointers of a Mosaic GPU module from the kernel's buffers to the operations that reach memory.

1. The host function takes a table with the address of each buffer, operands before outputs: entry `k` is loaded from it.
2. A TMA descriptor is made by the host in a place of its stack frame; the launch captures the loaded bytes, and a copy
   through an address in them is a copy through the descriptor that was made at that offset.
3. A value points to a set of places, the union over all ways to it; loops are followed to a fixpoint.
4. What is written may be written, not must: masks, bounds and trip counts are ignored.
5. An address of which nothing is known could be any buffer's: then all of them are UNKNOWN.
"""

import re
from dataclasses import dataclass, field
from typing import Any

from ligerdiag.effects.access import Access
from ligerdiag.effects.mosaic.operations import (
    DESCRIPTOR_READS,
    DESCRIPTOR_UPDATES,
    DESCRIPTOR_WRITES,
    INITIALISER,
    READS,
    UPDATES,
    WRITES,
    AsmKind,
    classify_inline_assembly,
    derives_pointers,
    is_harmless,
)
from ligerdiag.errors import ArtifactError

ARGUMENT = "mosaic_gpu.from_kernel_arg_idx"
_ROUNDS = 100
_NOT_CONSTANT = -(2**31)
"""Stands in a getelementptr for an index that is a value."""
_OWN_MEMORY = re.compile(r"!llvm\.ptr<(?:3|6|7)>|memref<.*(?:workgroup|private|tmem|smem).*>", re.ASCII | re.DOTALL)
_ADDRESS = re.compile(r"!llvm\.ptr|memref<|index$|i64$", re.ASCII)
_POINTER = re.compile(r"!llvm\.ptr|memref<", re.ASCII)
_ACCESS = {AsmKind.READ: Access.READ, AsmKind.WRITE: Access.WRITE, AsmKind.UPDATE: Access.READ_WRITE}


@dataclass(frozen=True, slots=True)
class _Buffer:
    """Inside of one of the call's buffers."""

    number: int


@dataclass(frozen=True, slots=True)
class _Table:
    """An entry of the table of addresses."""

    entry: int | None


@dataclass(frozen=True, slots=True)
class _Slot:
    """Bytes of the host's stack frame, or their copy by value. `offset` is None where it is not known."""

    allocation: int
    offset: int | None


@dataclass(frozen=True, slots=True)
class _Own:
    """Memory that is no buffer's: the thread's, or a constant of the module."""


@dataclass(frozen=True, slots=True)
class _Foreign:
    """Anywhere: an address that was loaded from memory or made of a number."""


type _Place = _Buffer | _Table | _Slot | _Own | _Foreign
type _Places = frozenset[_Place]
_NOWHERE: _Places = frozenset()


@dataclass(slots=True, kw_only=True, eq=False)
class ModuleFlow:
    """What the module does to each buffer; filled in by `follow`."""

    count: int
    """Number of buffers."""
    accesses: list[Access]
    reasons: list[str] = field(default_factory=list[str])
    _points: dict[Any, _Places] = field(default_factory=dict[Any, _Places])
    _contents: dict[_Slot, _Places] = field(default_factory=dict[_Slot, _Places])
    _slots: dict[Any, int] = field(default_factory=dict[Any, int])
    _changed: bool = False

    def follow(self, entry: Any) -> None:
        """Follows the host function `entry`; raises ArtifactError where it has not the shape of one."""
        arguments = list(entry.regions[0].blocks[0].arguments)
        if len(arguments) != 2:
            raise ArtifactError("the kernel's host function does not take a stream and a table of buffers")
        self._add(arguments[1], frozenset({_Table(0)}))
        for _ in range(_ROUNDS):
            self._changed = False
            self.accesses = [Access.NONE] * self.count  # what a round finds with half of the places is no answer
            self.reasons.clear()
            self._walk(entry)
            if not self._changed:
                return
        self._lose(range(self.count), "its loops reach no fixpoint")

    # -- facts

    def _get(self, value: Any) -> _Places:
        return self._points.get(value, _NOWHERE)

    def _add(self, value: Any, places: _Places) -> None:
        known = self._get(value)
        if not places <= known:
            self._points[value] = known | places
            self._changed = True

    def _record(self, number: int, access: Access) -> None:
        if not 0 <= number < self.count:
            self._lose(range(self.count), "an address of no buffer of the call is used")
        else:
            self.accesses[number] = self.accesses[number].cover(access)

    def _lose(self, numbers: Any, reason: str) -> None:
        for number in numbers:
            if 0 <= number < self.count:
                self.accesses[number] = Access.UNKNOWN
        if reason not in self.reasons:
            self.reasons.append(reason)

    def _lose_all(self, reason: str) -> None:
        self._lose(range(self.count), reason)

    def _find_buffers(self, places: _Places) -> frozenset[int]:
        """Buffers that can be reached from the places: directly, and through descriptors and the table."""
        found = {place.number for place in places if isinstance(place, _Buffer)}
        for place in places:
            if isinstance(place, _Table | _Foreign):
                found |= set(range(self.count))
            elif isinstance(place, _Slot):
                found |= {one.number for one in self._load(place) if isinstance(one, _Buffer)}
        return frozenset(found)

    def _load(self, slot: _Slot) -> _Places:
        """What a descriptor in the slot describes, or an address that was put there points to."""
        return _NOWHERE.union(
            *(
                places
                for other, places in self._contents.items()
                if other.allocation == slot.allocation
                and (slot.offset is None or other.offset is None or other.offset == slot.offset)
            )
        )

    # -- operations

    def _walk(self, operation: Any) -> None:
        self._visit(operation)
        for region in operation.regions:
            for block in region.blocks:
                for inner in block.operations:
                    self._walk(inner.operation)
        self._pass_on(operation)

    def _visit(self, operation: Any) -> None:
        name: str = operation.name
        operands = list(operation.operands)
        places = _NOWHERE.union(*(self._get(value) for value in operands))
        if name in READS:
            if operation.results and not any(list(result.uses) for result in operation.results):
                return  # Pallas loads what it is about to overwrite, and drops it.
            self._access(operands[READS[name] : READS[name] + 1], Access.READ, name)
        elif name in UPDATES:
            self._access(operands[UPDATES[name] : UPDATES[name] + 1], Access.READ_WRITE, name)
        elif name in WRITES:
            self._write(operands, WRITES[name], name)
        elif name == "memref.copy":
            self._access(operands[:1], Access.READ, name)
            self._access(operands[1:], Access.WRITE, name)
        elif name == "llvm.load":
            self._load_pointer(operation, operands[0])
        elif name in ("llvm.alloca", "memref.alloca"):
            number = self._slots.setdefault(operation.results[0], len(self._slots))
            own = name == "memref.alloca"
            self._add(operation.results[0], frozenset({_Own() if own else _Slot(number, 0)}))
        elif name in ("llvm.mlir.addressof", "memref.get_global"):
            self._add(operation.results[0], frozenset({_Own()}))
        elif name == "func.call":
            self._call(operation, operands, places)
        elif name == "llvm.inline_asm":
            self._assemble(operation, operands, places)
        elif name in DESCRIPTOR_READS | DESCRIPTOR_WRITES | DESCRIPTOR_UPDATES:
            self._copy(name, operands, places)
        elif name == "llvm.getelementptr":
            self._add(operation.results[0], self._offset(operation, operands))
        elif name == "memref.extract_strided_metadata":
            self._add(operation.results[0], places)
        elif derives_pointers(name):
            foreign = name == "llvm.inttoptr" and not places
            for result in operation.results:
                self._add(result, _make_foreign(result) if foreign else places)
            if ARGUMENT in operation.attributes:
                self._check_argument(operation, places)
        elif not is_harmless(name):
            self._lose_operands(operands, places, f"`{name}` is not known to leave its operands alone")

    def _access(self, addresses: list[Any], access: Access, name: str) -> None:
        if not addresses:
            self._lose_all(f"`{name}` has no address")
        for address in addresses:
            places = self._get(address)
            if not places and not _OWN_MEMORY.match(str(address.type)):
                self._lose_all(f"`{name}` uses an address that was not followed")
            for place in places:
                match place:
                    case _Buffer(number):
                        self._record(number, access)
                    case _Foreign():
                        self._lose_all(f"`{name}` uses an address that was not followed")
                    case _Table():
                        if access.writes:
                            self._lose_all(f"`{name}` writes the table of buffers")
                    case _:
                        pass

    def _write(self, operands: list[Any], address: int, name: str) -> None:
        self._access(operands[address : address + 1], Access.WRITE, name)
        stored = _NOWHERE.union(*(self._get(value) for number, value in enumerate(operands) if number != address))
        if name not in ("llvm.store", "memref.store"):
            return  # Indices may come from an address; vectors of addresses are not made.
        stored = _NOWHERE.union(self._get(operands[0])) - {_Own()}
        if not stored:
            return
        into = self._get(operands[address])
        slots = [place for place in into if isinstance(place, _Slot)]
        if not slots or len(slots) != len(into):
            self._lose(self._find_buffers(stored), f"`{name}` puts an address into memory")
            return
        for slot in slots:
            self._put(slot, stored)

    def _put(self, slot: _Slot, places: _Places) -> None:
        known = self._contents.get(slot, _NOWHERE)
        if not places <= known:
            self._contents[slot] = known | places
            self._changed = True

    def _load_pointer(self, operation: Any, address: Any) -> None:
        self._access([address], Access.READ, "llvm.load")
        (result,) = operation.results
        for place in self._get(address):
            match place:
                case _Table(int(entry)) if entry < self.count:
                    self._add(result, frozenset({_Buffer(entry)}))
                case _Table():
                    self._lose_all("an address of no buffer of the call is loaded: memory of a peer, perhaps")
                case _Slot() if str(result.type).startswith(("!llvm.array", "!llvm.struct")):
                    self._add(result, frozenset({place}))
                case _Slot():
                    self._add(result, self._load(place) or _make_foreign(result))
                case _:
                    self._add(result, _make_foreign(result))

    def _offset(self, operation: Any, operands: list[Any]) -> _Places:
        """An address plus constants or values."""
        constants = [int(one) for one in operation.attributes["rawConstantIndices"]]
        exact = constants[0] if len(constants) == 1 and constants[0] != _NOT_CONSTANT else None
        element = str(operation.attributes["elem_type"])
        size = {"!llvm.ptr": 8, "i8": 1, "i64": 8, "i32": 4}.get(element.removeprefix("type(").removesuffix(")"))
        found: set[_Place] = set(_NOWHERE.union(*(self._get(value) for value in operands[1:])))
        for place in self._get(operands[0]):
            match place:
                case _Table(entry):
                    sure = exact is not None and entry is not None and size == 8 and exact >= 0
                    found.add(_Table((entry or 0) + (exact or 0) if sure else None))
                case _Slot(allocation, offset):
                    sure = exact is not None and offset is not None and size is not None
                    found.add(_Slot(allocation, (offset or 0) + (exact or 0) * (size or 0) if sure else None))
                case _:
                    found.add(place)
        return frozenset(found)

    def _check_argument(self, operation: Any, places: _Places) -> None:
        """The number that Mosaic notes must be the entry that was loaded."""
        if places != frozenset({_Buffer(int(operation.attributes[ARGUMENT].value))}):
            self._lose_all("the numbers of the kernel's arguments contradict the table of buffers")

    def _call(self, operation: Any, operands: list[Any], places: _Places) -> None:
        callee = str(operation.attributes["callee"]).lstrip("@").strip('"')
        if callee != INITIALISER or len(operands) < 2:
            what = f"`{callee}` is a function that is not followed"
            if "nvshmem" in callee or "multimem" in callee:
                self._lose_all(f"{what}: it reaches memory of other devices")
            self._lose_operands(operands, places, what)
            return
        described = self._get(operands[1])
        slots = self._get(operands[0])
        if not described or not slots or not all(isinstance(slot, _Slot) for slot in slots):
            if described or slots:
                self._lose_all("a TMA descriptor is made of an address, or at a place, that was not followed")
            return
        for slot in slots:
            if isinstance(slot, _Slot):
                self._put(slot, described)

    def _copy(self, name: str, operands: list[Any], places: _Places) -> None:
        slots = [place for place in places if isinstance(place, _Slot)]
        found = _NOWHERE.union(*(self._load(slot) for slot in slots))
        if not slots or any(not self._load(slot) for slot in slots) or not all(isinstance(p, _Buffer) for p in found):
            self._lose_all(f"`{name}` uses a TMA descriptor that was not followed")
        access = Access.READ if name in DESCRIPTOR_READS else Access.WRITE
        access = Access.READ_WRITE if name in DESCRIPTOR_UPDATES else access
        for number in self._find_buffers(frozenset(slots)):
            self._record(number, access)
        direct = {place.number for place in places if isinstance(place, _Buffer)}
        if direct:
            self._lose(direct, f"`{name}` takes an address beside its TMA descriptor")

    def _assemble(self, operation: Any, operands: list[Any], places: _Places) -> None:
        text = str(operation.attributes["asm_string"].value)
        kind = classify_inline_assembly(text)
        shown = " ".join(text.split())[:60]
        if "multimem" in text:
            self._lose_all(f"inline assembly `{shown}` reaches memory of other devices")
        if kind is AsmKind.UNKNOWN and self._has_strange_address(operands, text):
            self._lose_all(f"inline assembly `{shown}` is not followed, and may use an address that was not")
        elif kind is AsmKind.UNKNOWN:
            self._lose_operands(operands, places, f"inline assembly `{shown}` is not followed")
        elif kind is not AsmKind.NOTHING:
            access = _ACCESS[kind]
            reached = self._find_buffers(places)
            addresses = [value for value in operands if _ADDRESS.search(str(value.type))]
            if (
                any(not self._get(value) and not _OWN_MEMORY.match(str(value.type)) for value in addresses)
                or not (places)
                or any(isinstance(place, _Slot) and not self._load(place) for place in places)
            ):
                self._lose_all(f"inline assembly `{shown}` uses an address that was not followed")
            elif len(reached) == 1:
                self._record(next(iter(reached)), access)
            else:
                self._lose(reached, f"inline assembly `{shown}` takes addresses of several buffers")
        for result in operation.results:
            self._add(result, places)

    def _has_strange_address(self, operands: list[Any], text: str) -> bool:
        """Whether PTX that names an address may have it from elsewhere than from places that were followed."""
        numbers = [value for value in operands if _ADDRESS.search(str(value.type))]
        strange = [value for value in numbers if not self._get(value) and not _OWN_MEMORY.match(str(value.type))]
        return "[" in text and (bool(strange) or not numbers)

    def _lose_operands(self, operands: list[Any], places: _Places, reason: str) -> None:
        if reached := self._find_buffers(places):
            self._lose(reached, reason)
        for value in operands:
            kind = str(value.type)
            if not self._get(value) and _POINTER.search(kind) and not _OWN_MEMORY.match(kind):
                self._lose_all(reason)

    # -- regions

    def _pass_on(self, operation: Any) -> None:
        """Hands what an operation with regions is given to their arguments, and what they yield to its results."""
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
                places = self._get(first) | self._get(last)
                self._add(argument, places)
                self._add(result, places)
            return
        if name in ("scf.if", "scf.index_switch") and all(len(one) == len(results) for one in yields):
            for number, result in enumerate(results):
                self._add(result, _NOWHERE.union(*(self._get(one[number]) for one in yields)))
            return
        places = _NOWHERE.union(*(self._get(value) for value in (*operands, *(one for some in yields for one in some))))
        for value in (*results, *(argument for block in blocks for argument in block.arguments)):
            self._add(value, places)


def _make_foreign(value: Any) -> _Places:
    """Of an address that came from nowhere; nothing for what is no address, or one of shared memory."""
    kind = str(value.type)
    return frozenset({_Foreign()}) if _POINTER.search(kind) and not _OWN_MEMORY.match(kind) else _NOWHERE
