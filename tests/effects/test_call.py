"""Whole custom calls: real payloads of jax-triton for every way to pass arguments, and the tables of known targets."""

from typing import Any

import jax
import jax.numpy as jnp
import jax_triton
import pytest
import triton

from ligerdiag.effects import triton_call_pb2
from ligerdiag.effects.access import Access, CallEffects, join_all
from ligerdiag.effects.call import compute_call_effects
from ligerdiag.effects.payload import parse_triton_call
from tests.effects import ttir_kernels
from tests.effects.conftest import lower_payload

NONE, READ, WRITE, BOTH, UNKNOWN = Access.NONE, Access.READ, Access.WRITE, Access.READ_WRITE, Access.UNKNOWN

VECTOR = jax.ShapeDtypeStruct((64,), jnp.float32)
OLD_JAX_TRITON = not hasattr(jax_triton.triton_lib, "CUSTOM_CALL_TARGET_NAME")

pytestmark = pytest.mark.skipif(not OLD_JAX_TRITON, reason="the calls are written for jax-triton before 0.4")


def call(kernel: Any, *arguments: Any, out_shape: Any = VECTOR, grid: Any = (1,), **options: Any) -> Any:
    return jax_triton.triton_call(
        *arguments, kernel=kernel, out_shape=out_shape, grid=grid, compute_capability=90, **options
    )


def compute(payload: bytes, operands: int, outputs: int) -> CallEffects:
    return compute_call_effects(target="triton_kernel_call", backend_config=payload, operands=operands, outputs=outputs)


def test_a_scalar_equal_to_one_is_not_a_parameter_and_shifts_no_pointer(payload: bytes) -> None:
    effects = compute(payload, 1, 1)
    assert (effects.kernel, effects.operands, effects.outputs) == ("scalars", (BOTH,), (WRITE,))
    assert (effects.reasons, effects.configurations, effects.grid) == ((), 1, (2, 3, 1))


@pytest.mark.parametrize(("one", "n"), [(1, 1), (1.0, 64), (2, 1), (2, 2**40), (0.5, 3)])
def test_scalars_of_every_kind_shift_no_pointer(one: Any, n: int) -> None:
    payload = lower_payload(lambda x: call(ttir_kernels.scalars, x, one, n), VECTOR)
    effects = compute(payload, 1, 1)
    assert (effects.operands, effects.outputs, effects.reasons) == ((BOTH,), (WRITE,), ())


def test_scalars_between_pointers_are_counted() -> None:
    payload = lower_payload(lambda x, y: call(ttir_kernels.scalars_between, x, 1, y, 5, 7), VECTOR, VECTOR)
    effects = compute(payload, 2, 1)
    assert (effects.operands, effects.outputs) == ((READ, BOTH), (WRITE,))


def test_an_aliased_output_has_its_own_pointer() -> None:
    payload = lower_payload(lambda x: call(ttir_kernels.plain_read_into, x, 64, input_output_aliases={0: 0}), VECTOR)
    effects = compute(payload, 1, 1)
    assert (effects.operands, effects.outputs) == ((READ,), (WRITE,))


def test_a_zeroed_output_is_written_even_if_the_kernel_does_nothing() -> None:
    payload = lower_payload(lambda x: call(ttir_kernels.nothing, x, zeroed_outputs=(0,)), VECTOR)
    assert compute(payload, 1, 1).outputs == (WRITE,)
    payload = lower_payload(lambda x: call(ttir_kernels.nothing, x), VECTOR)
    assert compute(payload, 1, 1).outputs == (NONE,)
    payload = lower_payload(lambda x: call(ttir_kernels.adds_into, x, zeroed_outputs=(0,)), VECTOR)
    assert compute(payload, 1, 1).outputs == (BOTH,)


def test_an_empty_operand_is_analysed_like_any_other() -> None:
    empty = jax.ShapeDtypeStruct((0,), jnp.float32)
    payload = lower_payload(lambda x: call(ttir_kernels.scalars, x, 1, 3, out_shape=empty), empty)
    assert compute(payload, 1, 1).operands == (BOTH,)


def test_every_configuration_of_an_autotuned_kernel_counts() -> None:
    kernel = triton.autotune(
        [triton.Config({"WRITE": write}, num_warps=warps) for write, warps in ((False, 4), (True, 8))], key=[]
    )(ttir_kernels.sometimes_in_place)
    effects = compute(lower_payload(lambda x: call(kernel, x), VECTOR), 1, 1)
    assert effects.configurations == 2
    assert (effects.operands, effects.outputs) == ((BOTH,), (WRITE,))
    effects = compute(lower_payload(lambda x: call(kernel, x, WRITE=False), VECTOR), 1, 1)
    assert effects.configurations == 1
    assert effects.operands == (READ,)


@pytest.mark.parametrize(("operands", "outputs"), [(0, 1), (1, 0), (0, 0)])
def test_a_kernel_that_takes_more_buffers_than_the_call_has_is_unknown(
    payload: bytes, operands: int, outputs: int
) -> None:
    effects = compute(payload, operands, outputs)
    assert effects.operands + effects.outputs == (UNKNOWN,) * (operands + outputs)
    assert effects.reasons == (f"`scalars` takes 2 buffers, but the call has {operands + outputs}",)


def test_a_buffer_that_is_not_passed_to_the_kernel_is_not_accessed(payload: bytes) -> None:
    assert compute(payload, 1, 2).outputs == (WRITE, NONE)


def edit(payload: bytes, change: Any) -> bytes:
    import zlib

    proto = triton_call_pb2.TritonAnyKernelCall.FromString(zlib.decompress(payload))
    change(proto.kernel_call)
    return zlib.compress(proto.SerializeToString())


def test_parameters_that_do_not_fit_the_function_are_unknown(payload: bytes) -> None:
    effects = compute(edit(payload, lambda proto: proto.parameters.add(i32=3)), 1, 1)
    assert effects.operands == (UNKNOWN,)
    assert effects.reasons == ("`scalars` takes 3 arguments, but the call passes 4 parameters",)

    def swap(proto: triton_call_pb2.TritonKernelCall) -> None:
        proto.parameters[0].i32 = 5

    effects = compute(edit(payload, swap), 1, 1)
    assert effects.reasons == ("the parameters of the call do not match the arguments of `scalars`",)


def test_a_parameter_of_a_future_kind_is_unknown(payload: bytes) -> None:
    effects = compute(edit(payload, lambda proto: proto.parameters.add()), 1, 1)
    assert effects.operands == (UNKNOWN,)
    assert effects.reasons == ("the payload has a parameter of an unknown kind",)


def test_a_host_tensor_descriptor_takes_a_buffer(payload: bytes) -> None:
    def describe(proto: triton_call_pb2.TritonKernelCall) -> None:
        proto.parameters[0].tensor_descriptor.SetInParent()

    (call,) = parse_triton_call(edit(payload, describe))
    assert call.parameters is not None
    assert [parameter.is_buffer for parameter in call.parameters] == [True, False, True]


def escape(data: bytes) -> bytes:
    """Escapes a string in MLIR's syntax."""
    return b"".join(
        b"\\\\" if byte == 0x5C else bytes([byte]) if 0x20 <= byte < 0x7F and byte != 0x22 else b"\\%02X" % byte
        for byte in data
    )


def test_the_typed_ffi_call_is_read_from_its_attribute_dictionary(payload: bytes) -> None:
    opaque = b'opaque = "' + escape(payload) + b'"'
    expected = compute(payload, 1, 1)
    for config in (
        b"{" + opaque + b"}",
        b'{cost_estimate_json = "{\\22flops\\22: 1, opaque = \\22x\\22}", ' + opaque + b"}",
        b'{name = "\\"", n = 3 : i32, ' + opaque + b", debug = false}",
    ):
        effects = compute_call_effects(target="triton_kernel_call_ffi", backend_config=config, operands=1, outputs=1)
        assert effects == expected


def test_the_dictionary_inside_xla_s_json_is_read_too(payload: bytes) -> None:
    import json

    config = json.dumps(
        {"custom_call_backend_config": {"attributes": '{opaque = "' + escape(payload).decode() + '"}'}}
    ).encode()
    effects = compute_call_effects(target="triton_kernel_call_ffi", backend_config=config, operands=1, outputs=1)
    assert effects == compute(payload, 1, 1)


def test_a_pallas_call_contains_its_module_and_passes_every_buffer() -> None:
    text = b"""module { tt.func public @k(%x: !tt.ptr<f32>, %o: !tt.ptr<f32>) {
      %v = tt.load %x : !tt.ptr<f32>
      tt.store %o, %v : !tt.ptr<f32>
      tt.return } }"""
    config = b'{debug = false, grid_x = 7 : i32, grid_y = 2 : i32, grid_z = 1 : i32, ir = "%s", name = "k"}' % escape(
        text
    )
    compute_pallas = lambda outputs: compute_call_effects(  # noqa: E731
        target="__gpu$xla.gpu.triton", backend_config=config, operands=1, outputs=outputs
    )
    effects = compute_pallas(1)
    assert (effects.kernel, effects.operands, effects.outputs, effects.grid) == ("k", (READ,), (WRITE,), (7, 2, 1))
    assert compute_pallas(2).reasons == ("`k` takes 2 arguments, but the call has 3 buffers",)


@pytest.mark.parametrize(
    "target",
    [
        "__cublas$gemm",
        "__cublas$lt$matmul$f8",
        "__cudnn$fmhaSoftmax",
        "cusolver_getrf_ffi",
        "cu_threefry2x32_ffi",
        "__gpu$TopK",
        "xla.gpu.ext.cub_sort_keys",
        "Sharding",
        "xla.sdy.FuncResultSharding",
    ],
)
def test_a_library_call_reads_its_operands_and_writes_its_outputs(target: str) -> None:
    effects = compute_call_effects(target=target, backend_config=b"anything", operands=2, outputs=2)
    assert effects == CallEffects(kernel=target, operands=(READ, READ), outputs=(WRITE, WRITE))


@pytest.mark.parametrize(
    "target",
    ["my_kernel", "", "__cublas$gemm2", "x__cublas$gemm", "__gpu$xla.gpu.ptx", "Sharding\n", "cusolver_x_ffi.y"],
)
def test_a_target_in_no_table_is_unknown(target: str) -> None:
    effects = compute_call_effects(target=target, backend_config=b"", operands=2, outputs=1)
    assert effects.operands == (UNKNOWN, UNKNOWN)
    assert effects.outputs == (UNKNOWN,)
    (reason,) = effects.reasons
    assert target in reason
    assert reason.endswith("; declare its writes under [tool.ligerdiag.effects]")
    assert effects.operand_uses[0].reason == reason


def test_join_is_the_least_upper_bound() -> None:
    for one in Access:
        assert one.cover(one) is one
        assert one.cover(NONE) is one
        for other in Access:
            both = one.cover(other)
            assert both is other.cover(one)
            assert both.reads >= (one.reads or other.reads)
            assert both.writes >= (one.writes or other.writes)
    assert READ.cover(WRITE) is BOTH
    assert join_all(()) is NONE
    assert join_all((READ, UNKNOWN, WRITE)) is UNKNOWN
