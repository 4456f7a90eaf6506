"""Makes schedules that XLA could still choose for a module, with the module's calls inlined as XLA's call inliner does.

Under LATE a kernel call runs only if nothing else can, so readers that nothing forces after it come before it. Under EARLY a
kernel call runs as soon as its operands exist, so readers that nothing forces before it come after it. WRITTEN is the
author's order as far as dependences allow: it is the order of the tags, the numbers that the program's operations got before
the compile. An instruction without a tag runs once its operands exist. In all three an instruction runs after its operands
and control predecessors, and a loop or branch around a kernel counts as a kernel call. An output that is fresh under LATE is
forced; one that is wrong under all three cannot be repaired by any schedule.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from ligerdiag.analysis.writes import CALLERS
from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.legal_orders import order_by
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule, TagPath
from ligerdiag.hlo.opcodes import Trait, having

_RUNS = having(Trait.RUNS_SCHEDULED)
"""Opcodes of instructions whose called computations run at the caller's place in the schedule."""
_MOST = 1_000_000
"""Largest number of instructions of an inlined module: calls within calls can multiply the instructions."""


def inline_calls(module: HloModule) -> HloModule:
    """Returns a copy of a module in which every `call` is inlined. The copy has no schedule. Returns a module without a
    `call` unchanged.

    Each call gets its own copies of the callee's instructions, with the loops and branches inside. The tag path of a copy
    begins with the tags of the calls that lead to it, and ends with its own tag. Computations that are only applied (by a
    reduction or a fusion) stay shared. Raises ArtifactError if nested calls give more than a million instructions.
    """
    reached = list(_iterate_reached(module))
    if not any(instruction.opcode == "call" for computation in reached for instruction in computation.instructions):
        return module
    inliner = _Inliner(module)
    entry, _ = inliner.copy(module.entry, (), {})
    return replace(module, entry=entry, computations=inliner.computations | {entry.id: entry}, tags=inliner.tags)


def _iterate_reached(module: HloModule) -> Iterator[HloComputation]:
    """Yields, each once, the entry computation and the computations that calls, loops and branches run; not those that
    are only applied, such as that of a fusion.
    """
    pending, seen = [module.entry], {module.entry.id}
    while pending:
        computation = pending.pop()
        yield computation
        for instruction in computation.instructions:
            for callee in instruction.called_computations if instruction.opcode in _RUNS else ():
                if callee not in seen:
                    seen.add(callee)
                    pending.append(module.computations[callee])


@dataclass(slots=True, eq=False)
class _Inliner:
    """Copies each computation that runs, once for each path of calls to it."""

    module: HloModule
    computations: dict[int, HloComputation] = field(init=False)
    """From id to computation, callees before callers: the applied computations, and all copies."""
    tags: dict[int, TagPath] = field(init=False)
    """Tag paths of the copied instructions, by id."""
    _next_instruction: int = field(init=False)
    _next_computation: int = field(init=False)
    _count: int = 0

    def __post_init__(self) -> None:
        running = {computation.id for computation in _iterate_reached(self.module)}
        self.computations = {number: one for number, one in self.module.computations.items() if number not in running}
        applied = [one.id for computation in self.computations.values() for one in computation.instructions]
        self.tags = {number: self.module.tags[number] for number in applied if number in self.module.tags}
        self._next_instruction = 1 + max(i.id for c in self.module.computations.values() for i in c.instructions)
        self._next_computation = 1 + max(self.module.computations)

    def copy(
        self, computation: HloComputation, path: TagPath, given: dict[int, HloInstruction]
    ) -> tuple[HloComputation, tuple[HloInstruction, ...]]:
        """Copies a computation, and inlines the calls in it. Returns the copy and its instructions.

        path: the tags of the calls that lead to the computation. given: if the computation is inlined itself, maps the
        number of a parameter to the operand that replaces it.
        """
        copies: dict[int, HloInstruction] = {}
        listed: list[HloInstruction] = []
        numbers = {instruction.id: self._take_number() for instruction in computation.instructions}
        last: dict[int, int] = {}
        for instruction in computation.instructions:
            if instruction.opcode == "parameter" and given:
                copies[instruction.id] = given[instruction.proto.parameter_number]
                continue
            operands = tuple([copies[operand.id] for operand in instruction.operands])
            if instruction.opcode == "call":
                callee = self.module.computations[instruction.called_computations[0]]
                inner, inlined = self.copy(
                    callee, (*path, *self.module.find_tag_path(instruction)), dict(enumerate(operands))
                )
                copies[instruction.id] = inner.root
                last[instruction.id] = inner.root.id
                listed += inlined
                continue
            called = instruction.called_computations
            if instruction.opcode in _RUNS:
                called = tuple([self._keep(self.copy(self.module.computations[c], path, {})[0]) for c in called])
            tags = self.module.find_tag_path(instruction)
            if tags:
                self.tags[numbers[instruction.id]] = (*path, *tags)
            copy = replace(
                instruction,
                id=numbers[instruction.id],
                operands=operands,
                control_predecessors=tuple(
                    [last.get(n, numbers[n]) for n in instruction.control_predecessors if n in numbers]
                ),
                called_computations=called,
            )
            copies[instruction.id] = copy
            listed.append(copy)
        self._next_computation += 1
        made = replace(
            computation,
            id=self._next_computation - 1,
            instructions=tuple(listed),
            root=copies[computation.root.id],
            sequence=(),
        )
        return made, made.instructions

    def _keep(self, computation: HloComputation) -> int:
        self.computations[computation.id] = computation
        return computation.id

    def _take_number(self) -> int:
        self._count += 1
        if self._count > _MOST:
            raise ArtifactError(f"`{self.module.name}` has more than {_MOST} instructions after its calls are inlined")
        self._next_instruction += 1
        return self._next_instruction - 1


class SchedulePolicy(StrEnum):
    """The rule by which a synthetic schedule places kernel calls: late, early, or in the author's order."""

    LATE = "late"
    EARLY = "early"
    WRITTEN = "written"


type IsKernel = Callable[[HloInstruction], bool]
"""Returns whether a custom call has a hidden write, that is, overwrites an operand without XLA's knowledge."""
type _Key = tuple[TagPath, int]


def schedule_module(module: HloModule, is_kernel: IsKernel, policy: SchedulePolicy) -> HloModule:
    """Returns a module with a new schedule. policy: when kernel calls run in it. is_kernel: whether a custom call is one."""
    holders = _find_holders(module, is_kernel)
    scheduled: dict[int, HloComputation] = {}
    for number, computation in module.computations.items():
        if computation.is_fusion:
            scheduled[number] = computation
            continue
        kernels = {
            i.id for i in computation.instructions if (i.opcode == "custom-call" and is_kernel(i)) or _runs(i, holders)
        }
        match policy:
            case SchedulePolicy.EARLY:
                order = _order_early(computation, kernels)
            case SchedulePolicy.LATE:
                listed = {i.id: n for n, i in enumerate(computation.instructions)}
                order = _order_by(computation, {n: ((1,) if n in kernels else (), at) for n, at in listed.items()})
            case SchedulePolicy.WRITTEN:
                order = _order_by(computation, _compute_program_keys(module, computation))
        scheduled[number] = replace(computation, sequence=order)
    return replace(module, computations=scheduled, entry=scheduled[module.entry.id])


def _find_holders(module: HloModule, is_kernel: IsKernel) -> frozenset[int]:
    """Returns the ids of computations that run a kernel, directly or in a computation that they call."""
    found: set[int] = set()
    for computation in module.computations.values():
        if any((i.opcode == "custom-call" and is_kernel(i)) or _runs(i, found) for i in computation.instructions):
            found.add(computation.id)
    return frozenset(found)


def _runs(instruction: HloInstruction, holders: frozenset[int] | set[int]) -> bool:
    return instruction.opcode in CALLERS and any(callee in holders for callee in instruction.called_computations)


def _find_needed(computation: HloComputation) -> Mapping[int, tuple[int, ...]]:
    """Maps the id of each instruction to the ids of the instructions that must run before it, without duplicates."""
    known = {instruction.id for instruction in computation.instructions}
    return {
        i.id: tuple(dict.fromkeys((*[o.id for o in i.operands], *[p for p in i.control_predecessors if p in known])))
        for i in computation.instructions
    }


def _order_early(computation: HloComputation, kernels: set[int]) -> tuple[HloInstruction, ...]:
    """Returns an order that runs what each kernel call needs, then the call, and then the rest. kernels: ids of the kernel
    calls, and of the loops and branches around kernel calls.
    """
    needed = _find_needed(computation)
    by_id = {instruction.id: instruction for instruction in computation.instructions}
    order: dict[int, HloInstruction] = {}
    for start in (*[n for n in by_id if n in kernels], *by_id):
        pending = [start]
        while pending:
            missing = [n for n in needed[pending[-1]] if n not in order]
            if missing:
                pending += missing
            else:
                number = pending.pop()
                order.setdefault(number, by_id[number])
    return tuple(order.values())


def _order_by(computation: HloComputation, keys: Mapping[int, _Key]) -> tuple[HloInstruction, ...]:
    """Returns an order that keeps dependences and in which, of all instructions that may run next, the one with the
    least key does.
    """
    return order_by(computation.instructions, _find_needed(computation), keys)


def _compute_program_keys(module: HloModule, computation: HloComputation) -> Mapping[int, _Key]:
    """Returns each instruction's place in program order: the place of the last operation whose tag (the number that it
    got before the compile) the instruction carries; without a tag, the place of its operands.
    """
    keys: dict[int, _Key] = {}
    for number, instruction in enumerate(computation.instructions):
        own = _find_last_tag(module, instruction)
        inherited = max((keys[operand.id][0] for operand in instruction.operands), default=())
        keys[instruction.id] = own or inherited, number
    return keys


def _find_last_tag(module: HloModule, instruction: HloInstruction) -> TagPath:
    found = module.find_tag_path(instruction)
    if instruction.opcode == "fusion":
        for fused in module.computations[instruction.called_computations[0]].instructions:
            found = max(found, _find_last_tag(module, fused))
    return found
