"""Finds the instruction and the source line that compute an output of the program, or one of several results of a fusion."""

from ligerdiag.hlo.dataflow import Dataflow, PassThrough, Position
from ligerdiag.hlo.module import HloInstruction, HloModule, find_user_line
from ligerdiag.hlo.shape import iterate_leaf_shapes
from ligerdiag.model.findings import SourceLine

_MOST_STEPS = 64
_RENAMES = PassThrough(bitcasts=True, barriers=True, tuples=True)


def find_output(module: HloModule, number: int) -> HloInstruction | None:
    """Returns the instruction that computes an output of a module. It is a parameter if the output is an unchanged argument.
    Returns None if the module has no output with this number.
    """
    found = _find_definition(Dataflow(module, _RENAMES), number)
    return None if found is None else found[0]


def find_element(module: HloModule, position: Position) -> HloInstruction:
    """Returns the instruction that computes the value at a position. If a fusion with several results computes the value,
    this is an instruction inside of the fusion.
    """
    value, index = position
    if value.opcode != "fusion" or not index:
        return value
    root = module.computations[value.called_computations[0]].root
    return root.operands[index[0]] if root.opcode == "tuple" and index[0] < len(root.operands) else value


def find_output_line(program: HloModule | None, optimized: HloModule, number: int) -> SourceLine | None:
    """Returns the user's source line that computes an output; None for an output that returns an argument unchanged.

    program: the module from before the optimizations, in which each output still has its own line; None if unknown.
    """
    for module in (program, optimized):
        line = None if module is None else _find_line(module, number)
        if line is not None:
            return line
    return None


def _find_line(module: HloModule, number: int) -> SourceLine | None:
    flow = Dataflow(module, _RENAMES)
    found = _find_definition(flow, number)
    if found is None:
        return None
    value = find_element(module, found)
    for _ in range(_MOST_STEPS):
        line = None if value.opcode == "parameter" else find_user_line(module, value)
        if line is not None or len(value.operands) != 1:
            return line
        value = find_element(module, flow.find_definition(value.operands[0]))
    return None


def _find_definition(flow: Dataflow, number: int) -> Position | None:
    """Returns the position that defines an output of the module; None if the module has no output with this number."""
    root = flow.module.entry.root
    leaves = [index for index, _ in iterate_leaf_shapes(root.shape)]
    return flow.find_definition(root, leaves[number]) if 0 <= number < len(leaves) else None
