"""Has XLA describe the GPU of this machine: a process of its own compiles a tiny program for it, and XLA writes the
description (`GpuTargetConfigProto`) into its dump.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from ligerdiag.errors import CompileError, InputError, holds_installed
from ligerdiag.harmless_logs import has_nvidia_device

TIMEOUT = 300.0
"""The longest time, in seconds, that the process may take, including the start of JAX."""
ENVIRONMENT = {
    "JAX_PLATFORMS": "cuda",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "JAX_ENABLE_COMPILATION_CACHE": "false",
    "JAX_TRACEBACK_FILTERING": "off",  # else the last line of a traceback is about the filter
}
_DROPPED = ("PYTHONPATH", "JAX_DISABLE_JIT")
_DUMPED = "*gpu_target_config.pbtxt"
_PROGRAM = """
import sys
import jax
import jax.numpy as jnp
jax.jit(lambda x: x + 1).lower(jnp.ones(8)).compile(compiler_options={"xla_dump_to": sys.argv[1]})
"""


@cache
def describe_this_gpu() -> str:
    """Returns the description of this machine's first GPU, in protobuf text format. Raises InputError if there is no GPU,
    and CompileError if JAX cannot use it.
    """
    if not has_nvidia_device():
        raise InputError(
            "target `auto` is the GPU of this machine, but this machine has none: name a target, such as h100"
        )
    return ask_xla(dict(os.environ) | ENVIRONMENT)


def ask_xla(environment: Mapping[str, str]) -> str:
    """Returns the description that XLA writes of the default device of a process. environment: the environment variables of
    the process. Raises CompileError if XLA writes none.
    """
    with TemporaryDirectory(prefix="ligerdiag-gpu-") as folder:
        paths = environment.get("PYTHONPATH", "").split(os.pathsep)
        installed = [os.path.abspath(path) for path in paths if path and holds_installed(Path(path))]
        variables = {name: value for name, value in environment.items() if name not in _DROPPED}
        command = (sys.executable, "-P", "-c", _PROGRAM, folder)
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                env=variables | ({"PYTHONPATH": os.pathsep.join(installed)} if installed else {}),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=TIMEOUT,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CompileError(f"XLA does not describe the GPU of this machine: {error}") from error
        found = sorted(Path(folder).glob(_DUMPED))
        if done.returncode == 0 and found:
            return found[-1].read_text(encoding="utf-8")
    said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    reason = said[-1][:400] if said else "it wrote no description"
    raise CompileError(f"XLA does not describe the GPU of this machine (exit code {done.returncode}): {reason}")
