"""The whole batch of a serving step is donated for the sake of the cache in it, and JAX warns about all the rest.

Structure: one donated structure holds the cache and the integers that describe the requests. The step returns the cache and
logits in floating point.

The right answer: the cache's output takes the cache's bytes. No output has the shape or dtype of the integers, of 8 KiB
each, so their donations are void: the caller loses the arrays for nothing. The first operations that read them are the
lines. The cured twin donates the cache alone.
"""

from benchmark.report import Kind, Report, Wrong
from ligerdiag import Arg, Case, Draw


def forward(batch, weights):
    rows = weights[batch["tokens"]]  # at: tokens_line
    cache = batch["cache"].at[batch["places"]].set(rows)  # at: places_line
    return {"cache": cache, "logits": rows @ weights[:64].T}


def forward_split(cache, batch, weights):
    return forward({**batch, "cache": cache}, weights)


def ids(*, donate, high):
    return Arg(shape=(2048,), dtype="int32", draw=Draw(kind="randint", low=0, high=high), donate=donate)


CACHE, WEIGHTS = Arg(shape=(4096, 32), donate=True), Arg(shape=(256, 32))
REPORT = Report(
    link="https://github.com/sgl-project/sglang-jax/pull/230",
    year=2025,
    versions="TPU",
    kind=Kind.VOID_DONATION,
    reported="JAX warns about donated integers of the batch until the cache is passed apart from them",
    finds=Wrong(at=("tokens_line", "places_line")),
)
BAD = Case(
    name="sglangjax_230",
    params=("bad",),
    function=forward,
    args=({"cache": CACHE, "places": ids(donate=True, high=4096), "tokens": ids(donate=True, high=256)}, WEIGHTS),
)
CURED = Case(
    name="sglangjax_230",
    params=("cured",),
    function=forward_split,
    args=(CACHE, {"places": ids(donate=False, high=4096), "tokens": ids(donate=False, high=256)}, WEIGHTS),
)
CASES = (BAD, CURED)
