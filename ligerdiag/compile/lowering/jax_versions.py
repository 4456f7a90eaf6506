"""Worker side: forms of a kernel call: in each generation of JAX and jax-triton, lowered by itself, and replaced by a
function with a rule of its own.

Worker side: differences between the JAX versions that compile here, each in one function.

Where MLIR's own Python bindings differ, see `locations`; jax-triton's differences are handled where it is called.

Worker side: says what a `triton_call` needs that is written for another generation of jax-triton.

Before 0.4 each output is a pointer parameter of the kernel, an aliased one too, and operands are arrays. Since 0.4 an
aliased output has no parameter of its own, and a Ref says that the kernel overwrites it.

Worker side: what a kernel call is to XLA, also where it is in no module: then it is lowered by itself.

So the effects of a missing call can be read like those of any other.

Worker side: finds the functions that were replaced by their own differentiation rule.

In the body of a scan, a map or a remat JAX traces the function under a `custom_vjp` or `custom_jvp` before it knows
whether the body is differentiated. If it is, the rule (`fwd`, `jvp`) replaces the function, and the function's calls
are in no program. Such a kernel call was not dropped: it was never meant to run.
"""

import importlib
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import jax
from jax.sharding import Mesh


def enter_mesh(mesh: Mesh) -> AbstractContextManager[Any]:
    """Makes it the mesh of what is traced: `jax.set_mesh` since 0.7, `jax.sharding.use_mesh` since 0.5, else `with mesh`."""
    library: Any = jax
    enter = getattr(library, "set_mesh", None) or getattr(library.sharding, "use_mesh", None)
    return mesh if enter is None else enter(mesh)


def get_type(value: Any) -> Any:
    """Returns the abstract value of an array or tracer: `jax.typeof` since 0.6, `jax.core.get_aval` before."""
    library: Any = jax
    return (getattr(library, "typeof", None) or library.core.get_aval)(value)


def translate_to_hlo(text: str) -> bytes:
    """Serialized HloModuleProto of a StableHLO module; raises what jaxlib's translation raises."""
    library: Any = _import_first("jaxlib._jax", "jaxlib.xla_extension")  # the latter up to jaxlib 0.6
    return library.mlir.mlir_module_to_xla_computation(text, False, False).as_serialized_hlo_module_proto()


def _import_first(*names: str) -> Any:
    for name in names[:-1]:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    return importlib.import_module(names[-1])


def is_reference(aval: Any) -> bool:
    """Returns whether the type is a Ref's: XLA gets what it holds, and one more output for what it holds then."""
    return hasattr(aval, "inner_aval")


def find_kernel_primitives() -> list[Any]:
    found: list[Any] = []
    for holder, name in ((_triton_library(), "triton_kernel_call_p"), (_pallas_library(), "pallas_call_p")):
        primitive = getattr(holder, name, None)
        if primitive is not None:
            found.append(primitive)
    return found


def _triton_library() -> Any:
    """Returns jax-triton; None where it is not installed, or does not fit this JAX: programs without it compile all the
    same."""
    try:
        return importlib.import_module("jax_triton.triton_lib")
    except Exception:
        return None


def _pallas_library() -> Any:
    try:
        return importlib.import_module("jax._src.pallas.pallas_call")
    except ImportError:
        return None


@contextmanager
def assume_capability(compute_capability: int) -> Generator[None]:
    """Tells libraries of kernels that the GPU has it, for which they would ask one that is not there."""
    with _assume_compute_capability(compute_capability), _assume_pallas_device(compute_capability):
        yield


@contextmanager
def _assume_compute_capability(compute_capability: int) -> Generator[None]:
    """Sets the compute capability, which jax-triton would ask of device 0: there is no device here."""
    library: Any = getattr(_triton_library(), "triton_kernel_call_lib", None)
    if library is None:
        yield
        return
    original = library.get_compute_capability

    def get_compute_capability(device: int) -> int:
        del device
        return compute_capability

    library.get_compute_capability = get_compute_capability
    try:
        yield
    finally:
        library.get_compute_capability = original


@contextmanager
def _assume_pallas_device(compute_capability: int) -> Generator[None]:
    """Pallas on Triton asks the default device what GPU it is: here that is a CPU."""
    library = _pallas_devices()
    if library is None:
        yield
        return
    original = library.get_gpu_info
    name = f"{compute_capability // 10}.{compute_capability % 10}"
    info = library.GpuInfo(gpu_version=None, arch_name=name, compute_capability=compute_capability)
    library.get_gpu_info = lambda: info
    try:
        yield
    finally:
        library.get_gpu_info = original


def _pallas_devices() -> Any:
    try:
        return importlib.import_module("jax._src.pallas.triton.gpu_info")
    except ImportError:
        return None
