"""The evaluator of index arithmetic (`effects.launches`) and the interpreter do not contradict each other.

Facts that the first proves without data hold for the numbers of the second, in each launch: a completely written buffer
has the same result whatever its old content, a partly written one keeps a part of it, and programs meet in shared
buffers only.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ligerdiag.effects.access import Neighbours, OperandUse, ReadsBeforeWrite, WriteCoverage
from ligerdiag.effects.launches.uses import Argument, compute_launch_uses
from ligerdiag.effects.pointer_flow import compute_argument_effects
from ligerdiag.effects.ttir_module import parse_ttir
from ligerdiag.replay.triton_ir.interpreter import run_grid
from ligerdiag.replay.triton_ir.outcome import GridOutcome
from tests.replay.triton_ir import op_kernels
from tests.replay.triton_ir.op_launches import LAUNCHES
from tests.replay.triton_ir.oracle import Launch
from tests.replay.triton_ir.run import build_launch

FILE = Path(op_kernels.__file__)
FILLS = (0x00, 0x3C)


def _is_buffer(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.ndim > 0


def _run(launch: Launch, filled: str | None, fill: int) -> tuple[dict[str, Any], GridOutcome, tuple[OperandUse, ...]]:
    """`filled` names a buffer whose bytes are all set to `fill` first."""
    module, entry = build_launch(FILE, launch)
    given = launch.copy()
    if filled is not None:
        given[filled].view(np.uint8)[...] = fill
    names = [name for name in getattr(op_kernels, launch.kernel).arg_names if name in given]
    arguments = [
        Argument(is_buffer=True, size=given[name].nbytes)
        if _is_buffer(given[name])
        else Argument(is_buffer=False, value=given[name] if isinstance(given[name], int) else None)
        for name in names
    ]
    accesses = compute_argument_effects(module, entry).accesses
    uses = compute_launch_uses(module, entry, arguments=arguments, accesses=accesses, grid=launch.grid)
    outcome = run_grid(module, entry, [given[name] for name in names], launch.grid)
    return {name: given[name] for name in names}, outcome, uses


@pytest.mark.parametrize("name", LAUNCHES)
def test_proven_facts_hold_for_the_numbers(name: str) -> None:
    launch = LAUNCHES[name]
    found, outcome, uses = _run(launch, None, 0)
    meetings = outcome.meeting or ()
    meeting = {number for one in meetings for number in (one.argument, one.other_argument)}
    for number, (argument, use) in enumerate(zip(found, uses, strict=True)):
        if not _is_buffer(found[argument]):
            continue
        if use.neighbours is Neighbours.DISJOINT:
            assert number not in meeting, argument
        if use.neighbours is Neighbours.SHARED and not outcome.used_atomics:
            assert number in meeting, argument
        outside = {(one.kind, one.argument, one.place, one.first_byte) for one in outcome.out_of_bounds}
        assert {(one.kind.value, number, one.line, one.first_byte) for one in use.outside} <= outside
        if use.coverage is WriteCoverage.NONE:
            np.testing.assert_array_equal(found[argument], launch.arguments[argument])
        if use.reads_before_write is not ReadsBeforeWrite.NO:
            continue
        one, other = (_run(launch, argument, fill)[0][argument].view(np.uint8) for fill in FILLS)
        if use.coverage is WriteCoverage.COMPLETE:
            np.testing.assert_array_equal(one, other)
        if use.coverage is WriteCoverage.PARTIAL:
            assert ((one == FILLS[0]) & (other == FILLS[1])).any()


def test_some_facts_are_proven() -> None:
    names = ("integers-int32", "tiles", "strided", "overlapping")
    uses = [use for name in names for use in _run(LAUNCHES[name], None, 0)[2]]
    assert {WriteCoverage.COMPLETE, WriteCoverage.PARTIAL, WriteCoverage.NONE} <= {use.coverage for use in uses}
    assert {Neighbours.DISJOINT, Neighbours.SHARED} <= {use.neighbours for use in uses}


def test_a_loop_with_unsigned_bounds_is_not_taken_for_empty() -> None:
    text = b"""
    tt.func public @k(%o: !tt.ptr<i32>, %last: i32) {
      %first = arith.constant 0 : i32
      %step = arith.constant 1073741824 : i32
      %c30 = arith.constant 30 : i32
      scf.for unsigned %k = %first to %last step %step : i32 {
        %place = arith.shrui %k, %c30 : i32
        %address = tt.addptr %o, %place : !tt.ptr<i32>, i32
        tt.store %address, %c30 : !tt.ptr<i32>
      }
      tt.return
    }"""
    module, last = parse_ttir(text), 2**31 + 8
    given = [Argument(is_buffer=True, size=16), Argument(is_buffer=False, value=last)]
    accesses = compute_argument_effects(module, "k").accesses
    (use, *_) = compute_launch_uses(module, "k", arguments=given, accesses=accesses, grid=(1, 1, 1))
    o = np.zeros(4, np.int32)
    run_grid(module, "k", [o, last], (1, 1, 1))
    assert o.tolist() == [30, 30, 30, 0]
    assert use.coverage in (WriteCoverage.PARTIAL, WriteCoverage.UNKNOWN)
