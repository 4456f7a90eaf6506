"""Makes further libraries of kernels, besides jax-triton and Pallas, compile their kernels for a GPU that is only
described.

cuTile and CuTe DSL compile a kernel while JAX lowers it, and ask the driver for the architecture. XLA runs the stage
`instantiate` of an FFI handler while it compiles the program; a library may load its kernel into the driver there. Both
libraries have JAX primitives of their own, which become FFI calls when JAX lowers them.
"""

import importlib
import os
import sys
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import wraps
from typing import Any, cast

from ligerdiag.compile.lowering.jax_versions import answer_for_device

CUTILE_COMPILER = "cuda.tile._compile"
"""The module of cuTile whose function `get_sm_arch` gets the GPU's architecture from the driver."""
_CUTE_ARCHITECTURE = "CUTE_DSL_ARCH"
"""The environment variable that tells CuTe DSL the architecture."""
_INSTANTIATE = "instantiate"
_PRIMITIVES = {"cutile_call_ffi": "cuda.tile.jax._jax", "cutlass_call_inner": "cutlass.jax.primitive"}
"""Returns the JAX primitives of cuTile and CuTe DSL, for those of the two libraries that the program has imported."""
OTHER_PRIMITIVES = tuple(_PRIMITIVES)


def find_other_primitives() -> list[Any]:
    """Returns the primitives of cuTile and CuTe DSL. A library that the program has not imported has none."""
    found = [getattr(sys.modules.get(module), f"{name}_p", None) for name, module in _PRIMITIVES.items()]
    return [primitive for primitive in found if primitive is not None]


def drop_instantiation() -> None:
    """Makes `jax.ffi.register_ffi_target` leave out the stage `instantiate` of handlers for GPUs, for the rest of the
    process. A worker only compiles, so it never runs a call that would need this stage. Before JAX 0.5 the function is
    in `jax.extend.ffi`, where JAX 0.5 still has it, too.
    """
    libraries = _find_ffi_libraries()
    register = libraries[0].register_ffi_target

    @wraps(register)
    def registered(name: str, fn: Any, platform: str = "cpu", *words: Any, **options: Any) -> Any:
        if isinstance(fn, Mapping) and platform.lower() != "cpu" and "execute" in fn:
            stages = cast(Mapping[str, Any], fn)
            fn = {stage: handler for stage, handler in stages.items() if stage != _INSTANTIATE}
        return register(name, fn, platform, *words, **options)

    for library in libraries:
        library.register_ffi_target = registered


def _find_ffi_libraries() -> list[Any]:
    """Returns the modules in which this JAX has the functions of its FFI, the recommended one first."""
    found: list[Any] = []
    for name in ("jax.ffi", "jax.extend.ffi"):
        with suppress(ImportError):
            found.append(importlib.import_module(name))
    return found


@contextmanager
def assume_gpu_of_other_kernels(compute_capability: int) -> Generator[None]:
    """Makes cuTile and CuTe DSL compile for a GPU of this compute capability inside the context. An architecture in the
    user's environment takes precedence.
    """
    with _assume_tile_architecture(compute_capability), _assume_cute_architecture(compute_capability):
        yield


def _assume_tile_architecture(compute_capability: int) -> AbstractContextManager[None]:
    compiler: Any = sys.modules.get(CUTILE_COMPILER)
    if not hasattr(compiler, "get_sm_arch"):
        return nullcontext()
    return answer_for_device(compiler, "get_sm_arch", f"sm_{compute_capability}")


@contextmanager
def _assume_cute_architecture(compute_capability: int) -> Generator[None]:
    if _CUTE_ARCHITECTURE in os.environ:
        yield
        return
    name = f"sm_{compute_capability}{'a' if compute_capability >= 90 else ''}"
    settings = _find_cute_settings()
    before = getattr(settings, "_arch", None)
    os.environ[_CUTE_ARCHITECTURE] = name  # for a program that imports CuTe DSL while it is traced
    if settings is not None:
        settings.arch = name
    try:
        yield
    finally:
        del os.environ[_CUTE_ARCHITECTURE]
        if settings is not None:
            settings._arch = before


def _find_cute_settings() -> Any:
    """Returns the object in which CuTe DSL keeps the architecture; None if the program has not imported CuTe DSL."""
    if "cutlass.cutlass_dsl" not in sys.modules:
        return None
    with suppress(Exception):
        library: Any = importlib.import_module("cutlass.cutlass_dsl.cutlass")
        return library.CuTeDSL._get_dsl().envar
    return None
