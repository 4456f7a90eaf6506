"""Computes the effects of a `mosaic_gpu_v2` call from its payload; jaxlib's own bindings parse the module.

backend_config is a dictionary; its string `module` is MLIR bytecode of `stable_mosaic_gpu.*`, which the pass
`mosaic_gpu-serde` turns into the dialects to which JAX lowers. Buffers are the call's operands, then its outputs
(jax/experimental/mosaic/gpu/core.py); the output of a Ref comes last, and its pointer is not used.

The host function takes a table with the address of each buffer, operands before outputs, and loads entry `k` to get the
address of buffer `k`. The host makes each TMA descriptor in its stack frame, and the launch captures the descriptor's bytes.
A copy through an address in these bytes is a copy through the descriptor at that offset. A value points to a set of places
(buffers, table, stack frame), the union over all paths; loops are followed to a fixpoint. A write is possible, not certain:
masks, bounds and trip counts are ignored. An unknown address could be in any buffer: the accesses to all buffers are then
UNKNOWN.
"""

import importlib
import re
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from ligerdiag.effects.access import Access, CallEffects, OperandUse, compute_plain_use, create_unknown_effects
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
from ligerdiag.effects.mosaic.operation_tables import (
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
from ligerdiag.effects.payload import parse_string_attributes
from ligerdiag.errors import ArtifactError

ARGUMENT = "mosaic_gpu.from_kernel_arg_idx"
_ROUNDS = 100
_NOT_CONSTANT = -(2**31)
"""Marks, among the constant indices of a `llvm.getelementptr`, an index that is a value instead."""
_ACCESS = {AsmKind.READ: Access.READ, AsmKind.WRITE: Access.WRITE, AsmKind.UPDATE: Access.READ_WRITE}


def follow_function(entry: Any, count: int) -> PlaceFacts:
    """Finds out how a host function and the kernel that it launches access each of the call's buffers. count: number of
    buffers.

    Raises ArtifactError if the function `entry` does not take a stream and a table of buffers, as a host function does.
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
    facts.mark_all_unknown("the analysis of the kernel's loops reaches no fixpoint")
    return facts


@dataclass(frozen=True, slots=True, eq=False)
class _Flow:
    """Adds to `facts` the places and accesses that follow from each operation, in the order of the module's text."""

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
                return  # Pallas loads the bytes that it is about to overwrite, and drops them.
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
            self.facts.mark_operands_unknown(
                operands, places, f"`{name}` is an unknown operation and may write its operands"
            )

    def _access(self, addresses: list[Any], access: Access, name: str) -> None:
        if not addresses:
            self.facts.mark_all_unknown(f"`{name}` lacks the operand with its address")
        for address in addresses:
            places = self.facts.get(address)
            if self.facts.has_unknown_origin(address):
                self.facts.mark_all_unknown(f"`{name}` uses an address of unknown origin")
            for place in places:
                match place:
                    case InBuffer(number):
                        self.facts.record(number, access)
                    case Foreign():
                        self.facts.mark_all_unknown(f"`{name}` uses an address of unknown origin")
                    case Table():
                        if access.writes:
                            self.facts.mark_all_unknown(f"`{name}` may change the table of buffer addresses")
                    case _:
                        pass

    def _write(self, operands: list[Any], address: int, name: str) -> None:
        self._access(operands[address : address + 1], Access.WRITE, name)
        stored = NOWHERE.union(*(self.facts.get(value) for number, value in enumerate(operands) if number != address))
        if name not in ("llvm.store", "memref.store"):
            return  # An index may be computed from an address; no vector of addresses is ever made.
        stored = NOWHERE.union(self.facts.get(operands[0])) - {Own()}
        if not stored:
            return
        into = self.facts.get(operands[address])
        slots = [place for place in into if isinstance(place, Slot)]
        if not slots or len(slots) != len(into):
            self.facts.mark_unknown(
                self.facts.find_buffers(stored), f"`{name}` stores an address in memory, where it cannot be followed"
            )
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
                    self.facts.mark_all_unknown(
                        "the kernel loads an address that may be outside the call's buffers, perhaps on another device"
                    )
                case Slot() if str(result.type).startswith(("!llvm.array", "!llvm.struct")):
                    self.facts.add(result, frozenset({place}))
                case Slot():
                    self.facts.add(result, self.facts.load(place) or make_foreign(result))
                case _:
                    self.facts.add(result, make_foreign(result))

    def _offset(self, operation: Any, operands: list[Any]) -> Places:
        """Returns the places to which the result of a `llvm.getelementptr` points: the places of its address, moved by
        its indices, and all places to which an index points.
        """
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
        """Checks the argument number that Mosaic states in an operation's attribute ARGUMENT: unless the operands point
        to the buffer with this number and to nothing else, the accesses to all buffers become UNKNOWN.
        """
        if places != frozenset({InBuffer(int(operation.attributes[ARGUMENT].value))}):
            self.facts.mark_all_unknown(
                "the argument numbers in the kernel's IR contradict the table of buffer addresses"
            )

    def _call(self, operation: Any, operands: list[Any], places: Places) -> None:
        callee = str(operation.attributes["callee"]).lstrip("@").strip('"')
        if callee != INITIALISER or len(operands) < 2:
            what = f"`{callee}` is an unknown function"
            if "nvshmem" in callee or "multimem" in callee:
                self.facts.mark_all_unknown(f"{what}: it accesses memory of other devices")
            self.facts.mark_operands_unknown(operands, places, what)
            return
        described = self.facts.get(operands[1])
        slots = self.facts.get(operands[0])
        if not described or not slots or not all(isinstance(slot, Slot) for slot in slots):
            if described or slots:
                self.facts.mark_all_unknown(
                    "a TMA descriptor describes, or is written to, an address of unknown origin"
                )
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
            self.facts.mark_all_unknown(f"`{name}` uses a TMA descriptor of unknown origin")
        access = Access.READ if name in DESCRIPTOR_READS else Access.WRITE
        access = Access.READ_WRITE if name in DESCRIPTOR_UPDATES else access
        for number in self.facts.find_buffers(frozenset(slots)):
            self.facts.record(number, access)
        direct = {place.number for place in places if isinstance(place, InBuffer)}
        if direct:
            self.facts.mark_unknown(
                direct, f"`{name}` takes an address besides its TMA descriptor and may access memory there"
            )

    def _assemble(self, operation: Any, operands: list[Any], places: Places) -> None:
        text = str(operation.attributes["asm_string"].value)
        kind = classify_inline_assembly(text)
        shown = " ".join(text.split())[:60]
        if "multimem" in text:
            self.facts.mark_all_unknown(f"inline assembly `{shown}` accesses memory of other devices")
        if kind is AsmKind.UNKNOWN and self._may_use_unknown_address(operands, text):
            self.facts.mark_all_unknown(
                f"inline assembly `{shown}` has unknown effects, and may use an address of unknown origin"
            )
        elif kind is AsmKind.UNKNOWN:
            self.facts.mark_operands_unknown(operands, places, f"inline assembly `{shown}` has unknown effects")
        elif kind is not AsmKind.NOTHING:
            access = _ACCESS[kind]
            reached = self.facts.find_buffers(places)
            if (
                any(self.facts.has_unknown_origin(value) for value in self.facts.find_addresses(operands))
                or not places
                or any(isinstance(place, Slot) and not self.facts.load(place) for place in places)
            ):
                self.facts.mark_all_unknown(f"inline assembly `{shown}` uses an address of unknown origin")
            elif len(reached) == 1:
                self.facts.record(next(iter(reached)), access)
            else:
                self.facts.mark_unknown(
                    reached, f"inline assembly `{shown}` may access any of the several buffers whose addresses it takes"
                )
        for result in operation.results:
            self.facts.add(result, places)

    def _may_use_unknown_address(self, operands: list[Any], text: str) -> bool:
        """Returns whether inline PTX may access memory through an address of unknown origin. operands: the operands of
        the PTX.
        """
        numbers = self.facts.find_addresses(operands)
        return "[" in text and (not numbers or any(self.facts.has_unknown_origin(value) for value in numbers))


_SUFFIX = "_mosaic_gpu"
_MALFORMED_IR_ERRORS = (
    ArithmeticError,
    AttributeError,
    IndexError,
    KeyError,
    RecursionError,
    RuntimeError,
    StopIteration,
    TypeError,
    ValueError,
)
"""Errors that the bindings and this module raise on malformed IR, which JAX does not make but a payload may contain."""
_MAY = "it is unknown which elements a Mosaic GPU kernel writes: perhaps all, perhaps some"
_REMEDY = "declare the kernel's writes under [tool.ligerdiag.effects]"
_PEERS = re.compile(rb"uses_xla_collective_metadata\s*=\s*true", re.ASCII)


_NUMBERED = re.compile(r'mosaic_gpu\.dump_basename = "[^"]*"')
"""The name of a file that JAX numbers by the kernels which it has lowered."""
_UNNAMED = "anonymous"
"""JAX's name for a kernel that has no name."""


def make_unique_name(name: str, backend_config: bytes) -> str:
    """Returns the kernel's name, or a unique name for a kernel without a name. So a user's declaration for one unnamed
    kernel does not apply to all unnamed kernels.
    """
    return f"{name}_{sha256(backend_config).hexdigest()[:8]}" if name == _UNNAMED else name


def compute_mosaic_effects(*, target: str, backend_config: bytes, operands: int, outputs: int) -> CallEffects:
    """Returns the effects of a Mosaic GPU call on its buffers. They are UNKNOWN, with a reason, if they cannot be found."""
    try:
        attributes = parse_string_attributes(backend_config)
        if "module" not in attributes:
            raise ArtifactError("the backend config has no string attribute `module`")
        name, facts, code = _follow(attributes["module"], operands + outputs)
        kernel = make_unique_name(name, backend_config)
    except ArtifactError as error:
        return create_unknown_effects(kernel=target, operands=operands, outputs=outputs, reason=f"{error}; {_REMEDY}")
    except _MALFORMED_IR_ERRORS as error:
        reason = f"the Mosaic GPU module could not be read ({type(error).__name__}); {_REMEDY}"
        return create_unknown_effects(kernel=target, operands=operands, outputs=outputs, reason=reason)
    if _PEERS.search(backend_config) or "xla_replica_ids" in attributes:
        reason = "the Mosaic GPU kernel accesses memory of other devices, which is not modelled"
        return create_unknown_effects(kernel=kernel, operands=operands, outputs=outputs, reason=reason)
    uses = tuple(_describe(access, facts.reasons) for access in facts.accesses)
    return CallEffects(
        kernel=kernel,
        operands=tuple(facts.accesses[:operands]),
        outputs=tuple(facts.accesses[operands:]),
        reasons=tuple(facts.reasons),
        operand_uses=uses[:operands],
        output_uses=uses[operands:],
        code=code,
    )


def _describe(access: Access, reasons: list[str]) -> OperandUse:
    return compute_plain_use(access, "; ".join(reasons) if access is Access.UNKNOWN else _MAY)


def _follow(source: bytes, count: int) -> tuple[str, PlaceFacts, str]:
    """Returns the kernel's name, what it does to its buffers, and a hash of its code."""
    try:
        ir: Any = importlib.import_module("jaxlib.mlir.ir")
        passmanager: Any = importlib.import_module("jaxlib.mlir.passmanager")
        dialect: Any = importlib.import_module("jax._src.lib").mosaic_gpu_dialect
        mlir: Any = importlib.import_module("jax._src.interpreters.mlir")
    except (ImportError, AttributeError) as error:
        raise ArtifactError(
            "the installed JAX lacks the Mosaic GPU dialect, which is needed to read the kernel"
        ) from error
    context: Any = mlir.make_ir_context()
    dialect.register_dialect(context)
    context.allow_unregistered_dialects = True
    context.load_all_available_dialects()
    with context:
        try:
            module: Any = ir.Module.parse(source)
            passmanager.PassManager.parse("builtin.module(mosaic_gpu-serde{serialize=false})").run(module.operation)
        except (ir.MLIRError, *_MALFORMED_IR_ERRORS) as error:
            raise ArtifactError("jaxlib cannot parse the Mosaic GPU module") from error
        code = sha256(_NUMBERED.sub("", str(module)).encode()).hexdigest()
        return *_follow_module(module.operation, count), code


def _follow_module(module: Any, count: int) -> tuple[str, PlaceFacts]:
    functions = [one.operation for one in module.regions[0].blocks[0].operations if one.operation.name == "func.func"]
    named = {str(one.attributes["sym_name"].value): one for one in functions}
    entries = [name for name, one in named.items() if list(one.regions[0].blocks)]
    if len(entries) != 1 or not entries[0].endswith(_SUFFIX):
        raise ArtifactError("the Mosaic GPU module does not have exactly one host function")
    _require_arguments(named[entries[0]])
    facts = follow_function(named[entries[0]], count)
    for name in named:
        if "nvshmem" in name:
            reason = f"the Mosaic GPU kernel uses `{name}`, which accesses memory of other devices"
            facts.accesses = [Access.UNKNOWN] * count
            facts.reasons.append(reason)
    return entries[0].removesuffix(_SUFFIX), facts


def _require_arguments(entry: Any) -> None:
    """Raises ArtifactError unless the host function `entry` launches a kernel on buffers of the call, as in every
    module that JAX makes.
    """
    found = {"arguments": False, "launch": False}

    def walk(operation: Any) -> None:
        found["launch"] |= operation.name == "gpu.launch"
        found["arguments"] |= ARGUMENT in operation.attributes
        for region in operation.regions:
            for block in region.blocks:
                for inner in block.operations:
                    walk(inner.operation)

    walk(entry)
    if not all(found.values()):
        raise ArtifactError("the Mosaic GPU module launches no kernel on the call's buffers")
