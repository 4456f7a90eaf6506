"""Opens the process in which kernels are interpreted, so that JAX here stays free to compile them."""

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

ENVIRONMENT = {
    "TRITON_INTERPRET": "1",
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
}


@contextmanager
def open_interpreting_process() -> Iterator[ProcessPoolExecutor]:
    """Opens one process with `ENVIRONMENT`, set before it imports triton or jax."""
    spawn = multiprocessing.get_context("spawn")
    # a builtin: unpickling a function of ours would import triton first
    before = f"import os; os.environ.update({ENVIRONMENT!r})"
    with ProcessPoolExecutor(1, mp_context=spawn, initializer=exec, initargs=(before,)) as pool:
        yield pool


def call_interpreting(function: Callable[..., Any], *arguments: Any) -> Any:
    """Returns the result of the call in that process; function and arguments must be importable and picklable."""
    with open_interpreting_process() as pool:
        return pool.submit(function, *arguments).result()
