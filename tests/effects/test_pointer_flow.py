"""Accesses of real kernels to their pointers, and of hand-written IR that Triton's front end never produces."""

from typing import Any

import pytest

from ligerdiag.effects.access import Access
from ligerdiag.effects.pointer_flow import ArgumentEffects, compute_argument_effects
from ligerdiag.effects.ttir_module import parse_ttir
from ligerdiag.errors import ArtifactError
from tests.effects import ttir_kernels
from tests.oracle.frontend import build_ttir

NONE, READ, WRITE, BOTH, UNKNOWN = Access.NONE, Access.READ, Access.WRITE, Access.READ_WRITE, Access.UNKNOWN

F, I, L = "*fp32", "i32", "i64"

# kernel, its signature, its constants, expected access to each remaining argument
KERNELS: dict[str, tuple[str, dict[str, str], dict[str, Any], tuple[Access, ...]]] = {
    "a load reads and a store writes": ("plain_read", {"x": F, "o": F, "n": I}, {}, (READ, WRITE, NONE)),
    "an in-place store writes its argument": ("in_place", {"x": F, "n": I}, {}, (BOTH, NONE)),
    "an unused argument is not accessed": (
        "unused_argument",
        {"x": F, "y": F, "o": F},
        {},
        (READ, NONE, WRITE),
    ),
    "a pointer stored as a value is not written through": (
        "store_of_a_pointer_argument",
        {"x": F, "o": "*i64"},
        {},
        (NONE, WRITE),
    ),
    "an address moved by another one may be anywhere": (
        "moved_by_an_address",
        {"x": F, "y": F},
        {},
        (UNKNOWN, UNKNOWN),
    ),
    "an address moved by what a function makes of another one may be anywhere": (
        "moved_by_a_returned_address",
        {"x": F, "y": F, "n": I},
        {},
        (UNKNOWN, UNKNOWN, NONE),
    ),
    "an address that only says whether to store moves nothing": (
        "masked_by_an_address",
        {"x": F, "y": F},
        {},
        (NONE, WRITE),
    ),
    "a masked store counts": ("masked_store", {"x": F, "n": I}, {}, (WRITE, NONE)),
    "a store in a for loop counts": ("store_in_for", {"x": F, "o": F, "n": I}, {}, (WRITE, WRITE, NONE)),
    "stores in both arms of an if count": ("store_in_if", {"x": F, "y": F, "n": I}, {}, (WRITE, BOTH, NONE)),
    "a store in a while loop counts": ("store_in_while", {"x": F, "y": F, "n": I}, {}, (WRITE, READ, NONE)),
    "pointers carried through a for loop stay apart": (
        "carried_through_for",
        {"x": F, "y": F, "n": I},
        {},
        (WRITE, READ, NONE),
    ),
    "pointers swapped in a for loop are both written": (
        "swapped_in_for",
        {"x": F, "y": F, "n": I},
        {},
        (WRITE, WRITE, NONE),
    ),
    "pointers carried through a while loop stay apart": (
        "carried_through_while",
        {"x": F, "y": F, "n": I},
        {},
        (WRITE, READ, NONE),
    ),
    "a pointer chosen by where may be either": (
        "chosen_by_where",
        {"x": F, "y": F, "o": F, "n": I},
        {},
        (WRITE, WRITE, READ, NONE),
    ),
    "a pointer chosen by if may be either": (
        "chosen_by_if",
        {"x": F, "y": F, "o": F, "n": I},
        {},
        (WRITE, WRITE, READ, NONE),
    ),
    "an early return hides nothing": (
        "early_return",
        {"x": F, "y": F, "o": F, "n": I},
        {},
        (WRITE, READ, WRITE, NONE),
    ),
    "pointers passed along branches stay apart": (
        "branches_carry_pointers",
        {"x": F, "y": F, "o": F, "n": I},
        {},
        (WRITE, READ, WRITE, NONE),
    ),
    "an atomic add reads and writes": ("atomic_add", {"x": F, "o": F}, {}, (BOTH, WRITE)),
    "a compare-and-swap reads and writes": ("atomic_cas", {"x": "*i32", "o": "*i32"}, {}, (BOTH, WRITE)),
    "a block pointer that is loaded reads": (
        "block_pointers",
        {"x": F, "o": F, "n": I},
        {"WRITE": False},
        (READ, WRITE, NONE),
    ),
    "an advanced block pointer that is stored through writes": (
        "block_pointers",
        {"x": F, "o": F, "n": I},
        {"WRITE": True},
        (BOTH, WRITE, NONE),
    ),
    "tensor descriptors load, store and reduce": (
        "tensor_descriptors",
        {"x": F, "y": F, "o": F, "n": I},
        {},
        (READ, WRITE, BOTH, NONE),
    ),
    "a called function writes through its argument": (
        "stores_through_call",
        {"x": F, "y": F, "n": I},
        {},
        (WRITE, READ, NONE),
    ),
    "two calls of one function are told apart": (
        "same_callee_reads_and_writes",
        {"x": F, "y": F, "n": I},
        {},
        (WRITE, READ, NONE),
    ),
    "a store to an address made from an integer makes every pointer unknown": (
        "address_from_integer",
        {"x": F, "a": L},
        {},
        (UNKNOWN, NONE),
    ),
    "a load from an address made from an integer may read any pointer": (
        "read_from_integer",
        {"x": F, "o": F, "a": L},
        {},
        (READ, BOTH, NONE),
    ),
    "an address that went through an integer is unknown": (
        "round_trip_through_integer",
        {"x": F, "o": F},
        {},
        (UNKNOWN, UNKNOWN),
    ),
    "a store through a loaded pointer makes every pointer unknown": (
        "loaded_pointer",
        {"x": "*i64", "o": F},
        {},
        (UNKNOWN, UNKNOWN),
    ),
    "pure assembly on values is harmless": ("pure_assembly", {"x": "*i32", "o": "*i32"}, {}, (READ, WRITE)),
    "impure assembly that names no address is harmless": (
        "impure_assembly",
        {"x": "*i32", "o": "*i32"},
        {},
        (READ, WRITE),
    ),
    "a fence hides no store": (
        "fence",
        {"x": "*i32", "w": "*i32", "o": "*i32"},
        {},
        (WRITE, READ, WRITE),
    ),
    "impure assembly that stores makes every pointer unknown": (
        "impure_store",
        {"x": "*i32", "w": "*i32", "o": "*i32"},
        {},
        (UNKNOWN, UNKNOWN, UNKNOWN),
    ),
    "assembly that says pure and stores is not believed": (
        "assembly_that_lies",
        {"x": "*i32", "o": "*i32"},
        {},
        (UNKNOWN, UNKNOWN),
    ),
    "reductions and scans are followed": ("reductions", {"x": F, "o": F}, {}, (READ, WRITE)),
    "pointers keep their roots in every shape": (
        "shapes_of_pointers",
        {"x": F, "y": F, "o": F},
        {},
        (WRITE, READ, WRITE),
    ),
    "pointers in a tuple stay apart": ("pointers_in_tuples", {"x": F, "y": F, "o": F}, {}, (READ, WRITE, WRITE)),
    "an empty kernel does nothing": ("nothing", {"x": F, "o": F}, {}, (NONE, NONE)),
}


@pytest.mark.parametrize(("name", "signature", "constants", "expected"), KERNELS.values(), ids=KERNELS.keys())
def test_a_real_kernel_has_the_expected_accesses(
    name: str, signature: dict[str, str], constants: dict[str, Any], expected: tuple[Access, ...]
) -> None:
    effects = compute_argument_effects(parse_ttir(build_ttir(getattr(ttir_kernels, name), signature, constants)), name)
    assert effects.accesses == expected
    assert bool(effects.reasons) == (UNKNOWN in expected), effects.reasons


def analyse(
    body: str, arguments: str = "%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %n: i32", more: str = ""
) -> ArgumentEffects:
    text = (
        f"module {{ tt.func public @k({arguments}) {{ %v = arith.constant 1.0 : f32\n {body}\n tt.return }}\n {more} }}"
    )
    return compute_argument_effects(parse_ttir(text.encode()), "k")


def test_recursion_terminates_and_its_writes_are_seen() -> None:
    more = """tt.func private @f(%p: !tt.ptr<f32>, %q: !tt.ptr<f32>) {
      %v = arith.constant 1.0 : f32
      tt.store %p, %v : !tt.ptr<f32>
      tt.call @f(%q, %p) : (!tt.ptr<f32>, !tt.ptr<f32>) -> ()
      tt.return }"""
    effects = analyse("tt.call @f(%x, %x) : (!tt.ptr<f32>, !tt.ptr<f32>) -> ()", more=more)
    assert effects.accesses == (WRITE, NONE, NONE)
    effects = analyse("tt.call @f(%x, %y) : (!tt.ptr<f32>, !tt.ptr<f32>) -> ()", more=more)
    assert effects.accesses == (WRITE, WRITE, NONE)


def test_a_pointer_returned_by_a_recursion_keeps_its_roots() -> None:
    more = """tt.func private @f(%p: !tt.ptr<f32>, %n: i32) -> !tt.ptr<f32> {
      %c = arith.trunci %n : i32 to i1
      cf.cond_br %c, ^a, ^b
    ^a:
      %q = tt.call @f(%p, %n) : (!tt.ptr<f32>, i32) -> !tt.ptr<f32>
      tt.return %q : !tt.ptr<f32>
    ^b:
      tt.return %p : !tt.ptr<f32> }"""
    effects = analyse(
        "%p = tt.call @f(%x, %n) : (!tt.ptr<f32>, i32) -> !tt.ptr<f32>\n tt.store %p, %v : !tt.ptr<f32>", more=more
    )
    assert effects.accesses == (WRITE, NONE, NONE)


def test_a_call_of_a_function_without_body_is_unknown() -> None:
    effects = analyse("tt.call @f(%n) : (i32) -> ()", more="tt.func private @f(i32)")
    assert effects.accesses == (UNKNOWN, UNKNOWN, NONE)
    assert effects.reasons == ("the function `f` has no body to analyse",)


def test_an_operation_in_no_table_makes_its_pointers_unknown_and_is_named() -> None:
    effects = analyse(
        "%p = builtin.unrealized_conversion_cast %x : !tt.ptr<f32> to i64\n tt.store %y, %v : !tt.ptr<f32>"
    )
    assert effects.accesses == (UNKNOWN, WRITE, NONE)
    assert effects.reasons == ("`builtin.unrealized_conversion_cast` in `k` has unknown effects",)


def test_an_operation_in_no_table_without_pointers_makes_everything_unknown() -> None:
    effects = analyse('gpu.printf "hello"')
    assert effects.accesses == (UNKNOWN, UNKNOWN, NONE)


def test_branches_pass_pointers_to_the_blocks_they_fit() -> None:
    effects = analyse(
        """%c = arith.trunci %n : i32 to i1
        cf.cond_br %c, ^a(%x, %n : !tt.ptr<f32>, i32), ^b(%y : !tt.ptr<f32>)
      ^a(%p: !tt.ptr<f32>, %m: i32):
        tt.store %p, %v : !tt.ptr<f32>
        cf.br ^c
      ^b(%q: !tt.ptr<f32>):
        %w = tt.load %q : !tt.ptr<f32>
        cf.br ^c
      ^c:"""
    )
    assert effects.accesses == (WRITE, READ, NONE)


def test_a_branch_with_an_ambiguous_target_may_take_either() -> None:
    effects = analyse(
        """%c = arith.trunci %n : i32 to i1
        cf.cond_br %c, ^a(%x : !tt.ptr<f32>), ^b(%y : !tt.ptr<f32>)
      ^a(%p: !tt.ptr<f32>):
        tt.store %p, %v : !tt.ptr<f32>
        cf.br ^c
      ^b(%q: !tt.ptr<f32>):
        %w = tt.load %q : !tt.ptr<f32>
        cf.br ^c
      ^c:"""
    )
    # The bindings do not expose successors, so each block may get either pointer.
    assert effects.accesses == (BOTH, BOTH, NONE)


def test_a_loop_of_branches_reaches_its_fixpoint() -> None:
    effects = analyse(
        """cf.br ^a(%x, %y : !tt.ptr<f32>, !tt.ptr<f32>)
      ^a(%p: !tt.ptr<f32>, %q: !tt.ptr<f32>):
        tt.store %p, %v : !tt.ptr<f32>
        %c = arith.trunci %n : i32 to i1
        cf.cond_br %c, ^a(%q, %p : !tt.ptr<f32>, !tt.ptr<f32>), ^b
      ^b:"""
    )
    assert effects.accesses == (WRITE, WRITE, NONE)


def test_a_loop_that_may_not_run_may_return_its_initial_value() -> None:
    effects = analyse(
        """%r = scf.for %i = %n to %n step %n iter_args(%p = %x) -> (!tt.ptr<f32>) : i32 {
          scf.yield %y : !tt.ptr<f32>
        }
        tt.store %r, %v : !tt.ptr<f32>"""
    )
    assert effects.accesses == (WRITE, WRITE, NONE)


def test_a_while_loop_returns_its_condition_s_arguments() -> None:
    effects = analyse(
        """%c = arith.trunci %n : i32 to i1
        %r = scf.while (%p = %x) : (!tt.ptr<f32>) -> !tt.ptr<f32> {
          scf.condition(%c) %p : !tt.ptr<f32>
        } do {
        ^bb0(%q: !tt.ptr<f32>):
          scf.yield %y : !tt.ptr<f32>
        }
        tt.store %r, %v : !tt.ptr<f32>"""
    )
    assert effects.accesses == (WRITE, WRITE, NONE)


def test_a_pointer_loaded_from_shared_memory_is_unknown() -> None:
    text = b"""#b = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
    #s = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
    #m = #ttg.shared_memory
    module attributes {"ttg.num-warps" = 4 : i32, "ttg.num-ctas" = 1 : i32, "ttg.threads-per-warp" = 32 : i32} {
      tt.func public @k(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>) {
        %v = arith.constant dense<1.0> : tensor<128xf32, #b>
        %o = tt.splat %x : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>, #b>
        %p = tt.splat %y : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>, #b>
        %a = ttg.local_alloc %o : (tensor<128x!tt.ptr<f32>, #b>) -> !ttg.memdesc<128x!tt.ptr<f32>, #s, #m, mutable>
        ttg.local_store %p, %a : tensor<128x!tt.ptr<f32>, #b> -> !ttg.memdesc<128x!tt.ptr<f32>, #s, #m, mutable>
        %q = ttg.local_load %a : !ttg.memdesc<128x!tt.ptr<f32>, #s, #m, mutable> -> tensor<128x!tt.ptr<f32>, #b>
        tt.store %q, %v : tensor<128x!tt.ptr<f32>, #b>
        tt.return } }"""
    effects = compute_argument_effects(parse_ttir(text), "k")
    assert effects.accesses == (UNKNOWN, UNKNOWN)


def test_copies_between_shared_and_global_memory_access_the_descriptor_s_buffer() -> None:
    text = b"""#s = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
    #b = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
    #m = #ttg.shared_memory
    module attributes {"ttg.num-warps" = 4 : i32, "ttg.num-ctas" = 1 : i32, "ttg.threads-per-warp" = 32 : i32} {
      tt.func public @k(%x: !tt.tensordesc<tensor<64x64xf16, #s>>, %y: !tt.tensordesc<tensor<64x64xf16, #s>>,
                        %o: !tt.tensordesc<tensor<64x64xf16, #s>>, %n: i32, %c: i1) {
        %a = ttg.local_alloc : () -> !ttg.memdesc<64x64xf16, #s, #m, mutable>
        %r = ttg.local_alloc : () -> !ttg.memdesc<1xi64, #b, #m, mutable>
        ttng.init_barrier %r, 1 : !ttg.memdesc<1xi64, #b, #m, mutable>
        ttng.async_tma_copy_global_to_local %x[%n, %n] %a, %r, %c : !tt.tensordesc<tensor<64x64xf16, #s>>,
          !ttg.memdesc<1xi64, #b, #m, mutable> -> !ttg.memdesc<64x64xf16, #s, #m, mutable>
        ttng.async_tma_copy_local_to_global %y[%n, %n] %a : !tt.tensordesc<tensor<64x64xf16, #s>>,
          !ttg.memdesc<64x64xf16, #s, #m, mutable>
        ttng.async_tma_reduce add, %o[%n, %n] %a : !tt.tensordesc<tensor<64x64xf16, #s>>,
          !ttg.memdesc<64x64xf16, #s, #m, mutable>
        ttng.async_tma_store_wait {pendings = 0 : i32}
        tt.return } }"""
    effects = compute_argument_effects(parse_ttir(text), "k")
    assert effects.accesses == (READ, WRITE, BOTH, NONE, NONE)


def test_a_long_kernel_is_followed_to_its_end() -> None:
    size = 20_000
    lines = [f"%p{k + 1} = tt.addptr %p{k}, %n : !tt.ptr<f32>, i32" for k in range(size)]
    text = (
        "module { tt.func public @k(%p0: !tt.ptr<f32>, %n: i32) { %v = arith.constant 1.0 : f32\n"
        + "\n".join(lines)
        + f"\ntt.store %p{size}, %v : !tt.ptr<f32>\ntt.return }} }}"
    )
    assert compute_argument_effects(parse_ttir(text.encode()), "k").accesses == (WRITE, NONE)


@pytest.mark.parametrize("text", [b"", b"garbage", b"module {}", b"module { tt.func public @k() {", b"\x00\xff" * 50])
def test_text_that_is_not_a_kernel_is_an_artifact_error(text: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ArtifactError) as error:
        parse_ttir(text)
    assert "\n" not in str(error.value)


def test_a_missing_entry_function_is_an_artifact_error() -> None:
    with pytest.raises(ArtifactError, match="no function `other`"):
        compute_argument_effects(parse_ttir(b"module { tt.func public @k() { tt.return } }"), "other")
