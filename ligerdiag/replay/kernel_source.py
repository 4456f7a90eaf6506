"""From a launch record back to the kernel's Python function, as this process has it."""

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

from ligerdiag.compile.kernel_launch import KernelLaunch, compute_source_sha256
from ligerdiag.compile.worker_faults import describe_fault
from ligerdiag.replay.opcodes.scope import NotCoveredError

INTERPRET = "TRITON_INTERPRET"
"""Must be 1 in the environment before triton is imported: kernels are then made for the interpreter."""


def find_kernel(launch: KernelLaunch) -> Any:
    """Returns the kernel, a `triton.runtime.interpreter.InterpretedFunction`; NotCoveredError when it is not
    available."""
    if launch.trouble:
        raise NotCoveredError(f"kernel `{launch.kernel}`: {launch.trouble}")
    if os.environ.get(INTERPRET) != "1":
        raise NotCoveredError(f"kernel `{launch.kernel}`: {INTERPRET}=1 is not in the environment")
    found: Any = _find_module(launch)
    for part in launch.qualname.split("."):
        found = getattr(found, part, None)
    while found is not None and not _is_interpreted(found):
        found = getattr(found, "fn", None)
    if found is None:
        raise NotCoveredError(
            f"kernel `{launch.kernel}`: `{launch.module}` has no interpreted kernel under the name `{launch.qualname}`"
        )
    if compute_source_sha256(found.fn) != launch.source:
        raise NotCoveredError(f"kernel `{launch.kernel}`: `{launch.file}` is not what was compiled any more")
    return found


def _is_interpreted(value: object) -> bool:
    interpreter: Any = importlib.import_module("triton.runtime.interpreter")
    return isinstance(value, interpreter.InterpretedFunction)


def _find_module(launch: KernelLaunch) -> Any:
    """Finds the module by its name; by its file if the name is not found, as for a case's own file."""
    if launch.module in sys.modules:
        return sys.modules[launch.module]
    try:
        if importlib.util.find_spec(launch.module) is not None:
            return importlib.import_module(launch.module)
    except ModuleNotFoundError:
        pass
    except Exception as fault:
        raise _not_importable(launch, describe_fault(fault)) from fault
    return _import_file(launch)


def _import_file(launch: KernelLaunch) -> Any:
    spec = importlib.util.spec_from_file_location(launch.module, launch.file)
    if spec is None or spec.loader is None or not Path(launch.file).is_file():
        raise _not_importable(launch, f"no file `{launch.file}`")
    module = importlib.util.module_from_spec(spec)
    sys.modules[launch.module] = module
    try:
        spec.loader.exec_module(module)
    except Exception as fault:
        del sys.modules[launch.module]
        raise _not_importable(launch, describe_fault(fault)) from fault
    return module


def _not_importable(launch: KernelLaunch, reason: str) -> NotCoveredError:
    return NotCoveredError(f"kernel `{launch.kernel}`: `{launch.module}` does not import: {reason}")
