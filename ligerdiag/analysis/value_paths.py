"""From which value an instruction gets what it reads: short paths along operands, through fusions.

A path is a tuple of instructions, from the reader backward. It stays in the computation that it starts in, but for fusions:
a parameter of a fused computation stands for the fusion's operand, and a fusion for what its computation returns; and for
what a loop returns, which is what its body returns. A loop's parameter ends a path; branches are single steps.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import render_shape

type Path = tuple[HloInstruction, ...]

_SILENT = having(Trait.TAKES_ELEMENT, Trait.MAKES_TUPLE) | {"parameter", "fusion"}
"""Not shown between the ends of a path: they compute nothing themselves."""
_COMMON = having(Trait.NO_OPERATION, Trait.FROM_NOTHING)
"""What two values may well have in common without one being a copy of the other."""
_SHOWN = 8


@dataclass(slots=True, eq=False)
class ValuePaths:
    """Looks for paths in one module."""

    module: HloModule
    _fusions: Mapping[int, HloInstruction] = field(init=False)
    """Id of a fused computation to the fusion."""
    _homes: Mapping[int, int] = field(init=False)
    """Id of a fused instruction to its computation's."""

    def __post_init__(self) -> None:
        self._fusions = {
            i.called_computations[0]: i
            for c in self.module.computations.values()
            for i in c.instructions
            if i.opcode == "fusion"
        }
        self._homes = {i.id: c.id for c in self.module.computations.values() for i in c.instructions if c.is_fusion}

    def find(
        self,
        start: HloInstruction,
        is_target: Callable[[HloInstruction], bool],
        *,
        around: HloInstruction | None = None,
    ) -> Path:
        """A shortest path from `start`, which does not count itself, to a target; () where there is none.

        around: an instruction that no path leads through.
        """
        before: dict[int, HloInstruction | None] = {start.id: None}
        pending = deque([start])
        while pending:
            current = pending.popleft()
            for source in self.list_sources(current):
                if source.id in before or source is around:
                    continue
                before[source.id] = current
                if is_target(source):
                    return self._trace(source, before)
                pending.append(source)
        return ()

    def find_common(
        self, start: HloInstruction, other: HloInstruction, *, around: HloInstruction | None = None
    ) -> Path:
        """A path from `start` to a value that `other` is made from, too, the one that is nearest to `other`; () if none is.

        around: an instruction that no path leads through. What moves bytes alone, parameters and constants do not count.
        """
        distances = {one.id: number for number, one in enumerate(self._walk(other, None)) if one.opcode not in _COMMON}
        shared = [one for one in self._walk(start, around) if one.id in distances and one is not start]
        nearest = min(shared, key=lambda one: distances[one.id], default=None)
        return () if nearest is None else self.find(start, lambda one: one is nearest, around=around)

    def _walk(self, start: HloInstruction, around: HloInstruction | None) -> Iterator[HloInstruction]:
        """All that `start` may be computed from, itself first, then step by step further back."""
        seen = {start.id}
        pending = deque([start])
        while pending:
            current = pending.popleft()
            yield current
            for source in self.list_sources(current):
                if source.id not in seen and source is not around:
                    seen.add(source.id)
                    pending.append(source)

    def list_sources(self, instruction: HloInstruction) -> Iterator[HloInstruction]:
        """What the instruction reads, one step back."""
        match instruction.opcode:
            case "parameter":
                fusion = self._fusions.get(self._homes.get(instruction.id, -1))
                if fusion is not None:
                    yield fusion.operands[instruction.proto.parameter_number]
            case "fusion":
                yield self.module.computations[instruction.called_computations[0]].root
            case "get-tuple-element" if instruction.operands[0].opcode == "fusion":
                root = self.module.computations[instruction.operands[0].called_computations[0]].root
                yield root.operands[instruction.proto.tuple_index] if root.opcode == "tuple" else root
            case "get-tuple-element" if instruction.operands[0].opcode == "while":
                root = self.module.computations[instruction.operands[0].called_computations[0]].root
                yield root.operands[instruction.proto.tuple_index] if root.opcode == "tuple" else root
            case "get-tuple-element" if instruction.operands[0].opcode == "tuple":
                yield instruction.operands[0].operands[instruction.proto.tuple_index]
            case _:
                yield from instruction.operands

    @staticmethod
    def _trace(end: HloInstruction, before: Mapping[int, HloInstruction | None]) -> Path:
        path: list[HloInstruction] = []
        current: HloInstruction | None = end
        while current is not None:
            path.append(current)
            current = before[current.id]
        return tuple(reversed(path))


def render_instruction(instruction: HloInstruction) -> str:
    """One line, such as `add.3 = f32[8] add(convert.1, broadcast.2)`."""
    operands = ", ".join(operand.name for operand in instruction.operands)
    opcode = instruction.proto.custom_call_target if instruction.opcode == "custom-call" else instruction.opcode
    return f"{instruction.name} = {render_shape(instruction.shape)} {opcode}({operands})"


def render_value(instruction: HloInstruction) -> str:
    """Name and shape, such as `convert.1 f32[8]`."""
    return f"{instruction.name} {render_shape(instruction.shape)}"


def render_path(path: Path) -> str:
    """What a path leads through behind its start, such as `convert.1 f32[8] <- add.2 bf16[8]`."""
    shown = [one for one in path[1:-1] if one.opcode not in _SILENT] + list(path[-1:])
    if len(shown) > _SHOWN:
        return " <- ".join([*map(render_value, shown[: _SHOWN - 1]), "...", render_value(shown[-1])])
    return " <- ".join(map(render_value, shown))
