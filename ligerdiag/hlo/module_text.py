"""Renders a module as text: as HLO text for people to read, and as lines that are equal for equal programs.

`fingerprint_lines` renders the structure; two modules with the same lines are the same program to XLA. A line is an
instruction: opcode, shape with layout, operands, control predecessors, called computations and attributes. Numbers replace
the names and ids of instructions and computations. Computations are numbered in the order of their first call, the entry
first. Instructions are numbered in the order of the schedule where there is one, otherwise depth first from the root,
operands in order, then the instructions that the root does not need. Names, ids, metadata and frontend attributes that name
something are left out, and so are XLA's estimates in a backend config (`_ESTIMATES`). A config that is not JSON, such as a
kernel's payload, is replaced by its sha256. Shardings of instructions, and fields that the protobuf view skips
(`xla.proto`), do not count.

`HloText` renders the data flow for people. XLA cannot read this text, because it omits metadata, backend configs, large
constants and the rarer attributes.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, cast

from google.protobuf import text_format

from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import count_elements, is_tuple, render_index, render_shape
from ligerdiag.hlo.xla_pb2 import HloInstructionProto, LiteralProto, ShapeProto

_SAID_OTHERWISE = (
    "name", "id", "opcode", "shape", "metadata", "operand_ids", "control_predecessor_ids", "called_computation_ids",
    "backend_config", "frontend_attributes", "channel_id",
)  # fmt: skip
"""Fields of an instruction that are left out of its line, or that the line expresses otherwise."""
_ESTIMATES = frozenset({"reification_cost", "device_type", "fusion_name", "scheduling_name"})
"""Entries of a backend config that are XLA's estimates and do not change what runs."""
_NAMES = re.compile(r"name$|^_xla_metadata")


@dataclass(frozen=True, slots=True, kw_only=True)
class StructureLine:
    """One instruction as a line of text, in which numbers replace all names."""

    text: str
    """The line, such as `1.4 = f32[8]{0} add(1.2, 1.3)`, where numbers replace names."""
    kind: str
    """The line without these numbers, such as `f32[8]{0} add`."""
    instruction: HloInstruction


def compute_fingerprint(module: HloModule, *, payloads: bool = True) -> str:
    """Returns a sha256 of a module's structure. Modules that differ only in names and metadata have the same. payloads:
    whether a kernel's payload counts, as for `fingerprint_lines`.
    """
    digest = sha256()
    for line in fingerprint_lines(module, payloads=payloads):
        digest.update(line.text.encode())
        digest.update(b"\n")
    return digest.hexdigest()


def fingerprint_lines(module: HloModule, *, payloads: bool = True) -> tuple[StructureLine, ...]:
    """Returns the lines of a module's structure, the entry computation first. Two modules with equal lines are the same
    program to XLA, whatever their names are.

    payloads: whether a backend config that is not JSON counts. Kernels have such a config, with code for one GPU.
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
    """Returns a backend config's JSON without XLA's estimates; None if the config is not JSON."""
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
    """Returns text such as `f32[4,8]{1,0}`, with the memory space if it is not the default one: `f32[4]{0:S(5)}`."""
    if is_tuple(shape):
        return f"({', '.join(render_shape_with_layout(child) for child in shape.tuple_shapes)})"
    text = render_shape(shape)
    order = ",".join(map(str, shape.layout.minor_to_major))
    space = f":S({shape.layout.memory_space})" if shape.layout.memory_space else ""
    return f"{text}{{{order}{space}}}" if order or space else text


_CALLS = having(Trait.CALLEE_TAKES_OPERANDS) - {"call"}
_MOST_CHARACTERS = 2000
"""Most characters of one line; a longer one, such as that of a tuple of a thousand values, is cut."""


@dataclass(slots=True, eq=False)
class HloText:
    """Renders one module as HLO text for people to read."""

    module: HloModule
    _shapes: dict[bytes, str] = field(default_factory=dict[bytes, str])
    """Maps a serialized shape to its text, because a module has many values but few shapes."""
    _names: Mapping[int, str] | None = None
    """Maps instruction id to name, for the names of control predecessors."""

    def render_instruction(self, instruction: HloInstruction) -> str:
        """Returns a line such as `%a = f32[4,8]{1,0} fusion(%b, %c), kind=kLoop, calls=%fused_computation`."""
        match instruction.opcode:
            case "parameter":
                operands = str(instruction.proto.parameter_number)
            case "constant":
                operands = _render_literal(instruction.proto.literal)
            case _:
                operands = ", ".join(["%" + operand.name for operand in instruction.operands])
        attributes = "".join([f", {one}" for one in self._list_attributes(instruction)])
        shape = self._render_shape(instruction.shape)
        return _clean(f"%{instruction.name} = {shape} {instruction.opcode}({operands}){attributes}")

    def render_computation(self, computation: HloComputation) -> Iterator[tuple[int, str]]:
        """Yields (instruction id, line) for each instruction in schedule order. The header and the closing brace have id
        0.
        """
        parameters = ", ".join([f"{one.name}: {self._render_shape(one.shape)}" for one in computation.parameters])
        start = "ENTRY " if computation is self.module.entry else ""
        result = self._render_shape(computation.root.shape)
        yield 0, _clean(f"{start}%{computation.name} ({parameters}) -> {result} {{")
        for instruction in computation.sequence or computation.instructions:
            root = "ROOT " if instruction is computation.root else ""
            yield instruction.id, f"  {root}{self.render_instruction(instruction)}"
        yield 0, "}"

    def render_module(self) -> Iterator[tuple[int, str]]:
        """Yields (instruction id, line) for all computations, callees first, with an empty line between two computations."""
        yield 0, _clean(f"HloModule {self.module.name}")
        for computation in self.module.computations.values():
            yield 0, ""
            yield from self.render_computation(computation)

    def _render_shape(self, shape: ShapeProto) -> str:
        key = shape.SerializeToString()
        found = self._shapes.get(key)
        if found is None:
            found = self._shapes[key] = render_shape_with_layout(shape)
        return found

    def _list_attributes(self, instruction: HloInstruction) -> Iterator[str]:
        proto, opcode = instruction.proto, instruction.opcode
        render = _ATTRIBUTES.get(opcode)
        if render is not None:
            yield render(proto)
        if instruction.called_computations:
            yield from self._list_callees(instruction)
        if opcode == "custom-call":
            yield f'custom_call_target="{proto.custom_call_target}"'
        if proto.dimensions:
            yield f"dimensions={render_index(proto.dimensions)}"
        if proto.output_operand_aliasing:
            aliases = [
                f"{render_index(a.output_shape_index)}: ({a.operand_index}, {render_index(a.operand_shape_index)})"
                for a in proto.output_operand_aliasing
            ]
            yield f"output_to_operand_aliasing={{{', '.join(aliases)}}}"
        if instruction.control_predecessors:
            if self._names is None:
                self._names = {one.id: one.name for one in self.module.instructions}
            before = [f"%{self._names.get(one, one)}" for one in instruction.control_predecessors]
            yield f"control-predecessors={{{', '.join(before)}}}"

    def _list_callees(self, instruction: HloInstruction) -> Iterator[str]:
        names = [f"%{self.module.computations[callee].name}" for callee in instruction.called_computations]
        if instruction.opcode == "while":
            yield f"condition={names[1]}, body={names[0]}"
        elif instruction.opcode == "conditional":
            yield f"branch_computations={{{', '.join(names)}}}"
        else:
            yield f"{'calls' if instruction.opcode in _CALLS else 'to_apply'}={names[0]}"


def _render_literal(literal: LiteralProto) -> str:
    """Returns the text of a scalar constant; `{...}` for anything larger, and for types that are kept as bytes."""
    if is_tuple(literal.shape) or count_elements(literal.shape) != 1:
        return "{...}"
    if literal.preds:
        return "true" if literal.preds[0] else "false"
    whole = literal.s32s or literal.s64s or literal.u32s or literal.u64s
    if whole:
        return str(whole[0])
    real = literal.f32s or literal.f64s
    return f"{real[0]:g}" if real else "{...}"


def _render_slice(proto: HloInstructionProto) -> str:
    ranges = [
        f"[{one.start}:{one.limit}{f':{one.stride}' if one.stride != 1 else ''}]" for one in proto.slice_dimensions
    ]
    return f"slice={{{', '.join(ranges)}}}"


def _render_dot(proto: HloInstructionProto) -> str:
    numbers = proto.dot_dimension_numbers
    parts = {
        "lhs_batch_dims": numbers.lhs_batch_dimensions,
        "lhs_contracting_dims": numbers.lhs_contracting_dimensions,
        "rhs_batch_dims": numbers.rhs_batch_dimensions,
        "rhs_contracting_dims": numbers.rhs_contracting_dimensions,
    }
    return ", ".join([f"{name}={render_index(values)}" for name, values in parts.items() if values])


_ATTRIBUTES: Mapping[str, Callable[[HloInstructionProto], str]] = {
    "fusion": lambda proto: f"kind={proto.fusion_kind}",
    "get-tuple-element": lambda proto: f"index={proto.tuple_index}",
    "compare": lambda proto: f"direction={proto.comparison_direction}",
    "slice": _render_slice,
    "dynamic-slice": lambda proto: f"dynamic_slice_sizes={render_index(proto.dynamic_slice_sizes)}",
    "dot": _render_dot,
}


def _clean(line: str) -> str:
    """Returns the line without control characters, which names from a file may contain, and cut if it is too long to
    read.
    """
    if len(line) > _MOST_CHARACTERS:
        line = line[:_MOST_CHARACTERS] + " ..."
    if line.isprintable():
        return line
    return "".join([" " if c.isspace() else c for c in line if c.isprintable() or c.isspace()])
