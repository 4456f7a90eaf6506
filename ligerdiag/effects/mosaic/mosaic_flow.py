"""Follows the pointers of a Mosaic GPU module from the kernel's buffers to the operations that access memory.

The host function takes a table with the address of each buffer, operands before outputs: entry `k` is loaded from it.
The host makes a TMA descriptor in its stack frame; the launch captures the loaded bytes, and a copy through an address
in them is a copy through the descriptor at that offset. A value points to a set of places, the union over all paths;
loops are followed to a fixpoint. A write is possible, not certain: masks, bounds and trip counts are ignored. An
unknown address could be any buffer's: all of them are then UNKNOWN.
"""

from dataclasses import dataclass
from typing import Any

from ligerdiag.effects.access import Access
from ligerdiag.effects.mosaic.mosaic_operations import (
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
from ligerdiag.effects.mosaic.mosaic_places import (
    NOWHERE,
    Foreign,
    InBuffer,
    Own,
    Place,
    PlaceFacts,
    Places,
    Slot,
    Table,
    make_foreign,
    pass_through_regions,
)
from ligerdiag.errors import ArtifactError

ARGUMENT = "mosaic_gpu.from_kernel_arg_idx"
_ROUNDS = 100
_NOT_CONSTANT = -(2**31)
"""Marks an index of a getelementptr that is a value."""
_ACCESS = {AsmKind.READ: Access.READ, AsmKind.WRITE: Access.WRITE, AsmKind.UPDATE: Access.READ_WRITE}


def follow_function(entry: Any, count: int) -> PlaceFacts:
    """Returns the effects of the host function `entry` and its launch on each of `count` buffers.

    Raises ArtifactError if it does not have the form of a host function.
    """
    arguments = list(entry.regions[0].blocks[0].arguments)
    if len(arguments) != 2:
        raise ArtifactError("the kernel's host function does not take a stream and a table of buffers")
    facts = PlaceFacts(count=count, accesses=[Access.NONE] * count)
    facts.add(arguments[1], frozenset({Table(0)}))
    flow = _Flow(facts)
    for _ in range(_ROUNDS):
        facts.start_round()
        flow.walk(entry)
        if not facts.changed:
            return facts
    facts.lose_all("its loops reach no fixpoint")
    return facts


@dataclass(frozen=True, slots=True, eq=False)
class _Flow:
    """Processes the operations in their order and adds to the facts."""

    facts: PlaceFacts

    def walk(self, operation: Any) -> None:
        self._visit(operation)
        for region in operation.regions:
            for block in region.blocks:
                for inner in block.operations:
                    self.walk(inner.operation)
        pass_through_regions(operation, self.facts)

    def _visit(self, operation: Any) -> None:
        name: str = operation.name
        operands = list(operation.operands)
        places = NOWHERE.union(*(self.facts.get(value) for value in operands))
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
            (result,) = operation.results
            self.facts.add(result, frozenset({Own() if name == "memref.alloca" else self.facts.number_slot(result)}))
        elif name in ("llvm.mlir.addressof", "memref.get_global"):
            self.facts.add(operation.results[0], frozenset({Own()}))
        elif name == "func.call":
            self._call(operation, operands, places)
        elif name == "llvm.inline_asm":
            self._assemble(operation, operands, places)
        elif name in DESCRIPTOR_READS | DESCRIPTOR_WRITES | DESCRIPTOR_UPDATES:
            self._copy(name, operands, places)
        elif name == "llvm.getelementptr":
            self.facts.add(operation.results[0], self._offset(operation, operands))
        elif name == "memref.extract_strided_metadata":
            self.facts.add(operation.results[0], places)
        elif derives_pointers(name):
            foreign = name == "llvm.inttoptr" and not places
            for result in operation.results:
                self.facts.add(result, make_foreign(result) if foreign else places)
            if ARGUMENT in operation.attributes:
                self._check_argument(operation, places)
        elif not is_harmless(name):
            self.facts.lose_operands(operands, places, f"`{name}` is not known to leave its operands alone")

    def _access(self, addresses: list[Any], access: Access, name: str) -> None:
        if not addresses:
            self.facts.lose_all(f"`{name}` has no address")
        for address in addresses:
            places = self.facts.get(address)
            if self.facts.is_strange(address):
                self.facts.lose_all(f"`{name}` uses an address that was not followed")
            for place in places:
                match place:
                    case InBuffer(number):
                        self.facts.record(number, access)
                    case Foreign():
                        self.facts.lose_all(f"`{name}` uses an address that was not followed")
                    case Table():
                        if access.writes:
                            self.facts.lose_all(f"`{name}` writes the table of buffers")
                    case _:
                        pass

    def _write(self, operands: list[Any], address: int, name: str) -> None:
        self._access(operands[address : address + 1], Access.WRITE, name)
        stored = NOWHERE.union(*(self.facts.get(value) for number, value in enumerate(operands) if number != address))
        if name not in ("llvm.store", "memref.store"):
            return  # Indices may come from an address; vectors of addresses are not made.
        stored = NOWHERE.union(self.facts.get(operands[0])) - {Own()}
        if not stored:
            return
        into = self.facts.get(operands[address])
        slots = [place for place in into if isinstance(place, Slot)]
        if not slots or len(slots) != len(into):
            self.facts.lose(self.facts.find_buffers(stored), f"`{name}` puts an address into memory")
            return
        for slot in slots:
            self.facts.put(slot, stored)

    def _load_pointer(self, operation: Any, address: Any) -> None:
        self._access([address], Access.READ, "llvm.load")
        (result,) = operation.results
        for place in self.facts.get(address):
            match place:
                case Table(int(entry)) if entry < self.facts.count:
                    self.facts.add(result, frozenset({InBuffer(entry)}))
                case Table():
                    self.facts.lose_all("an address of no buffer of the call is loaded: memory of a peer, perhaps")
                case Slot() if str(result.type).startswith(("!llvm.array", "!llvm.struct")):
                    self.facts.add(result, frozenset({place}))
                case Slot():
                    self.facts.add(result, self.facts.load(place) or make_foreign(result))
                case _:
                    self.facts.add(result, make_foreign(result))

    def _offset(self, operation: Any, operands: list[Any]) -> Places:
        """Returns an address plus constants or values."""
        constants = [int(one) for one in operation.attributes["rawConstantIndices"]]
        exact = constants[0] if len(constants) == 1 and constants[0] != _NOT_CONSTANT else None
        element = str(operation.attributes["elem_type"])
        size = {"!llvm.ptr": 8, "i8": 1, "i64": 8, "i32": 4}.get(element.removeprefix("type(").removesuffix(")"))
        found: set[Place] = set(NOWHERE.union(*(self.facts.get(value) for value in operands[1:])))
        for place in self.facts.get(operands[0]):
            match place:
                case Table(entry):
                    sure = exact is not None and entry is not None and size == 8 and exact >= 0
                    found.add(Table((entry or 0) + (exact or 0) if sure else None))
                case Slot(allocation, offset):
                    sure = exact is not None and offset is not None and size is not None
                    found.add(Slot(allocation, (offset or 0) + (exact or 0) * (size or 0) if sure else None))
                case _:
                    found.add(place)
        return frozenset(found)

    def _check_argument(self, operation: Any, places: Places) -> None:
        """Checks that Mosaic's argument number matches the loaded entry."""
        if places != frozenset({InBuffer(int(operation.attributes[ARGUMENT].value))}):
            self.facts.lose_all("the numbers of the kernel's arguments contradict the table of buffers")

    def _call(self, operation: Any, operands: list[Any], places: Places) -> None:
        callee = str(operation.attributes["callee"]).lstrip("@").strip('"')
        if callee != INITIALISER or len(operands) < 2:
            what = f"`{callee}` is a function that is not followed"
            if "nvshmem" in callee or "multimem" in callee:
                self.facts.lose_all(f"{what}: it reaches memory of other devices")
            self.facts.lose_operands(operands, places, what)
            return
        described = self.facts.get(operands[1])
        slots = self.facts.get(operands[0])
        if not described or not slots or not all(isinstance(slot, Slot) for slot in slots):
            if described or slots:
                self.facts.lose_all("a TMA descriptor is made of an address, or at a place, that was not followed")
            return
        for slot in slots:
            if isinstance(slot, Slot):
                self.facts.put(slot, described)

    def _copy(self, name: str, operands: list[Any], places: Places) -> None:
        slots = [place for place in places if isinstance(place, Slot)]
        found = NOWHERE.union(*(self.facts.load(slot) for slot in slots))
        if (
            not slots
            or any(not self.facts.load(slot) for slot in slots)
            or not all(isinstance(p, InBuffer) for p in found)
        ):
            self.facts.lose_all(f"`{name}` uses a TMA descriptor that was not followed")
        access = Access.READ if name in DESCRIPTOR_READS else Access.WRITE
        access = Access.READ_WRITE if name in DESCRIPTOR_UPDATES else access
        for number in self.facts.find_buffers(frozenset(slots)):
            self.facts.record(number, access)
        direct = {place.number for place in places if isinstance(place, InBuffer)}
        if direct:
            self.facts.lose(direct, f"`{name}` takes an address beside its TMA descriptor")

    def _assemble(self, operation: Any, operands: list[Any], places: Places) -> None:
        text = str(operation.attributes["asm_string"].value)
        kind = classify_inline_assembly(text)
        shown = " ".join(text.split())[:60]
        if "multimem" in text:
            self.facts.lose_all(f"inline assembly `{shown}` reaches memory of other devices")
        if kind is AsmKind.UNKNOWN and self._may_use_strange_address(operands, text):
            self.facts.lose_all(f"inline assembly `{shown}` is not followed, and may use an address that was not")
        elif kind is AsmKind.UNKNOWN:
            self.facts.lose_operands(operands, places, f"inline assembly `{shown}` is not followed")
        elif kind is not AsmKind.NOTHING:
            access = _ACCESS[kind]
            reached = self.facts.find_buffers(places)
            if (
                any(self.facts.is_strange(value) for value in self.facts.find_addresses(operands))
                or not places
                or any(isinstance(place, Slot) and not self.facts.load(place) for place in places)
            ):
                self.facts.lose_all(f"inline assembly `{shown}` uses an address that was not followed")
            elif len(reached) == 1:
                self.facts.record(next(iter(reached)), access)
            else:
                self.facts.lose(reached, f"inline assembly `{shown}` takes addresses of several buffers")
        for result in operation.results:
            self.facts.add(result, places)

    def _may_use_strange_address(self, operands: list[Any], text: str) -> bool:
        """Returns whether PTX that contains an address may have it from a place that was not followed."""
        numbers = self.facts.find_addresses(operands)
        return "[" in text and (not numbers or any(self.facts.is_strange(value) for value in numbers))
