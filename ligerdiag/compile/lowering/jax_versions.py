"""Hides differences between the versions of JAX, jax-triton and Pallas with which ligerdiag compiles, one function for
each difference.

`tags` does the same for the Python bindings of MLIR.
"""

import fcntl
import importlib
import inspect
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import jax
from jax.sharding import Mesh

_FIRST_DESCRIPTOR = 200
"""The number of the descriptor of `_open_folder`, which a worker does not reach otherwise."""


def enter_mesh(mesh: Mesh) -> AbstractContextManager[Any]:
    """Returns a context in which everything that is traced uses this mesh: `jax.set_mesh` since JAX 0.7,
    `jax.sharding.use_mesh` since 0.5, the mesh itself before.
    """
    library: Any = jax
    enter = getattr(library, "set_mesh", None) or getattr(library.sharding, "use_mesh", None)
    return mesh if enter is None else enter(mesh)


def get_type(value: Any) -> Any:
    """Returns the type of an array or tracer, in JAX's words its abstract value. Calls `jax.typeof` since JAX 0.6,
    `jax.core.get_aval` before.
    """
    library: Any = jax
    return (getattr(library, "typeof", None) or library.core.get_aval)(value)


def translate_to_hlo(text: str) -> bytes:
    """Translates a StableHLO module to HLO and returns it as a serialized HloModuleProto. Does not catch the exceptions
    of jaxlib.
    """
    library: Any = _import_first("jaxlib._jax", "jaxlib.xla_extension")  # the latter up to jaxlib 0.6
    return library.mlir.mlir_module_to_xla_computation(text, False, False).as_serialized_hlo_module_proto()


def find_read(traced: Any) -> frozenset[int]:
    """Returns the numbers of the arrays that a traced program reads, counted over all its arguments. Without
    `keep_unused`, JAX drops all other arrays. An effect, such as that of a debug callback, counts as a read in JAX.

    traced: a `jax.stages.Traced`. A library may be made for another version of JAX, in which the rules for dropping
    equations take other arguments (jax-triton 0.4 under JAX 0.12). Such a rule is then called with the arguments that
    it expects. If JAX raises an exception nevertheless, all arrays count as read.
    """
    library: Any = importlib.import_module("jax.interpreters.partial_eval")
    jaxpr: Any = getattr(traced.jaxpr, "jaxpr", traced.jaxpr)
    try:
        with _fit_rules(library.dce_rules):
            _, used = library.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))
    except TypeError:
        used = [True] * len(jaxpr.invars)
    constants = len(used) - len(jaxpr.invars)
    return frozenset(number for number, is_used in enumerate(used[constants:]) if is_used)


@contextmanager
def _fit_rules(rules: dict[Any, Any]) -> Generator[None]:
    """Replaces each of JAX's rules for dropping an equation that takes another number of arguments than those of JAX itself
    by one that fits, inside the context.

    A rule takes the outputs in use, since JAX 0.12 also which inputs are read afterwards, and the equation.
    """
    counts = {primitive: _count_arguments(rule) for primitive, rule in rules.items()}
    own = Counter(counts[primitive] for primitive, rule in rules.items() if _is_of_jax(rule)).most_common(1)
    wanted = own[0][0] if own else 2
    others = {
        primitive: rule for primitive, rule in rules.items() if counts[primitive] != wanted and not _is_of_jax(rule)
    }
    rules.update({primitive: _fit_rule(rule, counts[primitive]) for primitive, rule in others.items()})
    try:
        yield
    finally:
        rules.update(others)


def _is_of_jax(rule: Any) -> bool:
    return str(getattr(getattr(rule, "func", rule), "__module__", "")).startswith("jax.")


def _count_arguments(rule: Any) -> int:
    return len(inspect.signature(rule).parameters)


def _fit_rule(rule: Any, count: int) -> Any:
    def fitting(used: Any, *rest: Any) -> Any:
        *_, equation = rest
        return rule(used, equation) if count == 2 else rule(used, [True] * len(equation.invars), equation)

    return fitting


def _import_first(*names: str) -> Any:
    for name in names[:-1]:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    return importlib.import_module(names[-1])


def is_reference(aval: Any) -> bool:
    """Returns whether the type is that of a Ref. XLA gets the contents of a Ref as an operand, and returns its new
    contents as a further output.
    """
    return hasattr(aval, "inner_aval")


def find_kernel_primitives() -> list[Any]:
    found: list[Any] = []
    for holder, name in ((_triton_library(), "triton_kernel_call_p"), (_pallas_library(), "pallas_call_p")):
        primitive = getattr(holder, name, None)
        if primitive is not None:
            found.append(primitive)
    return found


def find_ffi_primitives() -> list[Any]:
    """Returns the primitive of `jax.ffi.ffi_call` in a list. Returns an empty list if this version of JAX does not have
    it in a known place.
    """
    primitive = getattr(importlib.import_module("jax._src.ffi"), "ffi_call_p", None)
    return [] if primitive is None else [primitive]


def _triton_library() -> Any:
    """Returns the module jax-triton; None if it is not installed or does not fit this JAX. That is not an error,
    because programs without it compile nevertheless.
    """
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
def assume_gpu(compute_capability: int, architecture: str = "") -> Generator[None]:
    """Makes jax-triton and Pallas assume a GPU of this compute capability inside the context. With `architecture`,
    makes them assume an AMD GPU of that architecture. Otherwise both libraries would query a GPU that does not exist.
    """
    with (
        _assume_compute_capability(compute_capability),
        _assume_architecture(architecture),
        _assume_pallas_device(compute_capability, architecture),
    ):
        yield


def _assume_compute_capability(compute_capability: int) -> AbstractContextManager[None]:
    """Makes jax-triton assume this compute capability inside the context, instead of querying device 0."""
    library: Any = getattr(_triton_library(), "triton_kernel_call_lib", None)
    return (
        nullcontext() if library is None else answer_for_device(library, "get_compute_capability", compute_capability)
    )


@contextmanager
def _assume_architecture(architecture: str) -> Generator[None]:
    """Makes jax-triton assume an AMD GPU of this architecture inside the context, instead of querying device 0, and gives
    Triton's backend for AMD GPUs its own options as metadata.

    The backend reads options such as `num_ctas` from the metadata, where Triton itself puts them before it compiles;
    jax-triton 0.4.1 leaves them out (docs/reports/jax-triton-hip-metadata.md). jax-triton writes the machine code of a
    kernel into a file, whose path goes into the call and is another one in every process. The call gets a path that is the
    same in every process, and equal programs stay equal. jaxlib reads the file while XLA compiles, and then deletes it, so
    the file must be one that we made.
    """
    owner = _triton_library()
    library: Any = getattr(owner, "triton_kernel_call_lib", None)
    if not architecture or library is None:
        yield
        return
    backend: Any = importlib.import_module("triton.backends.amd.compiler").HIPBackend
    original = backend.make_ttir

    def make_ttir(module: Any, metadata: dict[str, Any], options: Any, *rest: Any, **words: Any) -> Any:
        given = cast(dict[str, Any], vars(options))
        metadata.update({**given, **metadata})
        return original(module, metadata, options, *rest, **words)

    make_kernel, folder = library.TritonKernel, owner._HSACO_TMPDIR.name

    def make_kernel_at_place(*given: Any) -> Any:
        return make_kernel(*(_move_code(one) if str(one).startswith(folder) else one for one in given))

    backend.make_ttir, library.TritonKernel = staticmethod(make_ttir), make_kernel_at_place
    try:
        with answer_for_device(library, "get_arch_details", architecture):
            yield
    finally:
        backend.make_ttir, library.TritonKernel = staticmethod(original), make_kernel


def _move_code(path: str) -> str:
    """Moves the file into the folder of `_open_folder`, under a name that depends on its contents alone. Returns its path
    there, which is the same in every process.
    """
    name = f"{sha256(Path(path).read_bytes()).hexdigest()[:16]}.hsaco"
    folder = _open_folder()
    shutil.move(path, f"{folder}/{name}")
    return f"{folder}/{name}"


@cache
def _open_folder() -> str:
    """Returns the path of a temporary folder of this process by the number of a descriptor, not by the folder's name."""
    opened = os.open(tempfile.mkdtemp(prefix="kernels-"), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return f"/proc/self/fd/{fcntl.fcntl(opened, fcntl.F_DUPFD_CLOEXEC, _FIRST_DESCRIPTOR)}"
    finally:
        os.close(opened)


@contextmanager
def answer_for_device(library: Any, name: str, value: Any) -> Generator[None]:
    """Inside the context, makes the library's function `name` return `value`. The function takes a device or nothing."""
    original = getattr(library, name)

    def answer(*device: Any, **words: Any) -> Any:
        del device, words
        return value

    setattr(library, name, answer)
    try:
        yield
    finally:
        setattr(library, name, original)


def _assume_pallas_device(compute_capability: int, architecture: str) -> AbstractContextManager[None]:
    """Makes Pallas on Triton assume a GPU of this compute capability, or an AMD GPU of this architecture, inside the
    context, instead of querying the default device, which is a CPU here.
    """
    library = _pallas_devices()
    if library is None:
        return nullcontext()
    name = architecture or f"{compute_capability // 10}.{compute_capability % 10}"
    info = library.GpuInfo(gpu_version=None, arch_name=name, compute_capability=compute_capability)
    return answer_for_device(library, "get_gpu_info", info)


def _pallas_devices() -> Any:
    try:
        return importlib.import_module("jax._src.pallas.triton.gpu_info")
    except ImportError:
        return None
