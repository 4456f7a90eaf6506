"""Scheduled modules from HLO text with a chosen buffer assignment, and a kernel in plain NumPy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ligerdiag.hlo.buffers import BufferAssignment, Slice
from ligerdiag.hlo.custom_calls import CallTrait, is_call_with
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.shape import ShapeIndex
from tests.replay.xla_cpu import parse_text

ARENA = 100
"""Index of the BufferAllocation that values share; entry parameters have one each, by number."""


@dataclass
class Doubling:
    """A kernel that returns a copy of its first operand and then doubles the operand in place."""

    launches: list[tuple[str, list[list[float]]]] = field(default_factory=list)

    def runs(self, instruction: HloInstruction) -> bool:
        return is_call_with(instruction, CallTrait.CARRIES_TRITON)

    def launch(self, call: HloInstruction, operands: Sequence[Any], outputs: Sequence[Any], *, watched: bool) -> None:
        self.launches.append((call.name if watched else "", [operand.tolist() for operand in operands]))
        outputs[0][...] = operands[0].copy()
        operands[0][...] = 2 * operands[0]


def assign(module: HloModule, places: Mapping[str, int | tuple[int, int]]) -> BufferAssignment:
    """Instruction name (or `name{index}`) to its offset in the arena, or to (allocation, offset). 64 bytes each. A name
    missing from the module has no place.
    """
    ids = {i.name: i.id for c in module.computations.values() for i in c.instructions}
    slices: dict[Slice, int] = {}
    definitions: dict[int, list[tuple[ShapeIndex, int]]] = {}
    for key, place in places.items():
        name, _, index = key.removesuffix("}").partition("{")
        if name not in ids:
            continue
        allocation, offset = (ARENA, place) if isinstance(place, int) else place
        number = slices.setdefault(Slice(allocation, offset, 64), len(slices))
        definitions.setdefault(ids[name], []).append(((int(index),) if index else (), number))
    return BufferAssignment(
        slices=tuple(slices),
        definitions={key: tuple(value) for key, value in definitions.items()},
        overlapping={},
        parameters={},
        constants=frozenset(),
    )


def parse(body: str, computations: str = "") -> HloModule:
    """Returns a module with this entry computation, scheduled in the order of its lines."""
    return parse_text(f"HloModule m, is_scheduled=true\n{computations}\nENTRY main {body}\n")


def call(name: str, operand: str, shape: str = "f32[4]") -> str:
    """Returns a line that calls the kernel."""
    return f'{name} = {shape} custom-call({operand}), custom_call_target="triton_kernel_call"'


X = np.arange(1, 5, dtype=np.float32)

LOOP = """body {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  h = f32[4] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  k = f32[4] custom-call(h), custom_call_target="triton_kernel_call"
  ROOT next = (s32[], f32[4]) tuple(j, h)
}
condition {
  cs = (s32[], f32[4]) parameter(0)
  ci = s32[] get-tuple-element(cs), index=0
  three = s32[] constant(3)
  ROOT less = pred[] compare(ci, three), direction=LT
}"""
"""Computations `body` and `condition` of a loop that runs the kernel three times on its state."""
