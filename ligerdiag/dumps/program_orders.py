"""HLO text does not say in which order the author wrote the operations: it lists them as the root's operands ask for them.

The protobuf of the module before optimizations has ids that rise in program order, text has none. What is certain is
less: an operation comes after its operands, and calls whose names differ only in XLA's counter come in its order. So
the program is given in the two orders that are furthest apart: every kernel call as early as possible, and as late as
possible. A result that is the same for both does not depend on the order; the rest is unknown. Where calls have names
of several kinds, either kind may be first.
"""

import re
from collections.abc import Callable, Iterable, Sequence

from ligerdiag.hlo.xla_pb2 import HloComputationProto, HloInstructionProto, HloModuleProto

_COUNTER = re.compile(r"(.*?)(?:\.(\d{1,18}))?")
_ANNOTATIONS = frozenset(
    {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "LayoutConstraint", "xla.sdy.FuncResultSharding"}
)
"""Custom calls that do nothing at run time."""


def make_program_orders(module: HloModuleProto) -> tuple[HloModuleProto, ...]:
    """Returns the module with its instructions numbered anew, in orders that are furthest apart; one where it has no
    kernel call.

    Computations come before those that call them, as in every well-formed module.
    """
    holders = _find_holders(module)
    calls = [i for computation in module.computations for i in computation.instructions if _is_kernel_call(i)]
    if not calls:
        return (module,)
    kinds = len({_split_name(call.name)[0] for call in calls})
    numberings: list[Callable[[HloComputationProto], list[int]]] = []
    for backward in (False, True) if kinds > 1 else (False,):
        for arrange in (_arrange_early, _arrange_late):

            def number(
                computation: HloComputationProto,
                backward: bool = backward,
                arrange: Callable[[HloComputationProto, Sequence[int]], list[int]] = arrange,
            ) -> list[int]:
                return arrange(computation, _sort_calls(computation, holders, backward=backward))

            numberings.append(number)
    return tuple(_renumber(module, number) for number in numberings)


def _is_kernel_call(instruction: HloInstructionProto) -> bool:
    return instruction.opcode == "custom-call" and instruction.custom_call_target not in _ANNOTATIONS


def _find_holders(module: HloModuleProto) -> frozenset[int]:
    """Returns the ids of the computations that hold a kernel call, directly or in a computation that they call."""
    found: set[int] = set()
    for computation in module.computations:
        if any(
            _is_kernel_call(instruction) or not found.isdisjoint(instruction.called_computation_ids)
            for instruction in computation.instructions
        ):
            found.add(computation.id)
    return frozenset(found)


def _split_name(name: str) -> tuple[str, int]:
    match = _COUNTER.fullmatch(name)
    return (match[1], int(match[2] or 0)) if match else (name, 0)


def _sort_calls(computation: HloComputationProto, holders: frozenset[int], *, backward: bool) -> list[int]:
    """Ids of the instructions that run a kernel, in the order of their names' counters, kind by kind."""
    calls = [
        i for i in computation.instructions if _is_kernel_call(i) or not holders.isdisjoint(i.called_computation_ids)
    ]
    kinds = sorted({_split_name(call.name)[0] for call in calls}, reverse=backward)
    calls.sort(key=lambda call: (kinds.index(_split_name(call.name)[0]), _split_name(call.name)[1]))
    return [call.id for call in calls]


def _arrange_early(computation: HloComputationProto, calls: Sequence[int]) -> list[int]:
    """Returns an order with each call right after the operations it needs, call by call; then the rest."""
    needs = {i.id: (*i.operand_ids, *i.control_predecessor_ids) for i in computation.instructions}
    return _emit(needs, (*calls, *needs))


def _arrange_late(computation: HloComputationProto, calls: Sequence[int]) -> list[int]:
    """The same from the end: what needs a call behind it, the last call first; then the rest before them."""
    needed_by: dict[int, list[int]] = {i.id: [] for i in computation.instructions}
    for instruction in computation.instructions:
        for operand in (*instruction.operand_ids, *instruction.control_predecessor_ids):
            needed_by.setdefault(operand, []).append(instruction.id)
    return _emit(needed_by, (*reversed(calls), *reversed(needed_by)))[::-1]


def _emit(needs: "dict[int, tuple[int, ...]] | dict[int, list[int]]", wanted: Iterable[int]) -> list[int]:
    """Returns the wanted ids, each once, after all that it needs. What goes in a circle comes out in some order."""
    order: list[int] = []
    entered: set[int] = set()
    for target in wanted:
        stack = [(target, iter(needs.get(target, ())))] if target not in entered else []
        entered.add(target)
        while stack:
            current, rest = stack[-1]
            following = next((i for i in rest if i not in entered and i in needs), None)
            if following is None:
                order.append(current)
                stack.pop()
            else:
                entered.add(following)
                stack.append((following, iter(needs[following])))
    return order


def _renumber(module: HloModuleProto, number: Callable[[HloComputationProto], list[int]]) -> HloModuleProto:
    """Returns a copy whose ids rise, computation by computation, in the order that is given."""
    out = HloModuleProto()
    out.CopyFrom(module)
    for computation in out.computations:
        order = number(computation)
        new = dict(zip(order, sorted(order), strict=True))
        for instruction in computation.instructions:
            instruction.id = new.get(instruction.id, instruction.id)
            for ids in (instruction.operand_ids, instruction.control_predecessor_ids):
                ids[:] = [new.get(i, i) for i in ids]
        computation.root_id = new.get(computation.root_id, computation.root_id)
    return out
