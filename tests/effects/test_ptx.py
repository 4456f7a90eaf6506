"""For kernels whose payload holds only PTX, the writes equal those in their Triton IR; an address that cannot be
followed is unknown.
"""

import zlib

import jax
import jax.numpy as jnp
import pytest
from jax_triton import triton_lib

from kernels.cross_entropy.api import cross_entropy_with_gradient
from kernels.modes import Mode
from kernels.scale.api import scale
from ligerdiag.artifacts.ptx_text import cut_entry
from ligerdiag.effects import triton_call_pb2
from ligerdiag.effects.access import Access, CallEffects
from ligerdiag.effects.call import compute_call_effects
from ligerdiag.effects.ptx import find_ptx_writes
from tests.effects.conftest import lower_payload

ROWS, TARGETS = jax.ShapeDtypeStruct((8, 64), jnp.float32), jax.ShapeDtypeStruct((8,), jnp.int32)
FACTOR = jax.ShapeDtypeStruct((), jnp.float32)


@pytest.fixture(autouse=True)
def capability(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute capability of a GPU that this machine does not have."""
    monkeypatch.setattr(triton_lib.triton_kernel_call_lib, "get_compute_capability", lambda device: 90)


def compute(payload: bytes, *, with_ir: bool, operands: int, outputs: int) -> CallEffects:
    call = triton_call_pb2.TritonAnyKernelCall.FromString(zlib.decompress(payload))
    if not with_ir:
        call.kernel_call.kernel.ttir = ""
    config = zlib.compress(call.SerializeToString())
    return compute_call_effects(target="triton_kernel_call", backend_config=config, operands=operands, outputs=outputs)


@pytest.mark.parametrize("mode", [Mode.HIDDEN, Mode.ALIASED, Mode.OUT_OF_PLACE])
def test_a_loss_writes_the_buffers_that_its_ir_writes(mode: Mode) -> None:
    payload = lower_payload(lambda x, t: cross_entropy_with_gradient(x, t, mode=mode), ROWS, TARGETS)
    outputs = 2 if mode is Mode.HIDDEN else 3
    by_ir, by_ptx = (compute(payload, with_ir=with_ir, operands=3, outputs=outputs) for with_ir in (True, False))
    assert by_ptx.kernel == by_ir.kernel == "cross_entropy_kernel"
    assert [one.writes for one in by_ptx.operands] == [one.writes for one in by_ir.operands]
    assert [one.writes for one in by_ptx.outputs] == [one.writes for one in by_ir.outputs]
    assert Access.UNKNOWN not in (*by_ptx.operands, *by_ptx.outputs)
    assert by_ptx.operands[0].writes == (mode is Mode.HIDDEN)


def test_an_output_that_shares_an_operand_s_bytes_is_written() -> None:
    payload = lower_payload(lambda x, f: scale(x, f, mode="aliased"), ROWS, FACTOR)
    effects = compute(payload, with_ir=False, operands=2, outputs=1)
    assert [one.writes for one in (*effects.operands, *effects.outputs)] == [False, False, True]
    assert effects.operand_uses[0].reason.endswith("has PTX, but no Triton IR")


HEAD = """
.visible .entry k(
  .param .u64 .ptr .global .align 1 k_param_0, .param .u64 k_param_1, .param .u32 k_param_2
)
.reqntid 128
{
  .reg .pred %p<5>;
  .loc 1 16 0   // [not a statement
  ld.param.b64 %rd1, [k_param_0];  /* x; [y] */
  ld.param.b64 %rd2, [k_param_1];
  ld.param.u32 %r1, [k_param_2+0];
"""


def find(body: str, pointers: tuple[bool, ...] = (True, True, False)) -> tuple[set[int], str]:
    found = find_ptx_writes(HEAD + body + "\n ret; }", "k", pointers)
    return set(found.parameters), found.reason


@pytest.mark.parametrize(
    ("body", "written"),
    [
        ("", set()),
        ("ld.global.b32 %r2, [%rd1]; add.s32 %r3, %r2, %r1;", set()),
        ("cvta.to.global.u64 %rd3, %rd2; mad.wide.s32 %rd4, %r1, 4, %rd3; @%p1 st.global.v2.b32 [%rd4+16], {%r1, %r1};",
         {1}),
        ("LOOP: add.s64 %rd3, %rd4, 4; st.global.b32 [%rd3], %r1; mov.b64 %rd4, %rd2; @!%p1 bra LOOP;", {1}),
        ("selp.b64 %rd3, %rd1, %rd2, %p1; red.global.add.f32 [%rd3], %f1;", {0, 1}),
        ("{ .reg .b64 t; mov.b64 t, %rd1; atom.global.add.u32 %r2, [t], 1; }", {0}),
        ("mov.b64 {%r4, %r5}, %rd1; mov.b64 %rd3, {%r4, %r5}; st.b32 [%rd3], %r1;", {0}),
        ("cp.async.cg.shared.global [%r4], [%rd1], 16; st.shared.b32 [%r4], %r1;", set()),
        ("stmatrix.sync.aligned.m8n8.x1.b16 [%r4], {%r1}; mbarrier.arrive.shared.b64 %rd5, [%r4];", set()),
        ("cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r4], 64;", {1}),
        ("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%rd1], [%r4], 64;", {0}),
        ("call.uni (retval0), vprintf, (param0, param1); st.param.b64 [param0], %rd1;", set()),
        ("ld.global.b32 %r9, [%rd2]; mad.wide.s32 %rd4, %r9, 4, %rd1; st.global.b32 [%rd4], 0;", {0}),
    ],
)  # fmt: skip
def test_stores_lead_back_to_parameters(body: str, written: set[int]) -> None:
    assert find(body) == (written, "")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("ld.global.b64 %rd3, [%rd1]; st.global.b32 [%rd3], %r1;", "stores to an address that comes from no parameter"),
        ("st.global.b32 [4096], %r1;", "stores to an address that comes from no parameter"),
        ("st.local.b64 [%SP], %rd1; ld.local.b64 %rd3, [%SP]; red.add.u32 [%rd3], 1;", "comes from no parameter"),
        ("call.uni helper, (param0);", "calls a function"),
        ("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r1, %r1}], [%r4];", "through a tensor map"),
        ("multimem.red.release.sys.global.add.f32 [%rd1], %f1;", "is an unknown instruction"),
        ("wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%rd1], {%f1};", "is an unknown instruction"),
        ("<garbage> st.global.b32 [%rd1], %r1;", "is an unknown instruction"),
    ],
)
def test_an_address_that_cannot_be_followed_may_write_anywhere(body: str, reason: str) -> None:
    assert reason in find(body)[1]


def test_a_number_is_not_an_address() -> None:
    body = "st.global.b32 [%rd2], %r1;"
    assert find(body) == ({1}, "")
    assert "comes from no parameter" in find(body, (True, False, False))[1]
    assert "takes 3 parameters in its PTX, but the call passes 4" in find("", (True,) * 4)[1]
    assert "no entry function" in find_ptx_writes("", "k", ()).reason


def test_ptx_that_ends_inside_of_the_kernel_may_write_anywhere() -> None:
    assert find_ptx_writes(HEAD, "k", (True, True, False)).reason == "the PTX ends inside of `k`"
    assert find_ptx_writes(HEAD.partition("{")[0], "k", (True,)).reason == "the PTX ends inside of `k`"
    assert find_ptx_writes(".entry k( { }", "k", ()).reason == "the parameters of `k` in its PTX cannot be read"


def test_a_register_is_followed_through_any_number_of_others_in_any_order() -> None:
    moves = "".join(f"mov.b64 %x{number + 1}, %x{number};" for number in reversed(range(20_000)))
    assert find(f"st.global.b32 [%x20000], 0; {moves} mov.b64 %x0, %rd2;") == ({1}, "")


def test_pointers_that_take_too_many_steps_may_write_anywhere() -> None:
    loads = "".join(f"ld.param.b64 %x{number}, [p{number}];" for number in range(1500))
    moves = "".join(f"add.s64 %x{number + 1}, %x{number}, 0;" for number in range(6000))
    ptx = f".entry k({','.join(f'.param .u64 p{number}' for number in range(1500))}) {{ {loads} {moves} }}"
    assert find_ptx_writes(ptx, "k", ()).reason.startswith("its PTX has too many pointers")


def test_labels_without_end_cost_no_time() -> None:
    assert "is an unknown instruction" in find("@1111:" * 1000 + "[1;")[1]


def test_a_kernel_is_cut_out_of_its_module_without_comments() -> None:
    module = HEAD + "{ /* } */ ret; } }\n.entry other() { st.global.b32 [4], 0; }"
    assert cut_entry(module, "other") == ".entry other() { st.global.b32 [4], 0; }"
    assert cut_entry(module, "k").endswith("{   ret; } }")
    assert cut_entry(cut_entry(module, "k"), "k") == cut_entry(module, "k")
