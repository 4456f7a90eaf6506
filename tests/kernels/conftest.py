"""Processes of their own: whether a kernel is interpreted is decided when it is imported, and JAX stays off the GPU."""

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest

type Call = Callable[..., Any]

QUICK = {"JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
"""XLA compiles dozens of small programs here, each to be run once."""


def calls_in_a_process_with(environment: dict[str, str]) -> Iterator[Call]:
    spawn = multiprocessing.get_context("spawn")
    # A builtin: to unpickle a function of ours, the process would import the kernels first.
    before = f"import os; os.environ.update({environment!r})"
    with ProcessPoolExecutor(1, mp_context=spawn, initializer=exec, initargs=(before,)) as pool:
        yield lambda function, *args, **keywords: pool.submit(function, *args, **keywords).result(timeout=600)


@pytest.fixture(scope="session")
def interpreted() -> Iterator[Call]:
    """Calls a function where Triton kernels run on the CPU."""
    yield from calls_in_a_process_with({"TRITON_INTERPRET": "1", **QUICK})


@pytest.fixture(scope="session")
def compiled() -> Iterator[Call]:
    """Calls a function where Triton kernels are compiled."""
    yield from calls_in_a_process_with({"TRITON_INTERPRET": "0", **QUICK})
