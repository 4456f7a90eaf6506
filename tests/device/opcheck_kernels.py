"""Triton kernels that treat their buffers well or badly, and functions that call each of them, for `ligerdiag.opcheck`.

The numbers are small integers, so that sums are exact in any order.
"""

from typing import Any

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as pallas_triton

from ligerdiag.in_place import call_in_place

SIZE, BLOCK = 256, 64
GRID = (SIZE // BLOCK,)


@triton.jit
def double_in_place(x_ptr, out_ptr, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x_ptr + place)
    tl.store(out_ptr + place, values)
    tl.store(x_ptr + place, values * 2)


@triton.jit
def double_declared(x_ptr, out_ptr, spare_ptr, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x_ptr + place)
    tl.store(out_ptr + place, values)
    tl.store(x_ptr + place, values * 2)


@triton.jit
def declared_only(x_ptr, out_ptr, spare_ptr, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + place, tl.load(x_ptr + place))


@triton.jit
def copy(x_ptr, out_ptr, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + place, tl.load(x_ptr + place))


@triton.jit
def clear_even(x_ptr, out_ptr, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + place, tl.load(x_ptr + place))
    tl.store(x_ptr + place, tl.zeros((BLOCK,), tl.float32), mask=place % 2 == 0)


@triton.jit
def clear_negative(x_ptr, out_ptr, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x_ptr + place)
    tl.store(out_ptr + place, values)
    tl.store(x_ptr + place, tl.zeros((BLOCK,), tl.float32), mask=values < 0)


@triton.jit
def count_by_rest(x_ptr, sums_ptr, out_ptr, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x_ptr + place)
    tl.atomic_add(sums_ptr + place % 4, values)
    tl.store(out_ptr + place, values)


@triton.jit
def add_up(x_ptr, out_ptr, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr + place % 4, tl.load(x_ptr + place))


@triton.jit
def gather(x_ptr, index_ptr, out_ptr, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + place, tl.load(x_ptr + tl.load(index_ptr + place)))


def like(array: Any, *shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape or array.shape, array.dtype)


def call(kernel: Any, *operands: Any, out: Any = None, grid: tuple[int] = GRID, **words: Any) -> Any:
    shape = like(operands[0]) if out is None else out
    return jax_triton.triton_call(*operands, kernel=kernel, out_shape=shape, grid=grid, BLOCK=BLOCK, **words)


def hidden(x: Any) -> Any:
    return call(double_in_place, x + 1)


def hidden_argument(x: Any) -> Any:
    return call(double_in_place, x)


def declared(x: Any) -> Any:
    return call_in_place(x, kernel=double_declared, written=0, outputs=[like(x)], grid=GRID, BLOCK=BLOCK)


def never_written(x: Any) -> Any:
    return call_in_place(x, kernel=declared_only, written=0, outputs=[like(x)], grid=GRID, BLOCK=BLOCK)


def reads_only(x: Any) -> Any:
    return call(copy, x)


def partial_writer(x: Any) -> Any:
    return call(clear_even, x + 1)


def conditional_writer(x: Any) -> Any:
    """Writes nothing for the positive numbers of the tests."""
    return call(clear_negative, x + 1)


def partial_output(x: Any) -> Any:
    return call(copy, x, grid=(GRID[0] // 2,))


def atomic(x: Any) -> Any:
    return call(count_by_rest, x, jnp.zeros(4, x.dtype) + x[0])


def uninitialised(x: Any) -> Any:
    return call(add_up, x, out=like(x, 4))


def zeroed(x: Any) -> Any:
    return call(add_up, x, out=like(x, 4), zeroed_outputs=(0,))


def indexed(x: Any, index: Any) -> Any:
    return call(gather, x, index)


def dropped(x: Any) -> Any:
    call(double_in_place, x)
    return x + 1


def in_a_loop(x: Any) -> Any:
    return jax.lax.scan(lambda carried, _: (jax.jit(reads_only)(carried) + 1, None), x, None, length=2)[0]


def _double_ref(x_ref: Any, out_ref: Any) -> None:
    out_ref[...] = x_ref[...] * 2


def pallas(x: Any) -> Any:
    words: Any = {"compiler_params": pallas_triton.CompilerParams(num_warps=4)}
    return pl.pallas_call(_double_ref, out_shape=like(x), **words)(x)
