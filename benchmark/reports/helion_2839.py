"""A kernel that updates pages of a cache in place leaves garbage in the pages that it does not touch.

Structure: the launcher gives the kernel an output without an alias to the cache, and the kernel stores two of eight
rows.

The right answer: the six other rows are those of the old cache. Without an alias they are never written: `cache` is
undefined there. With the alias the output takes the bytes of the cache, and they stay.
"""

import jax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case


def store_kernel(cache_ref, rows_ref, out_ref):
    out_ref[pl.ds(2, 2), :] = rows_ref[...]


def update(aliases, cache, rows):
    call = pl.pallas_call(
        store_kernel,
        out_shape=jax.ShapeDtypeStruct(cache.shape, cache.dtype),
        input_output_aliases=aliases,
        compiler_params=triton.CompilerParams(num_warps=1),
    )
    return {"cache": call(cache, rows)}  # at: call


def update_elsewhere(cache, rows):
    return update({}, cache, rows)


def update_in_place(cache, rows):
    return update({0: 0}, cache, rows)


REPORT = Report(
    link="https://github.com/pytorch/helion/pull/2839",
    year=2026,
    versions="helion 1.1, TPU",
    kind=Kind.UNWRITTEN_READ,
    reported="untouched regions of an in-place output are garbage, because the launcher sets no alias",
    finds=Wrong(outputs=("cache",), at=("call",)),
)
ARGS = (Arg(shape=(8, 64), donate=True), Arg(shape=(2, 64)))
BAD = Case(name="helion_2839", params=("bad",), function=update_elsewhere, args=(Arg(shape=(8, 64)), ARGS[1]))
CURED = Case(name="helion_2839", params=("cured",), function=update_in_place, args=ARGS)
CASES = (BAD, CURED)
