"""Finds how the values of an HLO module depend on one of its parameters, from the definition of each operation alone.

An operation that takes the parameter's own bytes is a *reader* of them. A fusion reads once: all its operations read at
the same time. If an operation may leave an operand unread, a dependence is possible, not certain.
"""

import re
from dataclasses import dataclass, replace

from ligerdiag.hlo.shape import iterate_leaves
from ligerdiag.hlo.xla_pb2 import HloComputationProto, HloInstructionProto, HloModuleProto

_MAY_LEAVE = re.compile(
    "call|while|conditional|custom-call|map|reduce|reduce-window|sort|scatter|select-and-scatter|get-dimension-size"
    "|concatenate|async-done|after-all"
)
"""Opcodes of which a result, or a part of it, may not depend on an operand; so may each of several results."""


@dataclass(frozen=True, slots=True)
class Reads:
    """How a value depends on the parameter."""

    own: bool = False
    """Whether it is the parameter itself."""
    readers: frozenset[int] = frozenset()
    """Places of readers among the operations that are not parameters."""
    certain: bool = True

    def read_at(self, place: int) -> "Reads":
        """Returns the dependence of a result of an operation at that place."""
        return replace(self, own=False, readers=self.readers | {place}) if self.own else self


class ReadsFinder:
    """Finds for each leaf of each value of the entry how it depends on one parameter."""

    def __init__(self, module: HloModuleProto, parameter: int) -> None:
        entry = find_entry(module)
        self._computations = {one.id: one for one in module.computations}
        self._places = {one.id: place for place, one in enumerate(list_operations(entry))}
        given = {
            one.parameter_number: [Reads(own=one.id == parameter)] * _count_leaves(one)
            for one in list_parameters(entry)
        }
        self.found = self._follow(entry, given)

    def _follow(
        self, computation: HloComputationProto, given: dict[int, list[Reads]], place: int | None = None
    ) -> dict[int, list[Reads]]:
        """Returns the leaves of each value. given: those of the parameters. place: that of the surrounding fusion."""
        found: dict[int, list[Reads]] = {}
        shapes = {one.id: one.shape for one in computation.instructions}
        for one in computation.instructions:
            operands = [found[number] for number in one.operand_ids]
            if one.opcode == "parameter":
                found[one.id] = given[one.parameter_number]
            elif one.opcode == "tuple":
                found[one.id] = [leaf for operand in operands for leaf in operand]
            elif one.opcode == "get-tuple-element":
                taken = zip(iterate_leaves(shapes[one.operand_ids[0]]), operands[0], strict=True)
                found[one.id] = [leaf for index, leaf in taken if index[0] == one.tuple_index]
            else:
                found[one.id] = self._read(one, operands, self._places[one.id] if place is None else place)
        return found

    def _read(self, one: HloInstructionProto, operands: list[list[Reads]], place: int) -> list[Reads]:
        """Returns the leaves of the result of an operation that reads all of its operands at once."""
        read = [[leaf.read_at(place) for leaf in operand] for operand in operands]
        called = self._computations[one.called_computation_ids[0]] if one.opcode == "fusion" else None
        if called is not None and len(list_parameters(called)) == len(read):
            return self._follow(called, dict(enumerate(read)), place)[called.root_id]
        leaves = [leaf for operand in read for leaf in operand]
        readers = frozenset[int]().union(*(leaf.readers for leaf in leaves))
        count = _count_leaves(one)
        certain = count == 1 and not _MAY_LEAVE.fullmatch(one.opcode) and all(leaf.certain for leaf in leaves)
        return [Reads(readers=readers, certain=certain or not readers)] * count


def _count_leaves(one: HloInstructionProto) -> int:
    return sum(1 for _ in iterate_leaves(one.shape))


def find_entry(module: HloModuleProto) -> HloComputationProto:
    return next(one for one in module.computations if one.id == module.entry_computation_id)


def list_operations(entry: HloComputationProto) -> list[HloInstructionProto]:
    return [one for one in entry.instructions if one.opcode != "parameter"]


def list_parameters(computation: HloComputationProto) -> list[HloInstructionProto]:
    return [one for one in computation.instructions if one.opcode == "parameter"]
