"""Decides whether an instruction may write a result into the bytes of an operand that no later instruction reads.

The instruction may do so if it reads no element of the operand after it has written over that element. XLA reuses the bytes
of operands by the same rule, one operation at a time (CanShareOperandBufferWithUser in
xla/hlo/analysis/hlo_dataflow_analysis.cc, and xla/service/gpu/buffer_sharing.cc). These operations may write over an
operand:

- an operation that needs only element i of the operand for element i of the result, a sort, and a collective that NCCL
  computes in place; with several operands, result i may overwrite operand i only. A copy or a transpose may if the
  elements keep their order in memory;
- an in-place update, and a call that declares an alias (`aliasing.find_in_place`);
- a library call that adds to an operand: cuBLAS to its third, and the call that cuSOLVER decomposes to its first. No
  other custom call may;
- a fusion, if elements keep their place on every path from the parameter to a result. A kInput fusion computes its
  reductions first, so one result may overwrite a parameter from which a reduction computes another result. A kernel that XLA
  generates in Triton (kCustom) loads a whole row before it stores any of it. XLA joins unrelated results in one fusion by a
  concatenate and takes them apart again by slices: each of those slices is one operand of the concatenate, in the same
  place.

Every operation may write over an operand of a single element. An operation that is not listed is assumed to be allowed to
write over any operand, because an operation that this module does not know must not cause a finding.
"""

from itertools import chain

from ligerdiag.hlo.aliasing import find_in_place
from ligerdiag.hlo.dataflow import look_through, search
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import ShapeIndex, count_elements, is_tuple

_REARRANGES = having(Trait.REARRANGES)
_ORDERED = frozenset({"copy", "transpose"})
_UPDATES = having(Trait.IN_PLACE) - having(Trait.COLLECTIVE)
_ADDS_TO = {"__cublas$": 2, "__cusolver$": 0}
"""Maps the prefix of a custom call's target to the number of the first operand that the call writes over."""
_BY_OPERAND = having(Trait.OPERANDWISE) | {"sort"}
_SAME_PLACE = having(Trait.ELEMENTWISE) | {"bitcast"}
_BY_ROW = frozenset({"broadcast", "reduce"})


def may_write_over(module: HloModule, instruction: HloInstruction, index: ShapeIndex, number: int) -> bool:
    """Returns whether an instruction may write a leaf of its result into exactly the bytes of an operand. index: the leaf.
    number: number of the operand.
    """
    operand = instruction.operands[number]
    if is_tuple(operand.shape) or count_elements(operand.shape) == 1:
        return True
    for output, (given, inner) in find_in_place(module, instruction):
        if output == index and given is operand and not inner:
            return True
    for alias in module.invalid_aliases:
        if alias.is_shared and (alias.instruction, alias.output, alias.operand) == (instruction.id, index, number):
            return True
    if instruction.opcode == "fusion":
        return _may_fusion(module.computations[instruction.called_computations[0]], instruction, index, number)
    if instruction.opcode in _BY_OPERAND and index and index[0] != number:
        return False
    return not _moves_elements(instruction, number)


def _moves_elements(one: HloInstruction, number: int) -> bool:
    """Returns whether an element of the result may need an element of operand `number` in another place. one: any
    instruction except a fusion.
    """
    if one.opcode == "custom-call":
        target = one.proto.custom_call_target
        own = next((first for prefix, first in _ADDS_TO.items() if target.startswith(prefix)), None)
        return number not in one.operand_output_aliases and (own is None or number < own)
    if one.opcode in _ORDERED and not is_tuple(one.shape):
        order = _list_order(one)
        if one.opcode == "transpose":
            numbers = dict(enumerate(one.proto.dimensions))
            order = [numbers.get(dimension, -1) for dimension in order]
        return order != _list_order(one.operands[0])
    return one.opcode in _REARRANGES or (one.opcode in _UPDATES and number > 0)


def _list_order(value: HloInstruction) -> list[int]:
    """Returns the dimensions that have more than one element, in their order in memory, fastest first."""
    sizes = dict(enumerate(value.shape.dimensions))
    return [number for number in value.shape.layout.minor_to_major if sizes.get(number, 0) > 1]


def _may_fusion(fused: HloComputation, fusion: HloInstruction, index: ShapeIndex, number: int) -> bool:
    """Returns whether a fusion may write the result at `index` over its parameter with that number."""
    kind, result = fusion.proto.fusion_kind, _find_result(fused, index)
    parameter = fused.parameters[number]
    if _is_updated(parameter, result):
        return True

    def list_users(value: HloInstruction) -> tuple[HloInstruction, ...]:
        is_end = value.opcode == "custom-call" or (value.opcode == "reduce" and kind != "kCustom")
        return () if is_end else _list_users(fused, value)

    reached = search([parameter], list_users)
    if kind != "kCustom":
        reductions = [one for one in reached if one.opcode == "reduce"]
        if reductions and (kind != "kInput" or result in search(reductions, lambda one: _list_users(fused, one))):
            return False
    parts = {_find_range(one) for one in reached if one.opcode == "slice" and one.operands[0] not in reached}
    if not parts <= {_find_range(look_through(result, _SAME_PLACE))}:
        return False
    return not any(
        operand in reached and _moves_elements(one, place)
        for one in reached
        if not (kind == "kCustom" and one.opcode in _BY_ROW)
        for place, operand in enumerate(one.operands)
    )


def _list_users(fused: HloComputation, value: HloInstruction) -> tuple[HloInstruction, ...]:
    """Returns the users of a value. In place of a concatenate that is only taken apart into its operands again, these
    are the slices that are `value`.
    """
    users: list[HloInstruction] = []
    for user in fused.users[value.id]:
        parts = _find_parts(fused, user) if user.opcode == "concatenate" else None
        users += [user] if parts is None else [part for part, operand in parts if operand is value]
    return tuple(users)


def _find_parts(fused: HloComputation, joined: HloInstruction) -> list[tuple[HloInstruction, HloInstruction]] | None:
    """Returns pairs (slice, operand) of equal values if each user of a concatenate is a slice that is one of its
    operands; otherwise None.
    """
    dimension = joined.proto.dimensions[0]
    starts, at = dict[tuple[int, int], HloInstruction](), 0
    for operand in joined.operands:
        size = operand.shape.dimensions[dimension]
        starts[at, at + size] = operand
        at += size
    parts: list[tuple[HloInstruction, HloInstruction]] = []
    for user in fused.users[joined.id]:
        bounds = user.proto.slice_dimensions
        if user.opcode != "slice" or any(one.stride != 1 for one in bounds):
            return None
        operand = starts.get((bounds[dimension].start, bounds[dimension].limit))
        if operand is None or list(user.shape.dimensions) != list(operand.shape.dimensions):
            return None
        parts.append((user, operand))
    return parts


def _find_range(value: HloInstruction) -> tuple[int, ...]:
    """Returns the number of the sliced value and the bounds of the slice; () if `value` is not a slice.

    A thread computes one element of the concatenate, so two slices of the same range are computed by the same threads.
    """
    bounds = [(one.start, one.limit) for one in value.proto.slice_dimensions]
    return (value.operands[0].id, *chain.from_iterable(bounds)) if value.opcode == "slice" else ()


def _find_result(fused: HloComputation, index: ShapeIndex) -> HloInstruction:
    value = fused.root
    for place in index:
        if value.opcode != "tuple":
            break
        value = value.operands[place]
    return value


def _is_updated(parameter: HloInstruction, result: HloInstruction) -> bool:
    """Returns whether the result is the parameter with some of its elements changed."""
    value = look_through(result, _SAME_PLACE)
    return value.opcode in _UPDATES and look_through(value.operands[0], _SAME_PLACE) is parameter
