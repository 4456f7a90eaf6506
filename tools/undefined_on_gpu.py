"""Prints the values that a GPU gives to outputs that no program defines: `python tools/undefined_on_gpu.py`.

It needs jax and jax-triton, and nothing of ligerdiag. It runs three kernels many times, each after other work has left
data in memory: a sum by atomic additions onto an output that nobody zeroes, a sum by load and store, and rows at places
that a shared counter assigns. It prints how far the results are from the right ones and from each other, and the same
for the corrected kernels.
"""

# pyright: basic
import inspect
from typing import Any

import jax
import jax.numpy as jnp
import jax_triton as jt
import numpy as np
import triton
import triton.language as tl

NEW = "out_type" in inspect.signature(jt.triton_call).parameters
OUT = "out_type" if NEW else "out_shape"
RUNS, ROWS, BLOCK = 20, 256, 256


@triton.jit
def atomic_kernel(x, o, BLOCK: tl.constexpr):
    tl.atomic_add(o, tl.sum(tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))))


@triton.jit
def plain_kernel(x, o, BLOCK: tl.constexpr):
    s = tl.sum(tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)))
    tl.store(o, tl.load(o) + s)


@triton.jit
def ticket_kernel(x, c, o, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    place = tl.atomic_add(c, 1)
    tl.store(o + place * BLOCK + at, tl.load(x + tl.program_id(0) * BLOCK + at))


def call(kernel: Any, x: Any, shapes: Any, **words: Any) -> Any:
    """Returns the kernel's outputs."""
    return jt.triton_call(x, kernel=kernel, grid=(ROWS,), BLOCK=BLOCK, **{OUT: shapes}, **words)


def main() -> None:
    """Runs all kernels and prints a line for each."""
    cell = jax.ShapeDtypeStruct((1,), jnp.float32)
    x = jax.random.normal(jax.random.key(0), (ROWS, BLOCK))
    count = jax.ShapeDtypeStruct((1,), jnp.int32)
    programs = {
        "atomic additions, not zeroed (LD025)": lambda x: call(atomic_kernel, x * 1.0, cell),
        "atomic additions, zeroed": lambda x: call(atomic_kernel, x * 1.0, cell, zeroed_outputs=(0,)),
        "load and store, zeroed (LD019)": lambda x: call(plain_kernel, x * 1.0, cell, zeroed_outputs=(0,)),
        "rows by tickets, first column (LD019)": lambda x: call(
            ticket_kernel, x * 1.0, (count, jax.ShapeDtypeStruct(x.shape, x.dtype)), zeroed_outputs=(0,)
        )[1][:, 0],
        "rows by tickets, sorted": lambda x: jnp.sort(
            call(ticket_kernel, x * 1.0, (count, jax.ShapeDtypeStruct(x.shape, x.dtype)), zeroed_outputs=(0,))[1][:, 0]
        ),
    }
    wanted = {"rows by tickets, first column (LD019)": x[:, 0], "rows by tickets, sorted": jnp.sort(x[:, 0])}
    for name, function in programs.items():
        compiled, right = jax.jit(function), np.asarray(wanted.get(name, x.sum()[None]))
        results: list[np.ndarray] = []
        for number in range(RUNS):
            noise = [jnp.full((size,), float(number + 1)) for size in (1, 64, 1024, ROWS * BLOCK)]
            jax.block_until_ready(noise)
            del noise  # its memory is given to what comes next
            results.append(np.asarray(compiled(x)))
        norm = float(np.linalg.norm(right))
        errors = [float(np.linalg.norm(result - right)) / norm for result in results]
        spread = max(float(np.linalg.norm(result - results[0])) / norm for result in results)
        print(f"{name}: relative error {min(errors):.1e} to {max(errors):.1e}, {spread:.1e} between runs")  # noqa: T201
    print(jax.devices()[0].device_kind, jax.__version__)  # noqa: T201


if __name__ == "__main__":
    main()
