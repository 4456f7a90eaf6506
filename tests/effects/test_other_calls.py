"""Calls of other frameworks: Pallas as JAX lowers it here, Mosaic's names, and every target that jaxlib registers."""

import importlib
import re
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as pallas_triton

from ligerdiag.effects.access import Access, CallEffects, Neighbours, WriteCoverage
from ligerdiag.effects.call import compute_call_effects
from ligerdiag.hlo.custom_calls import load_groups
from ligerdiag.hlo.parse import parse_hlo_module

pytestmark = pytest.mark.filterwarnings("ignore:The Pallas Triton backend is deprecated")

READ, WRITE, BOTH, UNKNOWN = Access.READ, Access.WRITE, Access.READ_WRITE, Access.UNKNOWN
ROWS = jax.ShapeDtypeStruct((64, 16), jnp.float32)
BLOCK = pl.BlockSpec((16, 16), lambda row: (row, 0))


def double(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[...] * 2


def add_to(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
    o_ref[...] += x_ref[...]


def compute_pallas(kernel: Any, *, grid: int, operands: int, **options: Any) -> CallEffects:
    """Returns the effects of the only custom call of a `pallas_call`, lowered without a GPU."""

    def program(*arrays: Any) -> Any:
        call = pl.pallas_call(
            kernel,
            out_shape=ROWS,
            grid=(grid,),
            in_specs=[BLOCK] * operands,
            out_specs=BLOCK,
            compiler_params=pallas_triton.CompilerParams(),
            **options,
        )
        return call(*arrays)

    device = jax.sharding.AbstractDevice(device_kind="NVIDIA H100 80GB HBM3", num_cores=None, platform="cuda")
    mesh = jax.sharding.AbstractMesh((1,), ("x",), abstract_device=device)
    with jax.sharding.use_abstract_mesh(mesh):
        lowered: Any = jax.jit(program).trace(*[ROWS] * operands).lower(lowering_platforms=("cuda",))
    module = parse_hlo_module(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())
    (call,) = [call for _, call in module.iterate_custom_calls() if "triton" in call.proto.custom_call_target]
    return compute_call_effects(
        target=call.proto.custom_call_target,
        backend_config=call.proto.backend_config,
        operands=len(call.operands),
        outputs=1,
        sizes=(64 * 16 * 4,) * (len(call.operands) + 1),
    )


def test_a_pallas_kernel_is_followed_although_its_bytecode_is_jaxlib_s(capfd: pytest.CaptureFixture[str]) -> None:
    effects = compute_pallas(double, grid=4, operands=1)
    assert (effects.kernel, effects.grid, effects.reasons) == ("double", (4, 1, 1), ())
    assert effects.operands == (READ,)
    # Pallas loads the elements that it is about to overwrite, and drops them.
    assert effects.outputs == (BOTH,)
    assert effects.output_uses[0].coverage is WriteCoverage.COMPLETE
    assert effects.output_uses[0].neighbours is Neighbours.DISJOINT


def test_a_pallas_grid_that_is_too_small_leaves_rows_out(capfd: pytest.CaptureFixture[str]) -> None:
    assert compute_pallas(double, grid=3, operands=1).output_uses[0].coverage is WriteCoverage.PARTIAL


def test_an_aliased_pallas_operand_is_passed_but_not_used(capfd: pytest.CaptureFixture[str]) -> None:
    effects = compute_pallas(add_to, grid=4, operands=2, input_output_aliases={1: 0})
    assert (effects.operands, effects.outputs) == ((READ, Access.NONE), (BOTH,))


@pytest.mark.parametrize("name", ["add_one", "my.kernel$2"])
@pytest.mark.parametrize("zero", [b"\0", b"\\00"])
def test_a_mosaic_kernel_is_unknown_by_its_own_name(name: str, zero: bytes) -> None:
    config = b'{module = "ML\\EFR\\00stable_mosaic_gpu' + zero + name.encode() + b"_mosaic_gpu" + zero + b'x"}'
    effects = compute_call_effects(target="mosaic_gpu_v2", backend_config=config, operands=1, outputs=1)
    assert (effects.kernel, effects.operands, effects.outputs) == (name, (UNKNOWN,), (UNKNOWN,))
    assert effects.reasons == (
        "jaxlib cannot parse the Mosaic GPU module; declare the kernel's writes under [tool.ligerdiag.effects]",
    )


def test_the_dialect_s_name_is_not_taken_for_a_kernel_s() -> None:
    """Every module of stable Mosaic contains the name `stable_mosaic_gpu`: one declaration of it would have cleared all
    kernels.
    """
    config = b'{module = "ML\\00stable_mosaic_gpu\\00kern_mosaic_gpu\\00stable_mosaic_gpu.version\\00"}'
    assert compute_call_effects(target="mosaic_gpu_v2", backend_config=config, operands=1, outputs=1).kernel == "kern"


def test_anonymous_kernels_get_different_names() -> None:
    names = {
        compute_call_effects(
            target="mosaic_gpu_v2", backend_config=b"ML\x00anonymous_mosaic_gpu\x00" + body, operands=1, outputs=1
        ).kernel
        for body in (b"one", b"two")
    }
    assert len(names) == 2
    assert all(name.startswith("anonymous_") for name in names)


def test_a_mosaic_kernel_without_a_name_gets_its_target_s() -> None:
    effects = compute_call_effects(target="mosaic_gpu", backend_config=b"", operands=1, outputs=1)
    assert effects.kernel == "mosaic_gpu"
    assert effects.operands == (UNKNOWN,)


@pytest.mark.parametrize("target", ["xla_buffer_python_gpu_callback", "xla_buffer_python_cpu_callback"])
def test_a_callback_on_the_operands_own_buffers_is_unknown(target: str) -> None:
    effects = compute_call_effects(target=target, backend_config=b"", operands=1, outputs=1)
    assert effects.operands == (UNKNOWN,)
    assert "hands the operands' own buffers to a Python function" in effects.reasons[0]


def list_registered() -> dict[str, list[str]]:
    """Returns the custom-call targets that the installed jaxlib and its plugin register, by module."""
    found: dict[str, list[str]] = {}
    for name in ("gpu_solver", "gpu_linalg", "gpu_prng", "gpu_sparse", "lapack", "cpu_sparse"):
        registrations = importlib.import_module(f"jaxlib.{name}").registrations()
        found[name] = [entry[0] for entries in registrations.values() for entry in entries]
    for name in ("_rnn", "_hybrid"):
        found[name] = list(importlib.import_module(f"jax_cuda13_plugin.{name}").registrations())
    return found


@pytest.mark.parametrize(("module", "targets"), list_registered().items(), ids=list(list_registered()))
def test_every_library_call_that_jaxlib_registers_is_in_the_table(module: str, targets: list[str]) -> None:
    assert targets
    for target in targets:
        effects = compute_call_effects(target=target, backend_config=b"", operands=2, outputs=1)
        assert (effects.operands, effects.outputs) == ((READ, READ), (WRITE,)), target


def test_each_group_of_targets_names_its_source_and_gives_traits() -> None:
    for group in load_groups():
        assert set(group) <= {"about", "source", "traits", "note", "targets", "patterns"}
        assert re.match(r"[\w.-]+/[\w.-]+: \w+", group["source"])
        assert group["traits"]
        assert group.get("targets") or group.get("patterns")
    listed = [
        target for group in load_groups() if "reads-only" in group["traits"] for target in group.get("targets", ())
    ]
    assert len(set(listed)) == len(listed)
    assert compute_call_effects(target="__cudnn$norm", backend_config=b"", operands=1, outputs=1).operands == (READ,)
    assert compute_call_effects(target="__cudnn$normal", backend_config=b"", operands=1, outputs=1).operands == (
        UNKNOWN,
    )
