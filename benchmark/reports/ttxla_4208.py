"""A plugin ignores which outputs alias which inputs, so every step of decoding copies the caches of all layers.

Structure: six caches, keys and values of three layers; each step writes one row of each. The compiled module has no alias
between inputs and outputs, which is what a module looks like whose donations were dropped.

The right answer: without an alias each cache is copied (128 KiB each) before its row is written; with one, only six rows of
512 bytes are. The line of the update is to blame. The cured twin has the aliases.
"""

import jax

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case, Draw


def decode(caches, position, x):
    new = []
    for keys, values in caches:
        all_keys = keys.at[position].set(x)  # at: keys_line
        all_values = values.at[position].set(2.0 * x)  # at: values_line
        x = jax.nn.softmax(all_keys @ x) @ all_values
        new.append((all_keys, all_values))
    return {"caches": new, "x": x}


def make_args(*, donate):
    cache = Arg(shape=(256, 128), donate=donate)
    position = Arg(shape=(), dtype="int32", draw=Draw(kind="randint", low=0, high=256))
    return ([(cache, cache) for _ in range(3)], position, Arg(shape=(128,)))


REPORT = Report(
    link="https://github.com/tenstorrent/tt-xla/issues/4208",
    year=2026,
    versions="tt-xla of April 2026",
    kind=Kind.SILENT_COPY,
    reported="the aliases of inputs and outputs are ignored, and each step copies about 10 GB of caches",
    finds=Wrong(at=("keys_line", "values_line")),
)
BAD = Case(name="ttxla_4208", params=("bad",), function=decode, args=make_args(donate=False))
CURED = Case(name="ttxla_4208", params=("cured",), function=decode, args=make_args(donate=True))
CASES = (BAD, CURED)
