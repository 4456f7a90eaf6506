"""A step of decoding updates its key-value cache by a copy, because the cache is not donated.

Structure: one row of two caches is written at the position of the token, and the caches are returned.

The right answer: the caller keeps both caches as they were, so XLA has to copy each (128 KiB) before it writes one row of
512 bytes. The author wants neither copy, and never uses the old caches: the update is the line. The cured twin donates them.
"""

import jax

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case, Draw


def decode(keys, values, position, token):
    keys = jax.lax.dynamic_update_slice(keys, token[None], (position, 0))  # at: keys_line
    values = values.at[position].set(2.0 * token)  # at: values_line
    weights = jax.nn.softmax(keys @ token)
    return {"caches": (keys, values), "out": weights @ values}


REST = (Arg(shape=(), dtype="int32", draw=Draw(kind="randint", low=0, high=256)), Arg(shape=(128,)))
KEPT, DONATED = Arg(shape=(256, 128)), Arg(shape=(256, 128), donate=True)
REPORT = Report(
    link="https://github.com/sgl-project/sglang-jax/issues/65",
    year=2025,
    versions="not said",
    kind=Kind.SILENT_COPY,
    reported="the update of the key-value cache copies the cache; donation should avoid that",
    finds=Wrong(at=("keys_line", "values_line")),
)
BAD = Case(name="sglangjax_65", params=("bad",), function=decode, args=(KEPT, KEPT, *REST))
CURED = Case(name="sglangjax_65", params=("cured",), function=decode, args=(DONATED, DONATED, *REST))
CASES = (BAD, CURED)
