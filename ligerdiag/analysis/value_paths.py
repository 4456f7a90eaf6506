"""From which value an instruction gets what it reads: short paths along operands, through fusions.

A path is a tuple of instructions, from the reader backward. It stays in the computation that it starts in, but for fusions:
a parameter of a fused computation stands for the fusion's operand, and a fusion for what its computation returns; and for
what a loop returns, which is what its body returns. A loop's parameter ends a path; branches are single steps.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ligerdiag.hlo.dataflow import Dataflow, Position, Through, find_way, search
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import ShapeIndex, render_shape

type Path = tuple[HloInstruction, ...]

_SILENT = having(Trait.TAKES_ELEMENT, Trait.MAKES_TUPLE) | {"parameter", "fusion"}
"""Not shown between the ends of a path: they compute nothing themselves."""
_PASSED_ON = having(Trait.TAKES_ELEMENT) | {"parameter", "fusion"}
_COMMON = having(Trait.NO_OPERATION, Trait.FROM_NOTHING)
"""What two values may well have in common without one being a copy of the other."""
_SHOWN = 8


@dataclass(slots=True, eq=False)
class ValuePaths:
    """Looks for paths in one module."""

    module: HloModule
    _flow: Dataflow = field(init=False)

    def __post_init__(self) -> None:
        self._flow = Dataflow(self.module, Through(tuples=True, fusions=True, loop_back=True, arguments=True))

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
        return find_way([start], self._step_around(around), lambda one: one is not start and is_target(one))

    def find_common(
        self, start: HloInstruction, other: HloInstruction, *, around: HloInstruction | None = None
    ) -> Path:
        """A path from `start` to a value that `other` is made from, too, the one that is nearest to `other`; () if none is.

        around: an instruction that no path leads through. What moves bytes alone, parameters and constants do not count.
        """
        reached = search([start], self._step_around(around)).keys() - {start}
        shared = (one for one in search([other], self.list_sources) if one in reached and one.opcode not in _COMMON)
        nearest = next(shared, None)
        return () if nearest is None else self.find(start, lambda one: one is nearest, around=around)

    def _step_around(self, around: HloInstruction | None) -> Callable[[HloInstruction], Iterator[HloInstruction]]:
        return lambda current: (source for source in self.list_sources(current) if source is not around)

    def list_sources(self, instruction: HloInstruction) -> tuple[HloInstruction, ...]:
        """What the instruction reads, one step back; of a tuple only the element that is taken."""
        if instruction.opcode not in _PASSED_ON:
            return instruction.operands
        position = self._pass_on(instruction, ())
        while position is not None and position[1] and (following := self._pass_on(*position)) is not None:
            position = following
        return () if position is None else position[:1]

    def _pass_on(self, instruction: HloInstruction, index: ShapeIndex) -> Position | None:
        callers = self.module.callers.get(self.module.homes[instruction.id].id, ())
        fusions = [caller for caller in callers if caller.opcode == "fusion"]
        return next(self._flow.list_sources(instruction, index, fusions), None)


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
