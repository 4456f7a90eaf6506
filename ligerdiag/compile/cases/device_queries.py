"""Makes JAX answer questions about devices, while a program is traced in a worker, as if the target's GPUs were there.

Programs choose their kernels by `jax.default_backend()` and `jax.devices()`. A worker has only a CPU; if JAX reported
that, a program would take its branch for CPUs, whose schedule says nothing about the kernel.

While a case is traced, JAX's public functions answer as on the target: platform `gpu`, and the devices of the case's mesh
with their kind and compute capability. While a module is imported the mesh is unknown, so they answer with one device of the
target. A module may keep that answer, so a worker in which a module has asked for devices serves that target only
(UsedWorkerError). While the cases of a file are listed there is no target, but the platform is `gpu`. A module that asks for
more than the platform is imported again, in a new worker, for each target.

A program that asks explicitly for the CPU's devices gets them, because the reference functions of cases, the functions
that draw arguments, and replays run on the CPU.

JAX's own modules call inner functions, which still answer with the CPU, so that JAX computes constants there. A few of JAX's
modules ask on behalf of the program, for example to choose how attention is lowered, and get the target's answer
(`_FOR_PROGRAM`). cuDNN and cuSOLVER have the versions of the target. The lowering of a host callback asks for a GPU backend,
but uses the backend on TPUs only. So it gets None.
"""

import importlib
import re
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import prod
from types import FrameType, SimpleNamespace
from typing import Any

from ligerdiag.compile.cases.plugin import find_platform
from ligerdiag.errors import UsedWorkerError
from ligerdiag.workers.read_callers import is_own_code

PLATFORM = "gpu"
PLATFORMS_VARIABLE = "JAX_PLATFORMS"
_NAMES = frozenset({None, PLATFORM, find_platform().value})
"""Names of backends by which a program asks for the target's devices; None asks for the default backend."""


@dataclass(slots=True)
class _Target:
    """The target that JAX's functions describe at the moment, and a record of whether a program has asked."""

    is_gpu: bool = False
    devices: tuple[Any, ...] = ()
    """The target's devices. If empty, JAX itself answers questions about devices, with this machine's CPU; the name of
    the platform is `gpu` nevertheless if `is_gpu` is set.
    """
    description: str = ""
    """The target's description, with the versions of cuDNN and CUDA; empty to answer with the libraries of this
    machine.
    """
    was_asked: bool = False
    """Whether a program has asked for the devices and not only for the name of the platform; set even if `devices` is
    empty.
    """
    imported_for: str | None = None
    """Description of the target for which this worker has imported a module that asked for devices; empty if there was
    no target, None if no module asked.
    """


_TARGET = _Target()
_QUERIES = (
    "default_backend",
    "devices",
    "local_devices",
    "device_count",
    "local_device_count",
    "process_count",
    "make_mesh",
)


_OF_JAX = ("jax", "jaxlib", "ligerdiag")
_FOR_PROGRAM = (
    "jax._src.cudnn.fused_attention_stablehlo",
    "jax._src.mesh_utils",
    "jax._src.pmap",
    "jax._src.random",
    "jax._src.random.core",
)
"""Modules of JAX that ask for devices on behalf of the program and so get the target's answer."""


@contextmanager
def answer_as(devices: Iterable[Any], description: str) -> Generator[None]:
    """Makes JAX answer with these devices inside the context. If `devices` is empty, JAX answers only that the platform
    is a GPU.

    description: the target's description; empty to answer with the library versions of this machine.
    """
    before = _TARGET.is_gpu, _TARGET.devices, _TARGET.description
    _TARGET.is_gpu, _TARGET.devices, _TARGET.description = True, tuple(devices), description
    try:
        yield
    finally:
        _TARGET.is_gpu, _TARGET.devices, _TARGET.description = before


@contextmanager
def import_as(description: str, devices: Iterable[Any]) -> Generator[None]:
    """Makes JAX answer with these devices while the context imports the user's modules. Raises UsedWorkerError if
    modules of this worker have asked for the devices of another target before.

    description: the target's description; empty if there is no target.
    """
    if _TARGET.imported_for not in (None, description):
        raise UsedWorkerError("this worker has imported the file for another target, so this target needs a new worker")
    _TARGET.was_asked = False
    with answer_as(devices, description):
        yield
    if _TARGET.was_asked:
        _TARGET.imported_for = description


def note_question() -> None:
    """Records that the module that is being imported has asked for devices, and so depends on the target."""
    _TARGET.was_asked = True


@contextmanager
def answer_here() -> Generator[None]:
    """Makes JAX answer with the devices of this machine inside the context."""
    before = _TARGET.is_gpu, _TARGET.devices, _TARGET.description
    _TARGET.is_gpu, _TARGET.devices, _TARGET.description = False, (), ""
    try:
        yield
    finally:
        _TARGET.is_gpu, _TARGET.devices, _TARGET.description = before


@contextmanager
def watch_questions(module: str) -> Generator[list[int]]:
    """Records the lines of the module at which its import asks for devices or the platform. A line counts as well if a
    function that it calls asks. Yields the list of line numbers, which grows while the module is imported.
    """
    lines: list[int] = []
    _watched.append((module, lines))
    try:
        yield lines
    finally:
        _watched.pop()


_watched: list[tuple[str, list[int]]] = []
"""The modules that are being imported, the innermost last, with the lines at which they have asked."""


def _note_line() -> None:
    if not _watched:
        return
    module, lines = _watched[-1]
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") == module:
            lines.append(frame.f_lineno)
            return
        frame = frame.f_back


def install_answers() -> None:
    """Permanently replaces JAX's public functions that report devices by functions that answer as on the target. Must
    be called before any of the user's modules is imported.
    """
    jax: Any = importlib.import_module("jax")
    backend: Any = importlib.import_module("jax.extend.backend")
    original: Any = SimpleNamespace(**{name: getattr(jax, name, None) for name in _QUERIES})
    bridge: Any = _find_module("jax.lib.xla_bridge")  # its old place, the only one before 0.4.32
    original.get_backend = (backend if hasattr(backend, "get_backend") else bridge).get_backend
    original.get_default_device = getattr(backend, "get_default_device", None)

    def default_backend() -> str:
        _note_line()
        return PLATFORM if _TARGET.is_gpu else original.default_backend()

    def devices(backend: Any = None) -> list[Any]:
        found = _find_devices(backend)
        return list(found) if found else original.devices(backend)

    def local_devices(process_index: int | None = None, backend: Any = None, host_id: int | None = None) -> list[Any]:
        found = _find_devices(backend)
        if not found:
            return original.local_devices(process_index, backend, host_id)
        process = process_index if process_index is not None else host_id or 0
        return [device for device in found if device.process_index == process]

    def device_count(backend: Any = None) -> int:
        found = _find_devices(backend)
        return len(found) if found else original.device_count(backend)

    def local_device_count(backend: Any = None) -> int:
        found = _find_devices(backend)
        return len(local_devices(backend=backend)) if found else original.local_device_count(backend)

    def process_count(backend: Any = None) -> int:
        found = _find_devices(backend)
        return len({device.process_index for device in found}) if found else original.process_count(backend)

    def make_mesh(*args: Any, **words: Any) -> Any:
        found = () if words.get("devices") is not None else _find_devices(None)
        needed = prod(args[0] if args else next(iter(words.values())))
        if len(found) >= needed:
            words["devices"] = list(found[:needed])
        return original.make_mesh(*args, **words)

    def get_backend(platform: Any = None) -> Any:
        found = _find_devices(platform)
        if not found:
            return original.get_backend(platform)
        return SimpleNamespace(
            platform=PLATFORM,
            platform_version=find_platform().value,
            devices=lambda: list(found),
            local_devices=local_devices,
            device_count=lambda: len(found),
            local_device_count=local_device_count,
            process_index=lambda: 0,
        )

    answers = default_backend, devices, local_devices, device_count, local_device_count, process_count, make_mesh
    for answer in answers:
        if getattr(original, answer.__name__) is not None:
            _replace(jax, getattr(original, answer.__name__), answer)

    def get_default_device() -> Any:
        found = _find_devices(None)
        return found[0] if found else original.get_default_device()

    if original.get_default_device is not None:
        _replace(backend, original.get_default_device, get_default_device)
    for module in (backend, bridge):
        if hasattr(module, "get_backend"):
            _replace(module, original.get_backend, get_backend)
    _answer_callbacks()
    _hide_memory_kinds()
    _answer_by_caller(*answers, get_backend)
    _answer_versions()
    _answer_platforms(jax)


_platforms: list[Callable[[], str | None]] = []
"""The function that returns the setting `jax_platforms` of the process that asks; none before `give_platforms`."""


def give_platforms(read: Callable[[], str | None]) -> None:
    """Sets the function that answers when the user's code reads JAX's setting `jax_platforms`. All other code gets the
    worker's setting.
    """
    _platforms[:] = [read]


def _answer_platforms(jax: Any) -> None:
    kind: Any = jax.config.__class__
    original: Any = kind.__dict__.get("jax_platforms")
    if original is None:  # an older JAX keeps its settings elsewhere
        return
    get: Callable[[Any], str | None] = original.fget
    own = get(jax.config)

    def read(config: Any) -> str | None:
        value = get(config)
        asks = bool(_platforms) and value == own and is_own_code(sys._getframe(1))  # pyright: ignore[reportPrivateUsage]
        return _platforms[-1]() if asks else value

    kind.jax_platforms = property(read, original.fset)


def _answer_by_caller(*answers: Callable[..., Any]) -> None:
    """Makes JAX's inner functions give the target's answers to callers outside of JAX, and to JAX's modules that ask on
    behalf of the program.

    answers: the functions that answer as on the target; each replaces the inner function of the same name, as far as
    this JAX has one.
    """
    bridge: Any = _find_module("jax._src.xla_bridge")
    for answer in answers:
        original = getattr(bridge, answer.__name__, None)
        if original is not None:
            setattr(bridge, answer.__name__, _AnswerByCaller(original, answer))


class _AnswerByCaller:
    """A function that gives JAX's own answer to JAX's modules and the target's answer to all other callers."""

    def __init__(self, original: Any, answer: Callable[..., Any]) -> None:
        self._original = original
        self._answer = answer

    def __call__(self, *args: Any, **words: Any) -> Any:
        caller = str(sys._getframe(1).f_globals.get("__name__", ""))  # pyright: ignore[reportPrivateUsage]
        is_internal = caller.partition(".")[0] in _OF_JAX and caller not in _FOR_PROGRAM
        return (self._original if is_internal else self._answer)(*args, **words)

    def __getattr__(self, name: str) -> Any:  # such as `cache_clear`
        return getattr(self._original, name)


def _answer_versions() -> None:
    """Makes JAX answer with the target's versions of cuDNN and cuSOLVER; changes nothing for a library whose version
    this JAX cannot read.
    """
    library: Any = getattr(_find_module("jax._src.lib"), "cuda_versions", None)
    for name, find in (("cudnn_get_version", _find_cudnn_version), ("cusolver_get_version", _find_cusolver_version)):
        original = getattr(library, name, None)
        if original is not None:
            setattr(library, name, partial(_answer_version, original, find))


def _answer_version(original: Callable[[], int], find: Callable[[], int]) -> int:
    return (find() if _TARGET.is_gpu else 0) or original()


def _find_cudnn_version() -> int:
    """Returns the target's cuDNN version as the number `CUDNN_VERSION` in cudnn_version.h, such as 91900 for 9.19.0; 0
    if the target's description has none.
    """
    major, minor, patch = _find_version("dnn_version")
    return major * 10_000 + minor * 100 + patch


def _find_cusolver_version() -> int:
    """Returns a lower bound of the number `CUSOLVER_VERSION` (cusolver_common.h) for the CUDA version in the target's
    description; 0 if unknown.

    CUDA 13.0 contains cuSOLVER 12.0 (CUDA 13.0 release notes, table 1); older versions are not mapped.
    """
    major, _, _ = _find_version("runtime_version")
    return (major - 1) * 1000 if major >= 13 else 0


def _find_version(field: str) -> tuple[int, int, int]:
    match = re.search(rf'\b{field}: "(\d+)\.(\d+)\.(\d+)"', _TARGET.description)
    return (int(match[1]), int(match[2]), int(match[3])) if match else (0, 0, 0)


def _answer_callbacks() -> None:
    """Lets JAX lower host callbacks although there is no GPU backend; the lowering uses the backend on TPUs only."""
    context: Any = getattr(_find_module("jax._src.interpreters.mlir"), "ModuleContext", None)
    original = getattr(context, "get_backend", None)
    if original is None:  # an older JAX keeps the backend in a field
        return

    def get_backend(self: Any, *args: Any, **words: Any) -> Any:
        try:
            return original(self, *args, **words)
        except RuntimeError:
            if _TARGET.is_gpu and find_platform().value in self.platforms:
                return None
            raise

    context.get_backend = get_backend


class _WithoutMemoryKinds:
    """A compiled program that raises NotImplementedError when JAX asks for the memory kinds of its outputs; JAX then
    does without them.
    """

    def __init__(self, executable: Any) -> None:
        self._executable = executable

    def get_output_memory_kinds(self) -> Any:
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any:
        return getattr(self._executable, name)


def _hide_memory_kinds() -> None:
    """Hides the memory kinds of compiled outputs from JAX: versions 0.8.2 and 0.8.3 would look for these memories on
    the target's devices, which do not exist.
    """
    library: Any = _find_module("jax._src.interpreters.pxla")
    original = getattr(library, "get_out_shardings_from_executable", None)
    if original is None:
        return

    def get_out_shardings_from_executable(executable: Any, *args: Any, **words: Any) -> Any:
        return original(_WithoutMemoryKinds(executable) if _TARGET.is_gpu else executable, *args, **words)

    library.get_out_shardings_from_executable = get_out_shardings_from_executable


def drop_host_callbacks(lowered: Any) -> None:
    """Removes the Python functions of host callbacks from a lowered program, because a client without devices rejects
    them.
    """
    given: Any = getattr(getattr(lowered, "_lowering", None), "compile_args", {})
    if given.get("host_callbacks"):
        given["host_callbacks"] = []


def _replace(module: Any, original: Callable[..., Any], answer: Callable[..., Any]) -> None:
    name = answer.__name__
    answer.__doc__, answer.__module__ = original.__doc__, original.__module__
    setattr(module, name, answer)


def _find_module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _find_devices(backend: Any) -> tuple[Any, ...]:
    """Returns the target's devices; none if the program asks for another backend or the devices are unknown."""
    if not _TARGET.is_gpu or not (backend is None or isinstance(backend, str)) or backend not in _NAMES:
        return ()
    _TARGET.was_asked = True
    _note_line()
    return _TARGET.devices
