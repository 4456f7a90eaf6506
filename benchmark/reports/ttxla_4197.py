"""Keys and values in one array: each step slices both out, updates them, and puts them together again.

Structure: a donated cache of shape (2, positions, width). A step takes the two halves, writes one row of each, and stacks
them to the new cache.

The right answer: the author wants two rows of 512 bytes written. Taken literally the stack moves the whole cache (256 KiB),
and only a compiler that sees through it writes in place. A copy of the cache or of a half, at the slices, the updates or the
stack, is what the report is about. The cured twin has two caches.
"""

import jax.numpy as jnp

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case, Draw


def decode(cache, position, token):
    keys, values = cache[0], cache[1]  # at: halves
    keys = keys.at[position].set(token)  # at: keys_line
    values = values.at[position].set(jnp.sin(token))  # at: values_line
    scores = keys @ token
    return {"cache": jnp.stack([keys, values]), "out": scores @ values}  # at: stack_line


def decode_apart(keys, values, position, token):
    keys = keys.at[position].set(token)
    values = values.at[position].set(jnp.sin(token))
    return {"caches": (keys, values), "out": (keys @ token) @ values}


REST = (Arg(shape=(), dtype="int32", draw=Draw(kind="randint", low=0, high=256)), Arg(shape=(128,)))
HALF = Arg(shape=(256, 128), donate=True)
REPORT = Report(
    link="https://github.com/tenstorrent/tt-xla/issues/4197",
    year=2026,
    versions="tt-xla, vLLM plugin",
    kind=Kind.SILENT_COPY,
    reported="decoding slows down with the size of the cache: keys and values in one array are sliced and put together",
    finds=Wrong(at=("halves", "keys_line", "values_line", "stack_line")),
)
BAD = Case(name="ttxla_4197", params=("bad",), function=decode, args=(Arg(shape=(2, 256, 128), donate=True), *REST))
CURED = Case(name="ttxla_4197", params=("cured",), function=decode_apart, args=(HALF, HALF, *REST))
CASES = (BAD, CURED)
