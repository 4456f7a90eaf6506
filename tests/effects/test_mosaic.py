"""Compares the write sets of Mosaic GPU kernels, lowered by JAX without a GPU, with sets derived by hand."""

import re
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import pytest

from kernels.modes import Mode
from kernels.mosaic_scale.api import double
from ligerdiag.effects.access import Access, CallEffects
from ligerdiag.effects.call import CustomCall, compute_call_effects
from ligerdiag.effects.isolated import compute_effects_isolated
from ligerdiag.effects.mosaic.operation_tables import AsmKind, classify_inline_assembly
from ligerdiag.hlo.parse import parse_hlo_module
from ligerdiag.hlo.shape import iterate_leaf_shapes
from tests.effects.mosaic_programs import OWN, PALLAS, SEMANTICS, VECTOR

UNKNOWN = Access.UNKNOWN


def lower_calls(function: Callable[..., Any], *specs: Any, kind: str = "NVIDIA H100 80GB HBM3") -> list[CustomCall]:
    """Returns the Mosaic calls that the function lowers to."""
    device = jax.sharding.AbstractDevice(device_kind=kind, num_cores=None, platform="cuda")
    mesh = jax.sharding.AbstractMesh((1,), ("x",), abstract_device=device)
    with jax.sharding.use_abstract_mesh(mesh):
        lowered: Any = jax.jit(function).trace(*specs).lower(lowering_platforms=("cuda",))
    module = parse_hlo_module(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())
    return [
        CustomCall(
            target=call.proto.custom_call_target,
            backend_config=call.proto.backend_config,
            operands=len(call.operands),
            outputs=len(list(iterate_leaf_shapes(call.shape))),
        )
        for _, call in module.iterate_custom_calls()
        if "mosaic" in call.proto.custom_call_target
    ]


def compute(call: CustomCall) -> CallEffects:
    return compute_call_effects(
        target=call.target, backend_config=call.backend_config, operands=call.operands, outputs=call.outputs
    )


@cache
def lower_own(name: str, semantics: str) -> CustomCall:
    function, count, _ = OWN[name]
    (call,) = lower_calls(partial(function, semantics), *[VECTOR] * count)
    return call


@pytest.mark.parametrize("name", PALLAS)
def test_jax_s_own_kernels_write_only_their_outputs(name: str) -> None:
    program = PALLAS[name]
    found = [compute(call) for call in lower_calls(program.function, *program.specs)]
    order = [(re.sub("^anonymous_.*", "anonymous", one.kernel), one.operands, one.outputs) for one in found]
    assert sorted(order, key=str) == sorted(program.kernels, key=str)  # the gradients' kernels come in any order
    assert [one.reasons for one in found] == [()] * len(found)


@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("name", OWN)
def test_in_place_kernels_write_exactly_the_expected_operands(name: str, semantics: str) -> None:
    effects = compute(lower_own(name, semantics))
    assert (effects.kernel, effects.operands, effects.outputs) == OWN[name][2]
    assert effects.reasons == ()


def test_the_isolated_worker_gives_the_same_answer() -> None:
    call = lower_own("by_tma", "lane")
    (effects,) = compute_effects_isolated([call], cache_directory=None, timeout=60)
    assert (effects.kernel, effects.operands, effects.outputs) == OWN["by_tma"][2]


def test_a_written_operand_may_be_written_partially() -> None:
    effects = compute(lower_own("in_place", "lane"))
    assert "perhaps all, perhaps some" in effects.operand_uses[0].reason


def test_kernels_that_differ_in_what_they_declare_have_the_same_code() -> None:
    functions = (
        partial(double, way="stores", mode=Mode.HIDDEN),
        partial(double, way="stores", mode=Mode.ALIASED),
        partial(double, way="copies", mode=Mode.ALIASED),
    )
    calls = [lower_calls(one, VECTOR)[0] for one in functions]
    hidden, declared, other = (compute(one).code for one in calls)
    assert calls[0].backend_config != calls[1].backend_config
    assert hidden
    assert hidden == declared != other


def mutate(call: CustomCall, change: Callable[[bytes], bytes]) -> CustomCall:
    changed = change(call.backend_config)
    assert changed != call.backend_config
    return CustomCall(
        target=call.target, backend_config=changed, operands=call.operands, outputs=call.outputs, sizes=call.sizes
    )


def cut(config: bytes, share: float) -> bytes:
    """Truncates the module's string, and closes the dictionary after it."""
    match = re.search(rb'module = "((?:\\.|[^"\\])*)"', config, re.DOTALL)
    assert match
    kept = match[1][: int(len(match[1]) * share)]
    kept = kept[: kept.rfind(b"\\")] if b"\\" in kept[-3:] else kept
    return config[: match.start(1)] + kept + config[match.end(1) :]


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.99])
def test_a_truncated_payload_is_unknown(share: float) -> None:
    effects = compute(mutate(lower_own("by_tma", "lane"), lambda config: cut(config, share)))
    assert effects.operands == (UNKNOWN, UNKNOWN)
    assert effects.reasons


def test_a_payload_without_its_module_is_unknown() -> None:
    call = mutate(lower_own("in_place", "lane"), lambda config: config.replace(b"module = ", b"modulo = "))
    assert compute(call).operands == (UNKNOWN,)


def test_memory_of_other_devices_is_unknown() -> None:
    name = b"uses_xla_collective_metadata = "
    call = mutate(lower_own("in_place", "lane"), lambda config: config.replace(name + b"false", name + b"true"))
    effects = compute(call)
    assert effects.operands == (UNKNOWN,)
    assert effects.kernel == "add_one"


def compute_text(text: str, count: int) -> tuple[tuple[Access, ...], list[str]]:
    """Returns the accesses of a textual module, after the pass, to its buffers."""
    from jax._src.interpreters import mlir
    from jax._src.lib import mosaic_gpu_dialect  # pyright: ignore[reportPrivateImportUsage]
    from jaxlib.mlir import ir

    from ligerdiag.effects.mosaic import mosaic_effects

    context: Any = mlir.make_ir_context()
    mosaic_gpu_dialect.register_dialect(context)
    context.allow_unregistered_dialects = True
    context.load_all_available_dialects()
    with context:
        module = ir.Module.parse(text)
        _, flow = mosaic_effects._follow_module(module.operation, count)
    return tuple(flow.accesses), flow.reasons


MODULE = """
module @kern {
  func.func private @nvshmem_ptr(!llvm.ptr)
  func.func private @elsewhere(!llvm.ptr)
  func.func private @mosaic_gpu_init_tma_desc(!llvm.ptr, !llvm.ptr)
  func.func @kern_mosaic_gpu(%token: !llvm.ptr, %table: !llvm.ptr) {
    %c1 = arith.constant 1 : index
    %one = arith.constant 1 : i64
    %stream = builtin.unrealized_conversion_cast %token : !llvm.ptr to !gpu.async.token
    %a = llvm.load %table : !llvm.ptr -> !llvm.ptr
    %x = builtin.unrealized_conversion_cast %a : !llvm.ptr to memref<8xf32> {mosaic_gpu.from_kernel_arg_idx = ARGUMENT : i32}
    %next = llvm.getelementptr %table[1] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
    %b = llvm.load %next : !llvm.ptr -> !llvm.ptr
    %frame = llvm.alloca %one x !llvm.array<128 x i8> : (i64) -> !llvm.ptr
    %launched = gpu.launch async [%stream] blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
        threads(%tx, %ty, %tz) in (%sx = %c1, %sy = %c1, %sz = %c1) {
      %zero = arith.constant 0.0 : f32
      %yes = arith.constant true
      BODY
      gpu.terminator
    }
    func.return
  }
}
"""


def fill(body: str, *, argument: int = 0) -> str:
    """Returns the module with a body that sees the addresses %a and %b; it declares NVSHMEM only if the body calls it."""
    text = MODULE.replace("BODY", body).replace("ARGUMENT", str(argument))
    return text if "@nvshmem" in body else re.sub(r"\n.*@nvshmem_ptr.*", "", text)


BODIES = {
    "a store": ("llvm.store %zero, %a : f32, !llvm.ptr", ("write", "none")),
    "a load": ("%v = llvm.load %a : !llvm.ptr -> f32", ("read", "none")),
    "one of two": (
        "%p = llvm.select %yes, %a, %b : i1, !llvm.ptr\nllvm.store %zero, %p : f32, !llvm.ptr",
        ("write", "write"),
    ),
    "a result of a branch": (
        "%p = scf.if %yes -> !llvm.ptr { scf.yield %a : !llvm.ptr } else { scf.yield %a : !llvm.ptr }\n"
        "llvm.store %zero, %p : f32, !llvm.ptr",
        ("write", "none"),
    ),
    "carried by a loop, swapped each time": (
        "%p:2 = scf.for %i = %c1 to %c1 step %c1 iter_args(%m = %a, %n = %b) -> (!llvm.ptr, !llvm.ptr) {\n"
        "llvm.store %zero, %m : f32, !llvm.ptr\nscf.yield %n, %m : !llvm.ptr, !llvm.ptr }",
        ("write", "write"),
    ),
    "a foreign function": ("func.call @elsewhere(%a) : (!llvm.ptr) -> ()", ("unknown", "none")),
    "memory of a peer": ("func.call @nvshmem_ptr(%a) : (!llvm.ptr) -> ()", ("unknown", "unknown")),
    "an operation of no table": ('"strange.op"(%b) : (!llvm.ptr) -> ()', ("none", "unknown")),
    "an address that was loaded": (
        "%p = llvm.load %a : !llvm.ptr -> !llvm.ptr\nllvm.store %zero, %p : f32, !llvm.ptr",
        ("unknown", "unknown"),
    ),
    "an address of a number": (
        "%p = llvm.inttoptr %one : i64 to !llvm.ptr\n%q = llvm.select %yes, %p, %a : i1, !llvm.ptr\n"
        "llvm.store %zero, %q : f32, !llvm.ptr",
        ("unknown", "unknown"),
    ),
    "an address put into memory": ("llvm.store %a, %b : !llvm.ptr, !llvm.ptr", ("unknown", "write")),
    "a reduction in assembly": (
        'llvm.inline_asm has_side_effects "red.global.add.f32 [$0], $1;", "l,f" %a, %zero : (!llvm.ptr, f32) -> ()',
        ("read_write", "none"),
    ),
    "a multicast in assembly": (
        'llvm.inline_asm has_side_effects "multimem.st.f32 [$0], $1;", "l,f" %a, %zero : (!llvm.ptr, f32) -> ()',
        ("unknown", "unknown"),
    ),
    "an entry beyond the buffers": (
        "%p = llvm.getelementptr %table[2] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr\n"
        "%q = llvm.load %p : !llvm.ptr -> !llvm.ptr",
        ("unknown", "unknown"),
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_each_body_has_the_expected_accesses(name: str) -> None:
    body, expected = BODIES[name]
    accesses, reasons = compute_text(fill(body), 2)
    assert accesses == expected
    assert bool(reasons) == ("unknown" in expected)


def test_arguments_with_swapped_numbers_are_unknown() -> None:
    accesses, reasons = compute_text(fill("llvm.store %zero, %a : f32, !llvm.ptr", argument=1), 2)
    assert accesses == (UNKNOWN, UNKNOWN)
    assert "contradict" in reasons[0]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("@$0 cp.async.bulk.global.shared::cta.bulk_group [$1], [$2], $3;", AsmKind.WRITE),
        ("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [$0, {$1, $2}], [$3];", AsmKind.WRITE),
        ("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1, {$2}], [$3];", "read"),
        ("mbarrier.arrive.release.cta.shared::cta.b64 _, [$0], 1;", AsmKind.NOTHING),
        ("{ .reg .pred p; setp.ne.b32 p, $66, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {$0,$1}; }", "nothing"),
        ("st.shared.f32 [$0], $1;", AsmKind.NOTHING),
        ("st.global.f32 [$0], $1;", AsmKind.WRITE),
        ("atom.global.add.f32 $0, [$1], $2;", AsmKind.UPDATE),
        ("multimem.red.add.f32 [$0], $1;", AsmKind.UNKNOWN),
        ("ld.global.b64 a, [$0]; st.global.b64 [a], $1;", AsmKind.UNKNOWN),
        ("tensormap.replace.tile.global_address.global.b1024.b64 [$0], $1;", AsmKind.UNKNOWN),
    ],
)  # fmt: skip
def test_inline_assembly_has_the_expected_accesses(text: str, kind: AsmKind) -> None:
    assert classify_inline_assembly(text) == kind
