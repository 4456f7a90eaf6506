"""Runs kernels in separate processes: a kernel's import decides whether it is interpreted, and JAX stays off the GPU."""

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest

type Call = Callable[..., Any]

QUICK = {"JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
"""XLA compiles dozens of small programs here that run only once."""


def _calls_in_a_process_with(environment: dict[str, str]) -> Iterator[Call]:
    spawn = multiprocessing.get_context("spawn")
    # A builtin: unpickling one of our functions would import the kernels first.
    before = f"import os; os.environ.update({environment!r})"
    with ProcessPoolExecutor(1, mp_context=spawn, initializer=exec, initargs=(before,)) as pool:
        yield lambda function, *args, **keywords: pool.submit(function, *args, **keywords).result(timeout=600)


@pytest.fixture(scope="session")
def interpreted() -> Iterator[Call]:
    """Calls a function in a process where Triton kernels run on the CPU."""
    yield from _calls_in_a_process_with({"TRITON_INTERPRET": "1", **QUICK})


@pytest.fixture(scope="session")
def compiled() -> Iterator[Call]:
    """Calls a function in a process where Triton kernels are compiled."""
    yield from _calls_in_a_process_with({"TRITON_INTERPRET": "0", **QUICK})


@pytest.fixture(scope="session")
def interpreted_on_four_devices() -> Iterator[Call]:
    """Calls a function in a process where Triton kernels run on the CPU, which counts as four devices."""
    four = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    yield from _calls_in_a_process_with({"TRITON_INTERPRET": "1", **QUICK, **four})
