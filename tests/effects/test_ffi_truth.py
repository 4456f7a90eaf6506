"""Real FFI handlers on the CPU: compares the computed effects with the bytes that their calls change."""

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ligerdiag.effects.access import Access, CallEffects
from ligerdiag.effects.call import compute_call_effects
from ligerdiag.effects.declared import apply_declarations, parse_declarations
from ligerdiag.hlo.parse import parse_hlo_module

NAMES = ("ligerdiag_double_in_place", "ligerdiag_add")
COMPILER = next((found for name in ("c++", "g++", "clang++") if (found := shutil.which(name))), None)

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler on PATH to build the FFI handlers with")


@pytest.fixture(scope="module")
def handlers(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Builds and registers both handlers."""
    library = tmp_path_factory.mktemp("ffi") / "mutating_ffi.so"
    source = Path(__file__).with_name("mutating_ffi.cc")
    command = [
        COMPILER or "",
        "-std=c++17",
        "-shared",
        "-fPIC",
        f"-I{jax.ffi.include_dir()}",
        str(source),
        "-o",
        str(library),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    loaded = ctypes.CDLL(str(library))
    for name in NAMES:
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(getattr(loaded, name)), platform="cpu")


def make_program(name: str) -> Any:
    return jax.jit(lambda x, y: jax.ffi.ffi_call(name, jax.ShapeDtypeStruct(x.shape, x.dtype))(x, y))


def make_arguments() -> tuple[jax.Array, jax.Array]:
    return jnp.arange(64, dtype=jnp.float32) + 1, jnp.ones(64, jnp.float32)


def read_bytes(array: jax.Array) -> bytes:
    return ctypes.string_at(array.unsafe_buffer_pointer(), array.nbytes)


def compute_effects(name: str) -> tuple[str, CallEffects]:
    """Returns target and effects of the only custom call in the lowered program."""
    lowered: Any = make_program(name).lower(*make_arguments())
    module = parse_hlo_module(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())
    ((_, call),) = module.iterate_custom_calls()
    target = call.proto.custom_call_target
    return target, compute_call_effects(
        target=target, backend_config=call.proto.backend_config, operands=len(call.operands), outputs=1
    )


def run(name: str) -> tuple[bool, ...]:
    """Returns for each operand whether its bytes have changed after the call."""
    arguments = jax.block_until_ready(make_arguments())
    before = [read_bytes(argument) for argument in arguments]
    total = jax.block_until_ready(make_program(name)(*arguments))
    np.testing.assert_array_equal(np.asarray(total), np.arange(64) + 2)
    return tuple(read_bytes(argument) != old for argument, old in zip(arguments, before, strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_without_a_declaration_a_handler_is_unknown(name: str, handlers: None) -> None:
    target, effects = compute_effects(name)
    assert target == name
    assert effects.operands == (Access.UNKNOWN, Access.UNKNOWN)
    assert effects.outputs == (Access.UNKNOWN,)
    assert effects.reasons == (
        f"the effects of custom-call target `{name}` are not known; declare its writes under [tool.ligerdiag.effects]",
    )


@pytest.mark.parametrize(("name", "writes"), [(NAMES[0], [0]), (NAMES[1], [])])
def test_a_declared_handler_changes_exactly_the_declared_operands(name: str, writes: list[int], handlers: None) -> None:
    target, found = compute_effects(name)
    declarations = parse_declarations({name: {"writes": writes}})
    effects, contradictions = apply_declarations(found, target=target, declarations=declarations)
    assert contradictions == ()
    assert tuple(access.writes for access in effects.operands) == run(name)
    assert all(access.reads for access in effects.operands)
    assert effects.reasons == ()
