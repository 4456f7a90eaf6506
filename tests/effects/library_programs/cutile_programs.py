"""cuTile (package `cuda-tile`, with its compiler): an array that is not an `InputOutput` is read-only by contract alone."""

from typing import Any

import cuda.tile as ct
import jax
import jax.numpy as jnp
from cuda.tile.jax import InputOutput, OutputPlaceholder, cutile_call

from ligerdiag.model.case import Arg, Case
from tests.effects.library_programs import plain

TILE = 16


@ct.kernel
def sine_and_double(x: Any, y: Any, tile: ct.Constant) -> None:
    place = ct.bid(0)
    value = ct.load(x, place, tile)
    ct.store(y, place, ct.sin(value))
    ct.store(x, place, value * 2.0)


@ct.kernel
def product(a: Any, b: Any, c: Any, scale: Any, tile: ct.Constant) -> None:
    row, column = ct.bid(0), ct.bid(1)
    total = ct.full((tile, tile), 0.0, ct.float32)
    for step in range(ct.cdiv(a.shape[1], tile)):
        left = ct.load(a, (row, step), (tile, tile))
        right = ct.load(b, (step, column), (tile, tile))
        total = ct.mma(left, right, total)
    if scale > 1:
        ct.store(b, (row, column), ct.astype(total * 2, ct.float16))
    ct.store(c, (row, column), ct.astype(total, ct.float16))


@ct.kernel
def add_at(places: Any, x: Any, total: Any, y: Any, tile: ct.Constant) -> None:
    at = ct.load(places, ct.bid(0), tile)
    value = ct.gather(x, at)
    ct.scatter(y, at, value)
    ct.atomic_add(total, at, value)


def _call_hidden(h: Any) -> Any:
    return cutile_call((h.shape[0] // TILE,), sine_and_double, (h, OutputPlaceholder(h.shape, h.dtype), TILE))


def hidden(x: Any) -> Any:
    h = x * 3
    return {"sine": _call_hidden(h), "sum": h + 1}


def declared(x: Any) -> Any:
    h = x * 3
    values = (InputOutput(h), OutputPlaceholder(h.shape, h.dtype), TILE)
    doubled, sine = cutile_call((h.shape[0] // TILE,), sine_and_double, values)
    return {"sine": sine, "doubled": doubled, "sum": h + 1}


def second_operand(a: Any, b: Any) -> Any:
    left, right = a + 1, b + 1
    place = OutputPlaceholder(a.shape, a.dtype)
    return {"product": cutile_call((2, 2), product, (left, right, place, 2, 64)), "left": left * 2, "right": right * 2}


def by_index(places: Any, x: Any) -> Any:
    h, total = x * 3, jnp.sin(x)
    made = cutile_call((4,), add_at, (places, h, total, OutputPlaceholder(h.shape, h.dtype), TILE))
    return {"made": made, "x": h + 1, "total": total + 1}


def unused(x: Any) -> Any:
    """Calls the kernel for its effect alone: XLA removes the call."""
    h = x * 3
    _call_hidden(h)
    return {"sum": h + 1}


@jax.custom_vjp
def _sum_sines(h: Any) -> Any:
    return _call_hidden(h).sum()


_sum_sines.defvjp(lambda h: (_sum_sines(h), h), lambda h, gradient: (h * gradient,))


def checkpointed(x: Any) -> Any:
    """The backward pass computes `h` again, and means the contents that the kernel leaves there: JAX drops that call."""
    total, gradient = jax.value_and_grad(jax.checkpoint(lambda x: _sum_sines(x * 3)))(x)
    return {"total": total, "gradient": gradient}


VECTOR = Arg(shape=(64,))
PLACES = Arg(shape=(64,), dtype="int32")
MATRIX = Arg(shape=(128, 128), dtype="float16")
CASES = (
    Case(
        name="hidden",
        function=hidden,
        args=(VECTOR,),
        reference=plain.sine_hidden,
        expected={"sum": "stale", "*": "fresh"},
    ),
    Case(name="declared", function=declared, args=(VECTOR,), reference=plain.sine_declared, expected="fresh"),
    Case(
        name="second_operand", function=second_operand, args=(MATRIX, MATRIX), expected={"right": "stale", "*": "fresh"}
    ),
    Case(name="by_index", function=by_index, args=(PLACES, VECTOR), expected={"total": "stale", "*": "fresh"}),
    Case(name="unused", function=unused, args=(VECTOR,), expected={"sum": "stale"}),
    Case(name="checkpointed", function=checkpointed, args=(VECTOR,), expected={"gradient": "stale", "*": "fresh"}),
)
