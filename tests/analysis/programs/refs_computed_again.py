"""Kernels that overwrite a Ref (jax-triton 0.4 and later) in functions that `jax.checkpoint` recomputes.

`squares` is the sum of squares: its kernel leaves 2 x in a Ref of x, which is the gradient. JAX makes the Ref again in
the backward pass, but drops the kernel there. The references use no kernel.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import jax_triton as jt
import triton
import triton.language as tl
from jax.ad_checkpoint import checkpoint_name

from ligerdiag import Arg, Case

N = 128
SUM = jax.ShapeDtypeStruct((), "float32")
POLICIES: Any = jax.checkpoint_policies


@triton.jit
def squares_kernel(x_ptr, sum_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(sum_ptr, tl.sum(x * x))
    tl.store(x_ptr + i, 2.0 * x)


@triton.jit
def twice_kernel(x_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x_ptr + i, 2.0 * tl.load(x_ptr + i))


def sum_squares(ref):
    return jt.triton_call(ref, kernel=squares_kernel, out_type=SUM, grid=1, N=N)


def by_freeze(y):
    ref = jax.new_ref(y)
    return sum_squares(ref), jax.freeze(ref)


def by_read(y):
    ref = jax.new_ref(y)
    return sum_squares(ref), ref[...]


def by_slices(y):
    ref = jax.new_ref(y)
    return sum_squares(ref), jnp.concatenate([ref[:64], ref[64:]])


def by_two_kernels(y):
    ref = jax.new_ref(y)
    total = sum_squares(ref)
    jt.triton_call(ref, kernel=twice_kernel, out_type=(), grid=1, N=N)
    return total, jax.freeze(ref) / 2


def by_two_on_a_line(y):
    a, b = jax.new_ref(y), jax.new_ref(3 * y)
    s, t = sum_squares(a), sum_squares(b)
    return (s + t) / 10, (jax.freeze(a) + 3 * jax.freeze(b)) / 10


def by_the_first_on_a_line(y):
    a, b = jax.new_ref(y), jax.new_ref(3 * y)
    s, t = sum_squares(a), sum_squares(b)
    return (s + t) / 10, jax.freeze(a)


def named(y):
    total, left = by_freeze(y)
    return total, checkpoint_name(left, "left")


def without_what_is_left(y):
    return sum_squares(jax.new_ref(y)), 2 * y


def with_rule(forward: Callable[..., Any]) -> Callable[..., Any]:
    function = jax.custom_vjp(lambda y: forward(y)[0])
    function.defvjp(forward, lambda left, g: (g * left,))
    return function


squares = with_rule(by_freeze)
FORMS = {
    form.__name__: with_rule(form)
    for form in (by_freeze, by_read, by_slices, by_two_kernels, by_two_on_a_line, by_the_first_on_a_line,
                 without_what_is_left)
}  # fmt: skip
WRAPS: dict[str, Callable[..., Any]] = {
    "nothing_saveable": partial(jax.checkpoint, policy=POLICIES.nothing_saveable),
    "dots_saveable": partial(jax.checkpoint, policy=POLICIES.dots_saveable),
    "other_names": partial(jax.checkpoint, policy=POLICIES.save_only_these_names("other")),
    "everything_saveable": partial(jax.checkpoint, policy=POLICIES.everything_saveable),
    "without_barriers": partial(jax.checkpoint, prevent_cse=False),
    "of_a_jitted_function": lambda function: jax.checkpoint(jax.jit(function)),
    "in_a_jitted_function": lambda function: jax.jit(jax.checkpoint(function)),
    "of_a_checkpoint": lambda function: jax.checkpoint(jax.checkpoint(function)),
    "no_checkpoint": lambda function: function,
}


def once(function, wrap, xs, w):
    return wrap(lambda x, w: function(x * w))(xs[0], w)


def behind_a_sine(function, wrap, xs, w):
    return wrap(lambda x, w: function(jnp.sin(x * w)))(xs[0], w)


def squared(function, wrap, xs, w):
    return wrap(lambda x, w: function(x * w) ** 2)(xs[0], w)


def two_callers(function, wrap, xs, w):
    return wrap(lambda x, w: function(x * w))(xs[0], w) + function(xs[1] * w)


def in_a_scan(function, wrap, xs, w):
    return jax.lax.scan(wrap(lambda c, x: (c + function(x * w), None)), 0.0, xs)[0]


def around_a_scan(function, wrap, xs, w):
    return wrap(lambda xs, w: jax.lax.scan(lambda c, x: (c + function(x * w), None), 0.0, xs)[0])(xs, w)


def in_a_map(function, wrap, xs, w):
    return jax.lax.map(wrap(lambda x: function(x * w)), xs).sum()


def layers(function, wrap, xs, w):
    return sum((wrap(lambda x, w: function(x * w))(x, w) for x in xs), jnp.float32(0))


def chained(function, wrap, xs, w):
    return function(wrap(lambda x, w: function(x * w) * w)(xs[0], w))


def under_a_condition(function, wrap, xs, w):
    return wrap(lambda w: jax.lax.cond(xs[0, 0] > -1e9, function, lambda y: y.sum(), w * xs[0]))(w)


def behind_a_while_loop(function, wrap, xs, w):
    def body(w):
        start = (0, 0 * jax.lax.stop_gradient(w))
        _, ones = jax.lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, s[1] + 0.5), start)
        return function(ones * w)

    return wrap(body)(w)


def of_mapped_values(function, wrap, xs, w):
    return wrap(lambda w: function(jax.vmap(lambda x: x * w)(xs).sum(0)))(w)


PLACES = (
    behind_a_sine, squared, two_callers, in_a_scan, around_a_scan, in_a_map, layers, chained, under_a_condition,
    behind_a_while_loop, of_mapped_values,
)  # fmt: skip


def run(place: Callable[..., Any], function: Callable[..., Any], wrap: Callable[..., Any]) -> Callable[..., Any]:
    def program(xs, w):
        value, gradient = jax.value_and_grad(lambda w: place(function, wrap, xs, w))(w)
        return {"value": value, "gradient": gradient, "other": xs.sum(0) * w}

    return program


def make(name: str, place: Callable[..., Any], function: Callable[..., Any], wrap: Callable[..., Any]) -> Case:
    def plain(y):
        return (y * y).sum()

    return Case(
        name=name,
        function=run(place, function, wrap),
        reference=run(place, plain, lambda function: function),
        args=(Arg(shape=(3, N)), Arg(shape=(N,))),
    )


CASES = (
    *(make(name, once, function, jax.checkpoint) for name, function in FORMS.items()),
    *(make(name, once, squares, wrap) for name, wrap in WRAPS.items()),
    make("its_name", once, with_rule(named), partial(jax.checkpoint, policy=POLICIES.save_only_these_names("left"))),
    *(make(place.__name__, place, squares, jax.checkpoint) for place in PLACES),
    *(make(f"{place.__name__}-without", place, squares, lambda function: function) for place in (two_callers, layers)),
)
