"""Checks a program that JAX has lowered or compiled already, if it is passed to `ligerdiag.check`.

A `jax.stages.Lowered` is compiled like a case. The module of a `jax.stages.Compiled` is inspected like a dump, because
the program from which it was compiled is gone.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ligerdiag.api.inspecting import inspect
from ligerdiag.compile.cases.exported_program import name_class, refuse_other_gpu
from ligerdiag.errors import InputError
from ligerdiag.hlo.xla_pb2 import HloProto
from ligerdiag.model.report import CaseReport, Coverage, Identity, Inspection, Judged
from ligerdiag.report.status import conclude
from ligerdiag.run_options import InspectOptions
from ligerdiag.source_text import find_usual_root

_LOWER = '`jax.jit(f).trace(*arguments).lower(lowering_platforms=("cuda",))`'
_UNUSED = ("kwargs", "mesh", "expected", "expected_rules", "effects", "reference", "device")
"""Keywords of `ligerdiag.check` that say something of a function, and nothing of a module that is compiled already."""


def is_lowered(value: Any) -> bool:
    """Returns whether a value is a `jax.stages.Lowered`. JAX is not imported for that."""
    return name_class(value) == "Lowered"


def is_compiled(value: Any) -> bool:
    """Returns whether a value is a `jax.stages.Compiled`. JAX is not imported for that."""
    return name_class(value) == "Compiled"


def take_lowered(lowered: Any, targets: Sequence[str], name: str) -> tuple[Any, tuple[Any, ...], Mapping[str, int]]:
    """Returns the StableHLO of a `jax.stages.Lowered` as a function, the types of its arguments, and its mesh.

    targets: names of the GPUs to compile for. Raises InputError if a target is not an NVIDIA GPU, if the program was
    not lowered for CUDA alone, or if it has a form that ligerdiag does not compile.
    """
    from ligerdiag.compile.cases.stablehlo_program import take_lowered as take  # imports JAX, which is there already

    case = take(lowered, name)
    refuse_other_gpu(targets, "a lowered program", f"that `{case.name}` was lowered from")
    platforms = _list_platforms(lowered)
    if platforms and "cuda" not in platforms:
        named = ", ".join(f"`{one}`" for one in platforms)
        raise InputError(f"`{case.name}` is lowered for {named}, where no Triton kernel runs: lower it by {_LOWER}")
    if len(platforms) > 1:
        raise InputError(f"`{case.name}` is lowered for several platforms: lower it by {_LOWER}")
    return case.function, case.args, case.mesh


def _list_platforms(lowered: Any) -> tuple[str, ...]:
    """Returns the platforms that a program was lowered for; empty if JAX does not say."""
    inner: Any = getattr(lowered, "_lowering", None)
    arguments: Any = getattr(inner, "compile_args", {})
    platforms: Any = getattr(inner, "_platforms", None) or arguments.get("platforms") or ()  # the latter before JAX 0.5
    return tuple(str(one) for one in platforms)


def check_compiled(compiled: Any, words: Mapping[str, Any], options: InspectOptions) -> CaseReport:
    """Returns the report on the module of a `jax.stages.Compiled`, for the GPU for which it was compiled.

    words: the keywords of `ligerdiag.check`. options: options of `inspect`; their paths are ignored. Raises InputError if
    the program was not compiled for a GPU, and for keywords that need the function.
    """
    given = [word for word in _UNUSED if words.get(word)]
    if given:
        raise InputError(f"`{given[0]}` cannot be used with a compiled program: pass the original function instead")
    architecture = _find_architecture(compiled)
    executable = compiled.runtime_executable()
    modules = list(executable.hlo_modules()) if executable is not None else []
    if len(modules) != 1:
        raise InputError(
            f"expected a compiled program with one module but got {len(modules)}: pass the original function instead"
        )
    name = str(words.get("name") or modules[0].name.removeprefix("jit_"))
    dump = HloProto()
    dump.hlo_module.ParseFromString(modules[0].as_serialized_hlo_module_proto())
    if buffers := _read_buffers(executable):
        dump.buffer_assignment.ParseFromString(buffers)
    with TemporaryDirectory(prefix="ligerdiag-") as folder:
        path = Path(folder, f"module_0000.{architecture}_gpu_after_optimizations.hlo.pb")
        path.write_bytes(dump.SerializeToString())
        report = inspect(
            replace(options, paths=(path,), source_roots=(Path(find_usual_root(Path.cwd())),)), words.get("on_progress")
        )
    if report.interrupted:
        raise KeyboardInterrupt
    idle = Judged(
        identity=Identity(id=name, target=architecture), result=Inspection(outputs={}, findings=(), coverage=Coverage())
    )
    case = report.cases[0] if report.cases else conclude(idle)
    return replace(case, id=name, artifact="", run=replace(report, cases=()))


def _find_architecture(compiled: Any) -> str:
    """Returns the architecture that the program was compiled for, as XLA names it in a dump, such as `sm_9.0`. Raises
    InputError if that is no GPU.
    """
    library: Any = sys.modules["jax"]
    shardings = library.tree.leaves((compiled.input_shardings, compiled.output_shardings))
    device = next((one for sharding in shardings for one in sharding.device_set), None)
    platform = "" if device is None else str(device.platform)
    if platform not in ("", "gpu", "cuda", "rocm"):
        raise InputError(
            f"the program is compiled for `{platform}`, where no Triton kernel runs: give `ligerdiag.check` the "
            f"function, or lower it by {_LOWER}"
        )
    capability = str(getattr(device, "compute_capability", "") or "unknown")
    return capability if capability.startswith(("gfx", "unknown")) else f"sm_{capability}"


def _read_buffers(executable: Any) -> bytes:
    """Returns XLA's buffer assignment of an executable, serialized; empty if jaxlib does not hand it out."""
    try:
        return bytes(executable.get_compiled_memory_stats().serialized_buffer_assignment_proto)
    except Exception:  # XLA's own errors have no common class, and older versions lack the method or the field
        return b""
