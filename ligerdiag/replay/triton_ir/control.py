"""Evaluates functions in Triton IR for all programs of a batch (the programs of the grid that are evaluated at once):
control flow, calls, and combining functions. By a combining function, a reduction or scan combines two elements.

`active` says which programs run an operation. If a condition differs between programs, both branches run, each for its own
programs, and their results are merged. The values of programs that do not run an operation are meaningless. A loop whose
bounds are equal in all programs runs once for all of them; any other loop runs until no program is left in it. In a function
with several blocks, each program waits at the start of the block to which it has branched, and the first such block in the
function runs next, for the programs that wait at it. A block that runs again keeps the values of the programs that have
already passed it. The combining function of a reduction runs with the elements as its programs and cannot access memory.
"""

from collections.abc import Sequence

import numpy as np

from ligerdiag.effects.ttir_module import Operation
from ligerdiag.replay.ops.scope import Array, NotCoveredError
from ligerdiag.replay.triton_ir.code import (
    PURE,
    Activation,
    Captured,
    Instruction,
    Library,
    LocatedError,
    Region,
    narrow_active,
    prepare_pure,
    render_place,
)
from ligerdiag.replay.triton_ir.launch_memory import Memory
from ligerdiag.replay.triton_ir.memory_operations import evaluate_memory_operation
from ligerdiag.replay.triton_ir.operations import block_reductions
from ligerdiag.replay.triton_ir.operations.shaping import CONSTANTS
from ligerdiag.replay.triton_ir.values import (
    Active,
    Value,
    select_programs,
    to_array,
)

MOST_CALLS = 64
MOST_WAITING = 1000
"""The most iterations of a loop in a batch of several programs that uses atomic operations: after more iterations, one
program seems to wait for another.
"""


class WaitingError(Exception):
    """Raised if a program of the batch seems to wait for another program, as at a lock. This is assumed of a loop in a
    batch that uses atomic operations, once it has run more than `MOST_WAITING` iterations.
    """


def _has_any(active: Active) -> bool:
    return active is None or bool(active.any())


class KernelEvaluator:
    """Runs the functions of one module for all programs of a batch. A batch is a set of programs of the grid that are
    evaluated at once.
    """

    def __init__(self, library: Library, memory: Memory, grid: tuple[int, int, int], most_rounds: int) -> None:
        self._library, self._memory, self._grid, self._most_rounds = library, memory, grid, most_rounds

    def run(self, entry: str, arguments: Sequence[Value]) -> None:
        """Runs the kernel `entry` with these arguments for all programs of the batch."""
        frame = Activation(self._library.get(entry), {}, self._memory.numbers.size, 0, self._memory)
        self._run_function(frame, arguments, None)

    def _run_function(self, frame: Activation, arguments: Sequence[Value], active: Active) -> list[Value]:
        blocks = frame.code.blocks
        frame.put(blocks[0].arguments, arguments, None)
        if len(blocks) == 1:
            return self._run_body(frame, blocks[0].body, active)
        waiting: dict[int, Active] = {0: active}
        seen: set[int] = set()
        rounds = 0
        while waiting:
            number = min(waiting)
            here = waiting.pop(number)
            frame.merges = number in seen
            seen.add(number)
            self._run_body(frame, blocks[number].body[:-1], here)
            self._leave_block(frame, blocks[number].body[-1].op, here, waiting)
            rounds += 1
            if rounds > self._most_rounds:
                raise NotCoveredError(f"a function that runs more than {self._most_rounds} blocks")
        results: list[Value] | None = None
        for taken, values in frame.returned:
            if results is None or taken is None:
                results = values
            else:
                results = [select_programs(taken, new, old) for new, old in zip(values, results, strict=True)]
        return results or []

    def _leave_block(self, frame: Activation, op: Operation, active: Active, waiting: dict[int, Active]) -> None:
        if op.name == "tt.return":
            frame.returned.append((active, frame.take(op.operands)))
            return
        targets = frame.code.successors.get(op.index, ())
        blocks = frame.code.blocks
        expected = 1 if op.name == "cf.br" else 2
        if op.name not in ("cf.br", "cf.cond_br") or len(targets) != expected or max(targets) >= len(blocks):
            raise NotCoveredError(f"a block that ends in {op.name}")
        passed = frame.take(op.operands[expected - 1 :])
        if len(passed) != sum(len(blocks[target].arguments) for target in targets):
            raise NotCoveredError("a branch with unknown targets")
        gates: list[Array | None] = [None]
        if expected == 2:
            gate = to_array(frame.values[op.operands[0]])
            gates = [gate, ~gate]
        for target, gate in zip(targets, gates, strict=True):
            own = blocks[target].arguments
            handed, passed = passed[: len(own)], passed[len(own) :]
            chosen = active if gate is None else narrow_active(active, gate, frame.programs)
            if not _has_any(chosen):
                continue
            frame.merges = True
            frame.put(own, handed, chosen)
            others = waiting.get(target)
            joined = target in waiting and others is not None and chosen is not None
            if target in waiting and not joined:
                waiting[target] = None
            elif others is not None and chosen is not None:
                waiting[target] = narrow_active(None, others | chosen, frame.programs)
            else:
                waiting[target] = chosen

    def _run_body(self, frame: Activation, body: Sequence[Instruction], active: Active) -> list[Value]:
        """Runs the operations of a block and returns the operands of its terminator."""
        op: Operation | None = None
        try:
            for instruction in body:
                op = instruction.op
                if instruction.compute is not None and not frame.merges:
                    values = frame.values
                    found = instruction.compute(*[values[operand] for operand in op.operands])
                    if len(op.results) == 1:
                        values[op.results[0]] = found
                    else:
                        frame.put(op.results, found, None)
                elif op.name in _TERMINATORS:
                    return frame.take(op.operands)
                else:
                    self._step(frame, instruction, active)
        except LocatedError:
            raise
        except NotCoveredError as error:
            raise LocatedError(f"{error}{render_place(op)}") from error
        except (ValueError, TypeError, IndexError, KeyError, AttributeError, ArithmeticError) as error:
            name = op.name if op is not None else "an operation"
            raise LocatedError(
                f"{name} ({type(error).__name__}: {' '.join(str(error).split())[:160]}){render_place(op)}"
            ) from error
        return []

    def _step(self, frame: Activation, instruction: Instruction, active: Active) -> None:
        op = instruction.op
        if op.name in PURE or op.name in CONSTANTS:
            if instruction.compute is None:
                instruction.compute = prepare_pure(op, frame.code.function)
            found = instruction.compute(*frame.take(op.operands))
            frame.put(op.results, [found] if len(op.results) == 1 else list(found), active)
            return
        match op.name:
            case "scf.for":
                results = self._run_for(frame, instruction, active)
            case "scf.while":
                results = self._run_while(frame, instruction, active)
            case "scf.if":
                results = self._run_if(frame, instruction, active)
            case "tt.call":
                results = self._call(frame, op, active)
            case "tt.reduce" | "tt.scan" | "tt.map_elementwise":
                results = self._combine(frame, instruction, active)
            case name if name in _SILENT:
                results: Sequence[Value] = []
            case _:
                results = evaluate_memory_operation(frame, instruction, self._memory.numbers, self._grid, active)
        frame.put(op.results, results, active)

    def _run_region(self, frame: Activation, region: Region, values: Sequence[Value], active: Active) -> list[Value]:
        merges, frame.merges = frame.merges, False
        for number, value in zip(region.arguments, values, strict=True):
            frame.values[number] = value
        found = self._run_body(frame, region.body, active)
        frame.merges = merges
        return found

    def _run_if(self, frame: Activation, instruction: Instruction, active: Active) -> list[Value]:
        gate = to_array(frame.values[instruction.op.operands[0]])
        ways: list[list[Value] | None] = [None, None]
        both = (0, gate), (1, ~gate)
        for way, holds in reversed(both) if self._memory.first_stays else both:
            chosen = narrow_active(active, holds, frame.programs)
            if _has_any(chosen):
                region = instruction.regions[way] if way < len(instruction.regions) else None
                ways[way] = self._run_region(frame, region, (), chosen) if region is not None else []
        yes, no = ways
        if yes is None or no is None:
            return yes or no or []
        chosen = np.broadcast_to(gate, (frame.programs,))
        return [select_programs(chosen, a, b) for a, b in zip(yes, no, strict=True)]

    def _run_for(self, frame: Activation, instruction: Instruction, active: Active) -> list[Value]:
        op, (region,) = instruction.op, instruction.regions
        first, last, step = (to_array(value) for value in frame.take(op.operands[:3]))
        carried = frame.take(op.operands[3:])
        dtype = first.dtype
        if "scf.for unsigned" in op.text:
            first, last, step = (array.view(f"u{dtype.itemsize}") for array in (first, last, step))
        if active is not None:
            first, last, step = (array[active] if array.size > 1 else array for array in (first, last, step))
        ends = [(int(array.min()), int(array.max())) for array in (first, last, step)]
        if ends[2][0] <= 0:
            raise NotCoveredError("a loop whose step is not positive")
        if all(low == high for low, high in ends):
            start, stop, stride = (low for low, _ in ends)
            self._check_rounds(-((start - stop) // stride))
            for number in range(start, stop, stride):
                carried = self._run_region(frame, region, [np.array([number]).astype(dtype), *carried], active)
            return carried
        first, last, step = (to_array(value).astype(object) for value in frame.take(op.operands[:3]))
        rounds = np.broadcast_to(-((first - last) // step), (frame.programs,)).astype(np.int64)
        here = rounds if active is None else rounds[active]
        most = int(here.max())
        self._check_rounds(most)
        for number in range(most):
            running = narrow_active(active, rounds > number, frame.programs)
            induction = np.broadcast_to(first + number * step, (frame.programs,))
            if running is not None:
                induction = np.where(running, induction, 0)
            found = self._run_region(frame, region, [induction.astype(dtype), *carried], running)
            if running is active or running is None:
                carried = found
            else:
                carried = [select_programs(running, new, old) for new, old in zip(found, carried, strict=True)]
        return carried

    def _check_rounds(self, rounds: int) -> None:
        if rounds > self._most_rounds:
            raise NotCoveredError(f"a loop of more than {self._most_rounds} iterations")

    def _run_while(self, frame: Activation, instruction: Instruction, active: Active) -> list[Value]:
        carried = frame.take(instruction.op.operands)
        before, after = instruction.regions
        running = active
        results: list[Value] | None = None
        rounds = 0
        while True:
            condition, *handed = self._run_region(frame, before, carried, running)
            gate = to_array(condition)
            if results is None or running is None:
                results = handed
            else:
                results = [select_programs(running, new, old) for new, old in zip(handed, results, strict=True)]
            running = narrow_active(running, gate, frame.programs)
            if not _has_any(running):
                return results
            rounds += 1
            self._check_rounds(rounds)
            if rounds > MOST_WAITING and frame.programs > 1 and self._memory.journal.used_atomics:
                raise WaitingError
            if rounds > 20 * MOST_WAITING and self._memory.journal.used_atomics:
                raise NotCoveredError("a program of the grid that waits for another program")
            carried = self._run_region(frame, after, handed, running)

    def _call(self, frame: Activation, op: Operation, active: Active) -> list[Value]:
        if frame.depth >= MOST_CALLS:
            raise NotCoveredError(f"calls nested deeper than {MOST_CALLS}")
        code = self._library.get(op.callee)
        inner = Activation(code, {}, frame.programs, frame.depth + 1, frame.memory)
        return self._run_function(inner, frame.take(op.operands), active)

    def _combine(self, frame: Activation, instruction: Instruction, active: Active) -> list[Value]:
        op, function = instruction.op, frame.code.function
        region = instruction.regions[0]

        def combine(values: Sequence[Array]) -> Sequence[Array]:
            size = values[0].size
            inner = Activation(frame.code, Captured(frame.values, frame.programs, size), size, frame.depth, None)
            return [to_array(value) for value in self._run_region(inner, region, values, None)]

        values = frame.take(op.operands)
        if op.name == "tt.map_elementwise":
            return list(block_reductions.map_elements(op, function, values, combine))
        if instruction.memo is None:
            instruction.memo = block_reductions.find_ufunc(self._library.functions, function, op)
        apply = block_reductions.reduce if op.name == "tt.reduce" else block_reductions.scan
        return list(apply(op, function, instruction.memo, values, combine))


_TERMINATORS = frozenset(
    {
        "tt.return",
        "scf.yield",
        "scf.condition",
        "tt.reduce.return",
        "tt.scan.return",
        "tt.map_elementwise.return",
        "cf.br",
        "cf.cond_br",
    }
)
_SILENT = frozenset({"gpu.barrier", "ttg.barrier", "tt.debug_barrier", "llvm.intr.assume", "ttg.local_barrier"})
