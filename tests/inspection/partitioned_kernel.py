"""A kernel in the function of a `custom_partitioning`, which JAX traces again while XLA compiles.

`double` returns the sums of the rows f32[rows] and doubles the rows f32[rows, 32]. The right verdicts, by hand:

- The function on whole arrays is the intended program. A kernel that overwrites its operand overwrites `h` there,
  whether the program reads `h` as the function's result or by its own name: `read` is `x.T @ (2 h)`.
- `result`: XLA takes the second result for `h` itself, and reads it before the kernel: stale. `trivial` and `barrier`
  make the reader wait. A declared write, or an out-of-place one, is right.
- `operand`, with the columns of h split, `trivial`: the kernel gets gathered, whole rows. The reader waits, but reads
  bytes that nothing overwrites: stale.
- `twice`: XLA merges the two calls. The second sums are those of `h` instead of `2 h`: stale; the first are right.
- `unused`: nothing needs the sums, and JAX drops the call: stale.
- `inner`: the function on whole arrays is jitted, the one on the shards is not: as in `result`.
- `formula`: the function on whole arrays is a formula, and calls no kernel. A hidden write of a kernel on the shards is
  in no program that the author wrote: unknown. If the kernel declares its write, there is no finding.
- `no_kernel`: conversely, the author intends a write, and no kernel makes it: unknown.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import triton
import triton.language as tl
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import NamedSharding, PartitionSpec

from kernels.modes import Mode
from kernels.triton_call import inplace_call
from ligerdiag import Arg, Case

type Step = Callable[[Mode, Any, Any], dict[str, Any]]

ROWS, COLUMNS = 64, 32


@triton.jit
def double_kernel(x_ptr, sums_ptr, destination_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    at = row * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at)
    tl.store(sums_ptr + row, tl.sum(x))
    if destination_ptr is None:
        tl.store(x_ptr + at, 2 * x)
    else:
        tl.store(destination_ptr + at, 2 * x)


def double(mode: Mode, h: Any) -> tuple[Any, Any]:
    outputs = (jax.ShapeDtypeStruct(h.shape[:1], h.dtype),)
    options = {"written": 0, "outputs": outputs, "grid": h.shape[:1], "mode": mode, "COLUMNS": h.shape[1]}
    (sums,), doubled = inplace_call(double_kernel, h, **options)
    return sums, doubled


def add_up(mode: Mode, h: Any) -> Any:
    return double(mode, h)[0]


def by_rows(function: Any, rule: str, shards: Any = None) -> Any:
    """Returns the function; each device runs `shards`, by default the function itself, on its rows."""

    def partition(mesh: Any, arguments: Any, results: Any) -> Any:
        rows = NamedSharding(mesh, PartitionSpec(*arguments[0].sharding.spec[:1]))
        return mesh, shards or function, jax.tree.map(lambda _: rows, results), (rows,)

    partitioned = custom_partitioning(function)
    partitioned.def_partition(partition, sharding_rule=rule, need_replication_factors=("column",))
    return partitioned


BOTH, SUMS = "row column -> row, row column", "row column -> row"


def result(mode: Mode, x: Any, w: Any) -> dict[str, Any]:
    sums, doubled = by_rows(partial(double, mode), BOTH)(x @ w)
    return {"sums": sums, "read": x.T @ doubled}


def operand(mode: Mode, x: Any, w: Any) -> dict[str, Any]:
    h = x @ w
    sums = by_rows(partial(add_up, mode), SUMS)(h)
    h = h + sums.sum() - sums.sum()
    return {"sums": sums, "read": x.T @ h}


def twice(mode: Mode, x: Any, w: Any) -> dict[str, Any]:
    h, add = x @ w, by_rows(partial(add_up, mode), SUMS)
    return {"sums": add(h), "more": add(h)}


def unused(mode: Mode, x: Any, w: Any) -> dict[str, Any]:
    h = x @ w
    by_rows(partial(add_up, mode), SUMS)(h)
    return {"read": x.T @ h}


def inner(mode: Mode, x: Any, w: Any) -> dict[str, Any]:
    function = partial(double, mode)
    sums, doubled = by_rows(jax.jit(function), BOTH, shards=function)(x @ w)
    return {"sums": sums, "read": x.T @ doubled}


def formula(mode: Mode, x: Any, w: Any) -> dict[str, Any]:
    sums, doubled = by_rows(lambda h: (h.sum(1), 2 * h), BOTH, shards=partial(double, mode))(x @ w)
    return {"sums": sums, "read": x.T @ doubled}


def no_kernel(mode: Mode, x: Any, w: Any) -> dict[str, Any]:
    h = x @ w
    sums = by_rows(partial(add_up, mode), SUMS, shards=lambda h: h.sum(1))(h)
    return {"sums": sums, "read": x.T @ h}


def _make(step: Step, mode: Mode, *, columns: bool = False) -> Case:
    x, w = ((), (None, "x")) if columns else (("x",), ())
    return Case(
        name=step.__name__,
        params=(mode,),
        function=partial(step, mode),
        args=(Arg(shape=(ROWS, COLUMNS), partition=x), Arg(shape=(COLUMNS, COLUMNS), partition=w)),
        mesh={"x": 4},
    )


CASES = (
    *(_make(result, mode) for mode in Mode),
    *(_make(step, Mode.HIDDEN) for step in (twice, unused, inner, formula, no_kernel)),
    _make(operand, Mode.HIDDEN, columns=True),
    _make(formula, Mode.ALIASED),
)
