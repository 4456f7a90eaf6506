"""Tests whether a GPU runs twins that XLA merged in an order that clobbers one: `python -m tools.merged_on_gpu`, on one
GPU.

Needs jax, jax-triton and triton, and nothing else of the project. Each program computes a product twice and lets a
kernel halve the first; `other` means the second as it was. Prints a line for each program, size, precision and compiler
option: how far each output is from the formulas, and whether the compiled schedule reads the product before or after
the kernel.
"""

import argparse
import itertools
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import jax_triton
import numpy as np
import triton
import triton.language as tl

BLOCK = 128


@triton.jit
def halve_kernel(x_ptr, sum_ptr, n: tl.constexpr, BLOCK: tl.constexpr):
    """Overwrites x."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(x_ptr + at, 0.5 * x, mask=at < n)
    tl.store(sum_ptr + tl.program_id(0), tl.sum(x))


def halve(z: Any, plain: bool) -> Any:
    blocks = -(-z.size // BLOCK)
    if plain:
        return jnp.pad(z.reshape(-1), (0, blocks * BLOCK - z.size)).reshape(blocks, BLOCK).sum(1), 0.5 * z
    sums = jax.ShapeDtypeStruct((blocks,), jnp.float32)
    out = jax_triton.triton_call(z, kernel=halve_kernel, out_shape=sums, grid=(blocks,), n=z.size, BLOCK=BLOCK)
    return out, z


def one_sum(x: Any, w: Any, plain: bool) -> Mapping[str, Any]:
    sums, _ = halve(x @ w, plain)
    return {"other": sums.sum() + (x @ w).sum()}


def two_sums(x: Any, w: Any, plain: bool) -> Mapping[str, Any]:
    sums, _ = halve(x @ w, plain)
    return {"sum": sums.sum(), "other": (x @ w).sum()}


def tanh(x: Any, w: Any, plain: bool) -> Mapping[str, Any]:
    sums, z = halve(x @ w, plain)
    return {"sum": sums.sum(), "other": jnp.tanh(x @ w).sum(), "kept": z.sum(0)}


def beside_a_product(x: Any, w: Any, plain: bool) -> Mapping[str, Any]:
    sums, z = halve(x @ w, plain)
    return {"other": sums.sum() + (x @ w).sum(), "kept": z @ w.T}


def norm(x: Any, w: Any, plain: bool) -> Mapping[str, Any]:
    sums, _ = halve(x @ w, plain)
    return {"other": jnp.sqrt((sums**2).sum() + ((x @ w) ** 2).sum())}


def gradient(x: Any, w: Any, plain: bool) -> Mapping[str, Any]:
    sums, _ = halve(x @ w, plain)
    return {"sum": sums.sum(), "other": jax.grad(lambda w: ((x @ w) ** 2).sum())(w)}


def handed_on(x: Any, w: Any, plain: bool) -> Mapping[str, Any]:
    """A loop that passes its state on unchanged: to XLA, its result is its initial state."""

    def step(state: Any, _: Any) -> Any:
        sums, state = halve(state, plain)
        return state, sums.sum()

    state, sums = jax.lax.scan(step, x @ w, None, 3)
    return {"sum": sums, "kept": state.sum(0)}


PROGRAMS: tuple[Callable[..., Mapping[str, Any]], ...] = (
    one_sum, two_sums, tanh, beside_a_product, norm, gradient, handed_on,
)  # fmt: skip
SIZES = {"small": (8, 16, 32), "large": (512, 256, 4096), "larger": (2048, 1024, 8192)}
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "unchanged": {},
    "not tuned": {"xla_gpu_autotune_level": 0},
    "latency hiding": {"xla_gpu_enable_latency_hiding_scheduler": True},
}


def find_order(text: str) -> str:
    """Returns for each reader of the kernel's operand whether the entry's schedule has it before or after the kernel."""
    entry = text[text.index("ENTRY") :].splitlines()
    at = next((n for n, line in enumerate(entry) if "custom-call(" in line and "triton_kernel_call" in line), None)
    if at is None:
        return "kernel elsewhere"
    found = re.search(r"custom-call\([^%]*(%[\w.-]+)", entry[at])
    readers = [
        n for n, line in enumerate(entry) if found and n != at and re.search(rf"\([^)]*{re.escape(found[1])}\b", line)
    ]
    return " ".join("before" if n < at else "after" for n in readers) or "no other reader"


def compute_error(found: Any, wanted: Any) -> float:
    one, other = (np.asarray(value, np.float64) for value in (found, wanted))
    return float(np.linalg.norm(one - other) / max(float(np.linalg.norm(other)), 1e-30))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    wrong = 0
    for program, size, precision, option in itertools.product(PROGRAMS, SIZES, ("default", "highest"), OPTIONS):
        rows, inner, columns = SIZES[size]
        keys = jax.random.split(jax.random.key(1))
        x, w = jax.random.normal(keys[0], (rows, inner)) + 0.1, jax.random.normal(keys[1], (inner, columns)) + 0.1
        with jax.default_matmul_precision(precision):
            plain: Any = jax.jit(lambda x, w, program=program: program(x, w, True))
            wanted = plain(x, w)
            traced: Any = jax.jit(lambda x, w, program=program: program(x, w, False))
            try:
                compiled = traced.lower(x, w).compile(compiler_options=dict(OPTIONS[option]))
            except Exception as error:  # an option that this XLA does not know
                sys.stdout.write(f"{program.__name__} {size} {precision} {option}: {str(error)[:80]}\n")
                continue
        errors: dict[str, float] = {}
        for _ in range(repeats):
            for name, value in compiled(x, w).items():
                errors[name] = max(errors.get(name, 0.0), compute_error(value, wanted[name]))
        told = " ".join(f"{name} {'WRONG' if error > 0.01 else 'right'} {error:.1e}" for name, error in errors.items())
        wrong += sum(error > 0.01 for error in errors.values())
        order = find_order(compiled.as_text())
        sys.stdout.write(f"{program.__name__} {size} {precision}, {option}: {told}; readers {order}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{jax.devices()[0].device_kind}, jax {jax.__version__}: {wrong} wrong outputs\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
