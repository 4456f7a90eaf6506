"""The structure of a module as lines of text: two modules with the same lines are the same program to XLA.

1. A line is an instruction: opcode, shape with layout, operands, control predecessors, called computations and attributes.
   Instructions and computations have numbers in the place of names and ids: computations in the order in which they are
   first called, the entry first; instructions in the order of the schedule where there is one, else depth first from the
   root, operands in order, and after that what the root does not need.
2. Names, ids, metadata and frontend attributes that name something are left out; so is, of a backend config, what XLA
   estimates (`_ESTIMATES`). A config that is not JSON, such as a kernel's payload, stands by its sha256.
3. Not seen: shardings of instructions, and what the view of the protobuf skips (`xla.proto`).
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, cast

from google.protobuf import text_format

from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule
from ligerdiag.hlo.shape import is_tuple, render_shape
from ligerdiag.hlo.xla_pb2 import HloInstructionProto, ShapeProto

_SAID_OTHERWISE = (
    "name", "id", "opcode", "shape", "metadata", "operand_ids", "control_predecessor_ids", "called_computation_ids",
    "backend_config", "frontend_attributes", "channel_id",
)  # fmt: skip
"""Fields that are left out, or that the line has in other words."""
_ESTIMATES = frozenset({"reification_cost", "device_type", "fusion_name", "scheduling_name"})
"""Entries of a backend config that change nothing that is executed."""
_NAMES = re.compile(r"name$|^_xla_metadata")


@dataclass(frozen=True, slots=True, kw_only=True)
class StructureLine:
    """One instruction without its name."""

    text: str
    """Such as `1.4 = f32[8]{0} add(1.2, 1.3)`."""
    kind: str
    """What the line says without numbers: `f32[8]{0} add`."""
    computation: HloComputation
    instruction: HloInstruction


def compute_fingerprint(module: HloModule, *, payloads: bool = True) -> str:
    """sha256 of the module's structure; `payloads` as for `fingerprint_lines`."""
    digest = sha256()
    for line in fingerprint_lines(module, payloads=payloads):
        digest.update(line.text.encode())
        digest.update(b"\n")
    return digest.hexdigest()


def fingerprint_lines(module: HloModule, *, payloads: bool = True) -> tuple[StructureLine, ...]:
    """The module's structure, the entry computation first.

    payloads: whether a backend config that is not JSON counts: a kernel's holds code for one GPU.
    """
    numbers = _number_computations(module)
    return tuple(line for computation in numbers for line in _compute_lines(computation, numbers, module, payloads))


def _number_computations(module: HloModule) -> dict[HloComputation, int]:
    numbers = {module.entry: 0}
    waiting = [module.entry]
    while waiting:
        for instruction in _list_in_order(waiting.pop(0)):
            for callee in instruction.called_computations:
                computation = module.computations[callee]
                if computation not in numbers:
                    numbers[computation] = len(numbers)
                    waiting.append(computation)
    return numbers


def _list_in_order(computation: HloComputation) -> tuple[HloInstruction, ...]:
    if computation.sequence:
        return computation.sequence
    by_id = {instruction.id: instruction for instruction in computation.instructions}
    ordered: dict[int, HloInstruction] = {}
    rest = [one for one in computation.instructions if one is not computation.root]
    for start in (computation.root, *rest):
        waiting = [(start, False)]
        while waiting:
            instruction, is_ready = waiting.pop()
            if instruction.id in ordered:
                continue
            if is_ready:
                ordered[instruction.id] = instruction
                continue
            waiting.append((instruction, True))
            before = [*instruction.operands, *(by_id[id] for id in instruction.control_predecessors if id in by_id)]
            waiting.extend((one, False) for one in reversed(before))
    return tuple(ordered.values())


def _compute_lines(
    computation: HloComputation, numbers: dict[HloComputation, int], module: HloModule, payloads: bool
) -> Iterator[StructureLine]:
    number = numbers[computation]
    order = _list_in_order(computation)
    places = {instruction.id: f"{number}.{place}" for place, instruction in enumerate(order)}
    for instruction in order:
        operands = ", ".join(places[operand.id] for operand in instruction.operands)
        head = f"{render_shape_with_layout(instruction.shape)} {instruction.opcode}"
        attributes = list(_render_attributes(instruction.proto, payloads))
        numbered: list[str] = []
        if instruction is computation.root:
            numbered.append("root")
        if instruction.control_predecessors:
            before = sorted(places.get(id, "?") for id in instruction.control_predecessors)
            numbered.append(f"after={','.join(before)}")
        if instruction.called_computations:
            called = (str(numbers[module.computations[id]]) for id in instruction.called_computations)
            numbered.append(f"calls={','.join(called)}")
        yield StructureLine(
            text=" ".join((f"{places[instruction.id]} = {head}({operands})", *numbered, *attributes)),
            kind=" ".join((head, *attributes)),
            computation=computation,
            instruction=instruction,
        )


def _render_attributes(proto: HloInstructionProto, payloads: bool) -> Iterator[str]:
    rest = HloInstructionProto()
    rest.CopyFrom(proto)
    for name in _SAID_OTHERWISE:
        rest.ClearField(name)  # type: ignore[arg-type]
    if text := text_format.MessageToString(rest, as_one_line=True).strip():
        yield text
    kept = {key: value for key, value in proto.frontend_attributes.map.items() if not _NAMES.search(key)}
    if kept:
        yield json.dumps(kept, sort_keys=True)
    if proto.backend_config:
        config = _render_config(bytes(proto.backend_config))
        if config is not None:
            yield config
        elif payloads:
            yield f"payload={sha256(proto.backend_config).hexdigest()[:16]}"


def _render_config(config: bytes) -> str | None:
    """The JSON without estimates; None when it is none."""
    try:
        value: Any = json.loads(config)
    except ValueError:
        return None
    return json.dumps(_drop_estimates(value), sort_keys=True, separators=(",", ":"))


def _drop_estimates(value: Any) -> Any:
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value)
        return {key: _drop_estimates(one) for key, one in items.items() if key not in _ESTIMATES}
    if isinstance(value, list):
        return [_drop_estimates(one) for one in cast("list[Any]", value)]
    return value


def render_shape_with_layout(shape: ShapeProto) -> str:
    """Such as `f32[4,8]{1,0}`, with the memory space where it is not the usual one: `f32[4]{0:S(5)}`."""
    if is_tuple(shape):
        return f"({', '.join(render_shape_with_layout(child) for child in shape.tuple_shapes)})"
    text = render_shape(shape)
    order = ",".join(map(str, shape.layout.minor_to_major))
    space = f":S({shape.layout.memory_space})" if shape.layout.memory_space else ""
    return f"{text}{{{order}{space}}}" if order or space else text
