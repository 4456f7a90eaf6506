"""Draws other orders in which XLA may run a scheduled module: each respects its operands and control edges.

An order gives every computation of the schedule its own sequence, also the computations of loops, branches and calls. It
respects

- operands and control predecessors;
- asynchronous spans: a done comes after its start. The start may read its operands and run its computation as late as
  its done; some orders do that;
- the order among instructions that have effects besides their results: random state, infeed and outfeed, sends and
  receives.

Nothing else is fixed. The orders have names: `kernels first` and `kernels last` run each kernel as early, or as late, as
possible. `one kernel first` and `one kernel last` do so for one kernel and order the rest at random. If nothing orders a
read with a kernel, the read comes before the kernel in one order and after it in another. `random` orders everything at
random.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from ligerdiag.hlo.dataflow import search
from ligerdiag.hlo.module import HloComputation, HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having

_RUNS = having(Trait.RUNS_SCHEDULED) | {"fusion"}
_STARTS = having(Trait.START)
_IN_ORDER = having(Trait.PEER_TO_PEER, Trait.TOKEN, Trait.HAS_EFFECTS)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LegalOrder:
    """One order in which XLA may run a scheduled module."""

    name: str
    """Name of the order, such as `kernels last`."""
    sequences: Mapping[int, tuple[HloInstruction, ...]]
    """Maps the id of each computation that has a schedule to the computation's instructions in this order."""
    late: frozenset[int] = frozenset()
    """Ids of the asynchronous starts whose operation runs only when the matching done is reached."""


def draw_orders(module: HloModule, kernels: Collection[int], count: int) -> Iterator[LegalOrder]:
    """Yields `count` orders in which XLA may run the module. Every call with the same arguments yields the same orders.

    kernels: ids of the custom calls to run as early or as late as possible, including calls in fusions.
    """
    scheduled = [one for one in module.computations.values() if one.sequence]
    holders = _find_holders(module, kernels)
    edges = {one.id: _find_needed(one) for one in scheduled}
    starts = [one.id for home in scheduled for one in home.sequence if one.opcode in _STARTS]
    ways = [_find_path(module, number) for number in kernels]
    ways = [way for way in ways if way]
    for number in range(count):
        numbers = Random(f"0 {number}")
        chosen: Mapping[int, tuple[int, ...]] = numbers.choice(ways) if ways else {}
        kind = _KINDS[number % 2] if number < 2 or not ways else _KINDS[2 + number % 3]
        match kind:
            case "kernels first":
                sequences = {one.id: _run_first(one, edges[one.id], holders, None) for one in scheduled}
            case "kernels last":
                sequences = {one.id: _run_last(one, edges[one.id], holders, None) for one in scheduled}
            case "one kernel first":
                sequences = {
                    one.id: _run_first(one, edges[one.id], chosen.get(one.id, ()), numbers) for one in scheduled
                }
            case "one kernel last":
                sequences = {
                    one.id: _run_last(one, edges[one.id], chosen.get(one.id, ()), numbers) for one in scheduled
                }
            case _:
                sequences = {one.id: _run_last(one, edges[one.id], (), numbers) for one in scheduled}
        late = frozenset(one for one in starts if numbers.random() < 0.5)
        yield LegalOrder(name=f"{kind} ({number})", sequences=sequences, late=late if number else frozenset())


_KINDS = ("kernels first", "kernels last", "one kernel first", "one kernel last", "random")


def _find_holders(module: HloModule, kernels: Collection[int]) -> frozenset[int]:
    """Returns the ids of the kernels' custom calls, and of all instructions that run them: fusions, loops, branches,
    calls.
    """
    found = set(kernels)
    for computation in module.computations.values():  # callees before callers
        if any(one.id in found for one in computation.instructions):
            found.update(caller.id for caller in module.callers.get(computation.id, ()) if caller.opcode in _RUNS)
    return frozenset(found)


def _find_path(module: HloModule, kernel: int) -> Mapping[int, tuple[int, ...]]:
    """Maps each computation on the path from the entry to this kernel to the ids of its instructions that run the
    kernel.
    """
    if kernel not in module.homes:
        return {}
    reached = search([module.homes[kernel].id], lambda number: [
        module.homes[caller.id].id for caller in module.callers.get(number, ()) if caller.opcode in _RUNS
    ])  # fmt: skip
    found: dict[int, tuple[int, ...]] = {}
    for number in reached:
        running = [one.id for one in module.computations[number].instructions if one.id == kernel]
        running += [
            caller.id
            for callee in reached
            for caller in module.callers.get(callee, ())
            if module.homes[caller.id].id == number
        ]
        found[number] = tuple(running)
    return found


def _find_needed(computation: HloComputation) -> Mapping[int, tuple[int, ...]]:
    """Maps each instruction's id to the ids of the instructions that must come before it, each once: operands, control
    predecessors, and earlier instructions with effects.
    """
    known = {one.id for one in computation.sequence}
    needed: dict[int, tuple[int, ...]] = {}
    last = 0
    for one in computation.sequence:
        before = [*[operand.id for operand in one.operands], *[p for p in one.control_predecessors if p in known]]
        if one.opcode in _IN_ORDER:
            before += [last] if last else []
            last = one.id
        needed[one.id] = tuple(dict.fromkeys(before))
    return needed


def _run_first(
    computation: HloComputation, needed: Mapping[int, tuple[int, ...]], kernels: Collection[int], numbers: Random | None
) -> tuple[HloInstruction, ...]:
    """Returns an order that runs each kernel as soon as all that it needs has run, and everything that no kernel needs
    after the last kernel.

    kernels: ids of the instructions that run them. numbers: if given, chooses at random among kernels that are ready,
    among instructions that some kernel needs, and among the rest; otherwise the schedule decides.
    """
    listed = [one.id for one in computation.sequence]
    chosen = [number for number in listed if number in kernels]
    if numbers is not None:
        numbers.shuffle(chosen)
    first = search(chosen, lambda number: needed[number])
    return _sort(
        computation, needed, {number: (number not in first, number not in kernels) for number in listed}, numbers
    )


def _run_last(
    computation: HloComputation, needed: Mapping[int, tuple[int, ...]], kernels: Collection[int], numbers: Random | None
) -> tuple[HloInstruction, ...]:
    """Returns an order that runs a kernel only when nothing else can run. numbers: if given, chooses at random among
    kernels that are ready, and among other instructions that are; otherwise the schedule decides.
    """
    return _sort(computation, needed, {one.id: (False, one.id in kernels) for one in computation.sequence}, numbers)


def _sort(
    computation: HloComputation,
    needed: Mapping[int, tuple[int, ...]],
    ranks: Mapping[int, tuple[bool, bool]],
    numbers: Random | None,
) -> tuple[HloInstruction, ...]:
    """Returns a topological order in which, of all instructions that are ready, the one with the least rank comes next.

    numbers: if given, the order of instructions with equal rank is drawn with it at random; otherwise they keep the
    order of the schedule.
    """
    keys = {
        one.id: (*ranks[one.id], numbers.random() if numbers is not None else place)
        for place, one in enumerate(computation.sequence)
    }
    return order_by(computation.sequence, needed, keys)


def order_by(
    instructions: Sequence[HloInstruction], needed: Mapping[int, Sequence[int]], keys: Mapping[int, Any]
) -> tuple[HloInstruction, ...]:
    """Returns the instructions in a topological order. Of all instructions that may come next, it takes the one
    with the least key.

    needed: maps the id of an instruction to the ids of those that must come before it, each once. keys: maps the id of an
    instruction to its key.
    """
    from heapq import heapify, heappop, heappush

    by_id = {one.id: one for one in instructions}
    waiting = {number: len(before) for number, before in needed.items()}
    users: defaultdict[int, list[int]] = defaultdict(list)
    for number, before in needed.items():
        for one in before:
            users[one].append(number)
    ready = [(keys[number], number) for number, count in waiting.items() if not count]
    heapify(ready)
    order: list[HloInstruction] = []
    while ready:
        number = heappop(ready)[1]
        order.append(by_id[number])
        for user in users[number]:
            waiting[user] -= 1
            if not waiting[user]:
                heappush(ready, (keys[user], user))
    return tuple(order)
