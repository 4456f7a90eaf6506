"""Pairs of buffers that Triton's front end does not produce: kernels that wait or read back, and buffers that are not a
pair.
"""

import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ligerdiag.effects import triton_call_pb2
from ligerdiag.effects.access import InPlace, Neighbours, join_in_place
from ligerdiag.effects.call import compute_call_effects
from ligerdiag.effects.effects_worker import parse_effects, render_effects
from ligerdiag.effects.launches import uses as launch_in_place
from ligerdiag.effects.launches.byte_runs import ByteRuns, merge, reaches_others, subtract
from ligerdiag.effects.launches.index_values import Budget
from ligerdiag.effects.launches.uses import Argument, compute_in_place
from ligerdiag.effects.pointer_flow import compute_argument_effects
from ligerdiag.effects.ttir_module import parse_ttir
from tests.effects import truth_kernels
from tests.oracle.frontend import build_ttir

SHARED, DISJOINT, UNKNOWN = Neighbours.SHARED, Neighbours.DISJOINT, Neighbours.UNKNOWN
X_TO_Y = (0, 1)


def follow(
    body: str,
    pair: tuple[int, int] = X_TO_Y,
    *,
    sizes: tuple[int | None, int | None] = (16, 16),
    zeroed: int = 0,
    grid: tuple[int, int, int] = (4, 1, 1),
) -> Neighbours:
    """Returns the answer for a pair of %x and %y; %p and %q point to the program's own element of each."""
    text = f"""module {{ tt.func public @k(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>) {{
      %v = arith.constant 1.0 : f32
      %zero = arith.constant 0 : i32
      %one = arith.constant 1 : i32
      %id = tt.get_program_id x : i32
      %p = tt.addptr %x, %id : !tt.ptr<f32>, i32
      %q = tt.addptr %y, %id : !tt.ptr<f32>, i32
      {body}
      tt.return }} }}"""
    module = parse_ttir(text.encode())
    found = compute_in_place(
        module,
        "k",
        arguments=[Argument(is_buffer=True, size=size, zeroed=zeroed * (size is sizes[1])) for size in sizes],
        accesses=compute_argument_effects(module, "k").accesses,
        grid=grid,
    )
    meeting = found.get(pair)
    return UNKNOWN if meeting is None else meeting.neighbours


READ_FIRST = "%a = tt.load %x {isVolatile = true} : !tt.ptr<f32>\n"
READ_OWN = "%a = tt.load %p {isVolatile = true} : !tt.ptr<f32>\n"
WRITE_OWN = "tt.store %q, %v : !tt.ptr<f32>\n"
TICKET = "%t = tt.atomic_rmw add, acq_rel, gpu, {}, %one, %true : (!tt.ptr<i32>, i32, i1) -> i32\n"
CAST = "%true = arith.constant true\n %c = tt.bitcast %x : !tt.ptr<f32> -> !tt.ptr<i32>\n"


def test_an_element_that_all_programs_read_and_one_writes_is_shared() -> None:
    assert follow(READ_FIRST + WRITE_OWN) is SHARED
    assert follow(READ_OWN + WRITE_OWN) is DISJOINT


def test_one_program_has_no_neighbours() -> None:
    assert follow(READ_FIRST + WRITE_OWN, grid=(1, 1, 1)) is DISJOINT


def test_reading_back_its_own_write_is_not_a_shared_read() -> None:
    """All programs write the first element, so each could read any program's value, but in program order it reads its
    own.
    """
    write_first = "tt.store %y, %v : !tt.ptr<f32>\n"
    assert follow(write_first + READ_FIRST) is UNKNOWN
    assert follow(READ_FIRST + write_first) is SHARED
    assert follow(WRITE_OWN + READ_FIRST) is SHARED


def test_the_read_of_an_atomic_does_not_count_as_a_read() -> None:
    add = CAST + TICKET.format("%c")
    assert follow(add, (0, 0)) is UNKNOWN
    assert follow(READ_FIRST + add, (0, 0)) is SHARED


def test_a_kernel_that_may_wait_does_not_surely_share() -> None:
    used = CAST + TICKET.format("%c") + "%w = arith.addi %t, %t : i32\n"
    assert follow(READ_FIRST + used + WRITE_OWN) is UNKNOWN
    assert follow(READ_FIRST + CAST + TICKET.format("%c") + WRITE_OWN) is SHARED, "nobody looks at the result"
    spin = """%e = scf.while (%s = %zero) : (i32) -> i32 {
        %f = tt.load %x {isVolatile = true} : !tt.ptr<f32>
        %g = arith.cmpf olt, %f, %v : f32
        scf.condition(%g) %s : i32
      } do { ^bb0(%s: i32):
        scf.yield %s : i32
      }
    """
    assert follow(spin + READ_FIRST + WRITE_OWN) is UNKNOWN
    swap = "%o = tt.atomic_cas acq_rel, gpu, %c, %zero, %one : (!tt.ptr<i32>, i32, i32) -> i32\n"
    assert follow(READ_FIRST + CAST + swap + WRITE_OWN) is UNKNOWN


def test_a_data_dependent_branch_is_not_certain() -> None:
    branch = READ_OWN.replace("{", "{{").replace("}", "}}") + "%g = arith.cmpf olt, %a, %v : f32\n scf.if %g {{ {} }}\n"
    assert follow(branch.format("%b = tt.load %x {isVolatile = true} : !tt.ptr<f32>") + WRITE_OWN) is UNKNOWN
    assert follow(branch.format(WRITE_OWN) + "%b = tt.load %x {isVolatile = true} : !tt.ptr<f32>\n") is UNKNOWN
    assert follow(branch.format(WRITE_OWN)) is DISJOINT


def test_only_buffers_of_equal_known_size_are_a_pair() -> None:
    assert follow(READ_FIRST + WRITE_OWN, sizes=(16, 32)) is UNKNOWN
    assert follow(READ_FIRST + WRITE_OWN, sizes=(None, None)) is UNKNOWN
    assert follow(READ_FIRST + WRITE_OWN, zeroed=16) is UNKNOWN


def test_a_launch_that_is_too_large_stays_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_in_place, "OPERATIONS", 3)
    assert follow(READ_FIRST + WRITE_OWN) is UNKNOWN


def make_payload(kernel: Any, constants: list[dict[str, Any]]) -> bytes:
    proto = triton_call_pb2.TritonAnyKernelCall()
    for chosen in constants:
        call = proto.autotuned_kernel_call.configs.add().kernel_call
        call.kernel.kernel_name = kernel.__name__
        call.kernel.ttir = build_ttir(kernel, {"x": "*fp32", "o": "*fp32"}, chosen).decode()
        call.grid_0, call.grid_1, call.grid_2 = 4, 1, 1
        for _ in range(2):
            call.parameters.add().array.SetInParent()
    return zlib.compress(proto.SerializeToString())


def test_pairs_use_the_call_s_buffer_numbers_and_survive_the_cache() -> None:
    payload = make_payload(truth_kernels.reverse_rows, [{"ROWS": 4, "COLUMNS": 32}])
    effects = compute_call_effects(
        target="triton_kernel_call", backend_config=payload, operands=1, outputs=1, sizes=(512, 512)
    )
    (pair,) = effects.in_place
    assert replace(pair, line=None) == InPlace(reader=0, writer=1, neighbours=SHARED)
    assert pair.line is not None
    assert pair.line.file == truth_kernels.__file__
    assert (effects.get_in_place(0, 1), effects.get_in_place(1, 0)) == (pair, None)
    text = render_effects(effects)
    assert parse_effects(text.encode(), operands=1, outputs=1) == effects
    writer = '"writer": 1'
    for old, new in (('"shared"', '"unknown"'), (writer, '"writer": 2'), (writer, '"writer": -1'), (f", {writer}", "")):
        assert old in text
        assert parse_effects(text.replace(old, new).encode(), operands=1, outputs=1) is None


def test_one_sharing_configuration_makes_a_pair_shared_and_only_all_make_it_disjoint() -> None:
    shared = InPlace(reader=0, writer=1, neighbours=SHARED)
    disjoint = InPlace(reader=0, writer=1, neighbours=DISJOINT)
    assert join_in_place([[shared], [disjoint]]) == (shared,)
    assert join_in_place([[shared], []]) == (shared,)
    assert join_in_place([[disjoint], [disjoint]]) == (disjoint,)
    assert join_in_place([[disjoint], []]) == ()


def draw_runs(chance: np.random.Generator) -> tuple[ByteRuns, set[tuple[int, int]]]:
    """Returns random runs, and the same set as pairs of program and byte."""
    count = int(chance.integers(0, 6))
    program, start = chance.integers(0, 3, count), chance.integers(0, 12, count)
    stop = start + chance.integers(1, 5, count)
    runs = ByteRuns(program=program, start=start, stop=stop)
    spans = zip(program, start, stop, strict=True)
    return runs, {(int(p), byte) for p, low, high in spans for byte in range(low, high)}


def test_sets_of_bytes_equal_their_bytewise_result() -> None:
    chance = np.random.default_rng(0)
    budget = Budget(elements=2**20, operations=10_000, array=2**10)
    for _ in range(300):
        (one, bytes_of_one), (other, bytes_of_other) = draw_runs(chance), draw_runs(chance)
        rest = subtract(merge(one, budget), merge(other, budget), budget)
        assert (rest.start < rest.stop).all()
        spans = zip(rest.program, rest.start, rest.stop, strict=True)
        assert {(int(p), byte) for p, low, high in spans for byte in range(low, high)} == bytes_of_one - bytes_of_other
        met = any(byte == place and p != q for p, byte in bytes_of_one for q, place in bytes_of_other)
        assert reaches_others(one, other, budget) == met
