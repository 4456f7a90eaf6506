"""The caches of all layers in one array: each layer takes its own out, and at the end all are stacked again.

Structure: a donated cache of shape (layers, positions, width). Each layer takes its cache, writes one row, and
attends to it; the new cache is the stack of the layers' caches.

The right answer: three rows of 512 bytes have to be written; the stack moves all layers' caches, 384 KiB, unless the
compiler sees through it. Whatever copies a layer's cache or the whole, at the slice, the update or the stack, is what
the report is about. The cured twin keeps a list of caches.
"""

import jax
import jax.numpy as jnp

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case, Draw

LAYERS = 3


def attend(cache, position, x):
    cache = jax.lax.dynamic_update_slice(cache, jnp.tanh(x)[None], (position, 0))  # at: update
    return cache, jax.nn.softmax(cache @ x) @ cache


def decode(cache, position, x):
    caches = []
    for layer in range(LAYERS):
        one, x = attend(cache[layer], position, x)  # at: slice
        caches.append(one)
    return {"cache": jnp.stack(caches), "x": x}  # at: stack_line


def decode_list(caches, position, x):
    for layer in range(LAYERS):
        caches[layer], x = attend(caches[layer], position, x)
    return {"cache": caches, "x": x}


REST = (Arg(shape=(), dtype="int32", draw=Draw(kind="randint", low=0, high=256)), Arg(shape=(128,)))
REPORT = Report(
    link="https://github.com/keras-team/keras-hub/issues/1562",
    year=2024,
    versions="keras with JAX, CPU and GPU",
    kind=Kind.SILENT_COPY,
    reported="one array for the caches of all layers is concatenated anew in each step, and blocks updates in place",
    finds=Wrong(at=("slice", "update", "stack_line")),
)
BAD = Case(
    name="kerashub_1562", params=("bad",), function=decode, args=(Arg(shape=(LAYERS, 256, 128), donate=True), *REST)
)
CURED = Case(
    name="kerashub_1562",
    params=("cured",),
    function=decode_list,
    args=([Arg(shape=(256, 128), donate=True) for _ in range(LAYERS)], *REST),
)
CASES = (BAD, CURED)
