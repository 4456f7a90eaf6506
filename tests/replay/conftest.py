"""A process in which Triton interprets kernels."""

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pytest

ROWS, BLOCK = 8, 16

type Call = Callable[..., Any]
"""A function, then the arguments of its call in that process."""


@pytest.fixture(scope="module")
def interpreted() -> Iterator[Call]:
    spawn = multiprocessing.get_context("spawn")
    # a builtin: to unpickle a function of ours, the process would import triton first
    before = "import os; os.environ.update({'TRITON_INTERPRET': '1', 'JAX_PLATFORMS': 'cpu'})"
    with ProcessPoolExecutor(1, mp_context=spawn, initializer=exec, initargs=(before,)) as pool:
        yield lambda function, *args, **keywords: pool.submit(function, *args, **keywords).result(timeout=600)


def draw(rows: int = ROWS, block: int = BLOCK, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(0).standard_normal(rows * block).astype(dtype)
