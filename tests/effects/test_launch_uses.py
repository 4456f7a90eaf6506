"""Uses of buffers that Triton's front end does not produce: hand-written IR, launches that are too large, joined
payloads.
"""

import zlib
from typing import Any

import pytest
import triton

from ligerdiag.effects import triton_call_pb2
from ligerdiag.effects.access import (
    UNUSED,
    Access,
    CallEffects,
    Neighbours,
    OperandUse,
    ReadsBeforeWrite,
    WriteCoverage,
    compute_plain_use,
    join_uses,
)
from ligerdiag.effects.call import compute_call_effects
from ligerdiag.effects.effects_worker import parse_effects, render_effects
from ligerdiag.effects.launches import uses as launch_uses
from ligerdiag.effects.launches.uses import Argument, compute_launch_uses
from ligerdiag.effects.pointer_flow import compute_argument_effects
from ligerdiag.effects.ttir_module import parse_ttir
from tests.effects import truth_kernels, ttir_kernels
from tests.effects.test_truth import render
from tests.oracle.frontend import build_ttir

POINTERS = "%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %n: i32"


def follow(
    body: str,
    *,
    n: int | None = 4,
    elements: int | None = 4,
    grid: tuple[int, int, int] = (1, 1, 1),
    zeroed: int = 0,
    more: str = "",
) -> tuple[str, str]:
    """Returns the uses of %x and %y, each of `elements` elements; adds `tt.return` and a constant %v to the body."""
    text = (
        f"module {{ tt.func public @k({POINTERS}) {{ %v = arith.constant 1.0 : f32\n %zero = arith.constant 0 : i32\n"
        f"%one = arith.constant 1 : i32\n {body}\n tt.return }}\n {more} }}"
    )
    module = parse_ttir(text.encode())
    effects = compute_argument_effects(module, "k")
    size = None if elements is None else 4 * elements
    buffer = Argument(is_buffer=True, size=size, zeroed=zeroed)
    uses = compute_launch_uses(
        module,
        "k",
        arguments=[buffer, buffer, Argument(is_buffer=False, value=n)],
        accesses=effects.accesses,
        grid=grid,
    )
    assert uses[2] == UNUSED
    return render(uses[0]), render(uses[1])


FILL = """scf.for %i = %zero to %n step %one : i32 {
  %p = tt.addptr %x, %i : !tt.ptr<f32>, i32
  tt.store %p, %v : !tt.ptr<f32>
}"""


def test_an_empty_grid_writes_nothing() -> None:
    assert follow(FILL, grid=(0, 1, 1))[0] == render(UNUSED)
    assert follow(FILL, grid=(0, 1, 1), zeroed=16)[0] != render(UNUSED)
    assert follow(FILL, grid=(-1, 1, 1))[0] != render(UNUSED)  # the payload does not give the grid


@pytest.mark.parametrize(
    ("n", "elements", "expected"),
    [(4, 4, "ncd"), (3, 4, "npd"), (5, 4, "ncd"), (0, 4, "n-d"), (-3, 4, "n-d"), (4, None, "n?d"), (None, 4, "n?d")],
)
def test_a_loop_fills_as_many_elements_as_its_bound(n: int | None, elements: int | None, expected: str) -> None:
    assert follow(FILL, n=n, elements=elements) == (expected, "n-d")


def test_programs_that_fill_the_same_elements_share_them() -> None:
    assert follow(FILL, grid=(2, 1, 1))[0] == "ncs"


def test_a_buffer_zeroed_by_the_launcher_is_written_and_its_old_contents_are_not_read() -> None:
    load = "%w = tt.load %x : !tt.ptr<f32>\n"
    assert follow(load, zeroed=16) == ("ncd", "ncd")
    assert follow(load, zeroed=4) == ("npd", "npd")
    assert follow(load + FILL, n=2, zeroed=8)[0] == "npd"


def test_after_a_data_dependent_branch_only_effects_of_both_arms_are_certain() -> None:
    condition = "%w = tt.load %y : !tt.ptr<f32>\n %c = arith.cmpf ogt, %w, %v : f32\n"
    first, second = "tt.store %x, %v : !tt.ptr<f32>", "tt.store %p, %v : !tt.ptr<f32>"
    address = "%p = tt.addptr %x, %one : !tt.ptr<f32>, i32\n"
    both = f"scf.if %c {{ {first} \n {second} }} else {{ {second} \n {first} }}"
    assert follow(condition + address + both, elements=2) == ("ncd", "y-d")
    one = f"scf.if %c {{ {first} \n {second} }} else {{ {second} }}"
    assert follow(condition + address + one, elements=2) == ("n?d", "y-d")
    assert follow(condition + address + one, elements=3) == ("npd", "y-d"), (
        "%p is stored on both ways, the third is not"
    )
    again = "\n %r = tt.load %x : !tt.ptr<f32>\n tt.store %y, %r : !tt.ptr<f32>"
    assert follow(condition + address + one + again, elements=2) == ("??d", "ypd")
    assert follow(condition + address + both + again, elements=2) == ("ncd", "ypd")


def test_one_arm_does_not_see_the_writes_of_the_other() -> None:
    body = """%w = tt.load %y : !tt.ptr<f32>
    %c = arith.cmpf ogt, %w, %v : f32
    scf.if %c { tt.store %x, %v : !tt.ptr<f32> } else { %r = tt.load %x : !tt.ptr<f32>
      tt.store %x, %r : !tt.ptr<f32> }"""
    assert follow(body, elements=1)[0] == "?cd"


def test_a_data_dependent_while_loop_may_run_any_number_of_times() -> None:
    body = """%q = scf.while (%p = %x) : (!tt.ptr<f32>) -> !tt.ptr<f32> {
      %w = tt.load %y : !tt.ptr<f32>
      %c = arith.cmpf ogt, %w, %v : f32
      scf.condition(%c) %p : !tt.ptr<f32>
    } do { ^bb0(%p: !tt.ptr<f32>):
      tt.store %p, %v : !tt.ptr<f32>
      %next = tt.addptr %p, %one : !tt.ptr<f32>, i32
      scf.yield %next : !tt.ptr<f32>
    }
    """
    assert follow(body) == ("n?d", "y-d")
    assert follow(body + "tt.store %y, %v : !tt.ptr<f32>") == ("n?d", "ypd")
    assert follow(body + "tt.store %q, %v : !tt.ptr<f32>", elements=1) == ("n?d", "y-d")


def test_branches_lead_to_their_targets() -> None:
    body = """%c = arith.cmpi sgt, %n, %one : i32
      cf.cond_br %c, ^far(%x : !tt.ptr<f32>), ^near(%y : !tt.ptr<f32>)
    ^near(%p: !tt.ptr<f32>):
      tt.store %p, %v : !tt.ptr<f32>
      tt.return
    ^far(%q: !tt.ptr<f32>):
      tt.store %q, %v : !tt.ptr<f32>
      cf.br ^end
    ^end:"""
    assert follow(body, n=2, elements=1) == ("ncd", "n-d")
    assert follow(body, n=1, elements=1) == ("n-d", "ncd")
    assert follow(body, n=None, elements=1) == ("n?d", "n?d")


def test_a_backward_branch_is_not_followed() -> None:
    body = """cf.br ^loop
    ^loop:
      tt.store %x, %v : !tt.ptr<f32>
      %w = tt.load %y : !tt.ptr<f32>
      %c = arith.cmpf ogt, %w, %v : f32
      cf.cond_br %c, ^loop, ^end
    ^end:"""
    assert follow(body, elements=1) == ("n??", "?-d")


def test_text_in_strings_is_not_an_operation() -> None:
    body = """tt.print "cf.br ^bb1 tt.store %x" {hex = false, isSigned = array<i32: 0>} : %n : i32
    tt.store %x, %v : !tt.ptr<f32>"""
    assert follow(body, elements=1) == ("ncd", "n-d")


def test_a_compare_and_swap_may_or_may_not_write() -> None:
    body = """%p = tt.bitcast %x : !tt.ptr<f32> -> !tt.ptr<i32>
    %old = tt.atomic_cas acq_rel, gpu, %p, %zero, %one : (!tt.ptr<i32>, i32, i32) -> i32"""
    assert follow(body, elements=1) == ("y?d", "n-d")
    assert follow(body, elements=1, grid=(2, 1, 1)) == ("y??", "n-d")


def test_recursion_is_not_followed() -> None:
    more = """tt.func private @f(%p: !tt.ptr<f32>) {
      %v = arith.constant 1.0 : f32
      tt.store %p, %v : !tt.ptr<f32>
      tt.call @f(%p) : (!tt.ptr<f32>) -> ()
      tt.return }"""
    assert follow("tt.call @f(%x) : (!tt.ptr<f32>) -> ()", more=more) == ("n??", "n-d")


def test_a_launch_that_is_too_large_is_unknown_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_uses, "OPERATIONS", 3)
    assert follow(FILL, grid=(2, 1, 1)) == ("n??", "n-d")
    assert compute_plain_use(Access.WRITE, "why").reason == "why"


def make_payload(kernel: Any, grid: tuple[int, int, int], constants: list[dict[str, Any]]) -> bytes:
    """Makes an autotuned call of a kernel with pointers x and o, one configuration for each set of constants."""
    proto = triton_call_pb2.TritonAnyKernelCall()
    for chosen in constants:
        call = proto.autotuned_kernel_call.configs.add().kernel_call
        call.kernel.kernel_name = kernel.__name__
        call.kernel.ttir = build_ttir(kernel, {"x": "*fp32", "o": "*fp32"}, chosen).decode()
        call.grid_0, call.grid_1, call.grid_2 = grid
        for _ in range(2):
            call.parameters.add().array.SetInParent()
    return zlib.compress(proto.SerializeToString())


def compute(payload: bytes, sizes: tuple[int, ...] = (1024, 1024)) -> CallEffects:
    return compute_call_effects(target="triton_kernel_call", backend_config=payload, operands=1, outputs=1, sizes=sizes)


def test_only_uses_common_to_all_configurations_of_an_autotuned_kernel_hold() -> None:
    whole, half = {"COLUMNS": 64}, {"COLUMNS": 32}
    kernel: triton.JITFunction = truth_kernels.copy_rows
    assert render(compute(make_payload(kernel, (4, 1, 1), [whole, whole])).output_uses[0]) == "ncd"
    effects = compute(make_payload(kernel, (4, 1, 1), [whole, half]))
    assert render(effects.output_uses[0]) == "n?d"
    assert (
        effects.output_uses[0].reason == "the configurations that the autotuner tries use the buffer in different ways"
    )
    assert effects.reasons == ()
    assert render(effects.operand_uses[0]) == "y-d"


def test_the_sources_of_a_result_hold_only_if_all_configurations_have_them() -> None:
    yes, no = {"PASSES": True}, {"PASSES": False}
    kernel: triton.JITFunction = ttir_kernels.passes_on_or_fills
    chosen: list[list[dict[str, Any]]] = [[yes, yes], [no, no], [yes, no]]
    assert [compute(make_payload(kernel, (1, 1, 1), one)).result_sources for one in chosen] == [(0,), (), None]


def test_uses_survive_the_cache() -> None:
    effects = compute(make_payload(truth_kernels.copy_rows, (4, 1, 1), [{"COLUMNS": 64}]))
    assert parse_effects(render_effects(effects).encode(), operands=1, outputs=1) == effects
    damaged = render_effects(effects).replace('"complete"', '"finished"').encode()
    assert parse_effects(damaged, operands=1, outputs=1) is None


def test_an_unknown_size_leaves_coverage_unknown() -> None:
    payload = make_payload(truth_kernels.copy_rows, (4, 1, 1), [{"COLUMNS": 64}])
    effects = compute_call_effects(target="triton_kernel_call", backend_config=payload, operands=1, outputs=1)
    assert render(effects.output_uses[0]) == "n?d"
    assert effects.output_uses[0].reason == "the size of the buffer is unknown"


def test_joined_uses_hold_for_each_of_them() -> None:
    complete = OperandUse(
        reads_before_write=ReadsBeforeWrite.NO, coverage=WriteCoverage.COMPLETE, neighbours=Neighbours.DISJOINT
    )
    reading = OperandUse(
        reads_before_write=ReadsBeforeWrite.YES, coverage=WriteCoverage.COMPLETE, neighbours=Neighbours.SHARED
    )
    unknown = OperandUse(reason="why")
    assert join_uses([complete]) == complete
    assert render(join_uses([complete, reading])) == "ycs"
    assert render(join_uses([complete, unknown])) == "???"
    assert render(join_uses([reading, unknown])) == "y?s"
    assert join_uses([unknown, complete]).reason == "why"
    assert render(join_uses([complete, UNUSED])) == "n?d"


@pytest.mark.parametrize(
    ("mask", "use"),
    [
        ("%is_one", "n?d"),  # `%x` may be the beginning of a larger array: then the store is in that array
        ("%false", "n-d"),
    ],
)
def test_a_store_outside_of_the_buffer_may_happen_unless_its_mask_is_false(mask: str, use: str) -> None:
    body = f"""%old = tt.load %y : !tt.ptr<f32>
    %is_one = arith.cmpf oeq, %old, %v : f32
    %false = arith.constant false
    %p = tt.addptr %x, %n : !tt.ptr<f32>, i32
    tt.store %p, %v, {mask} : !tt.ptr<f32>"""
    assert follow(body)[0] == use
