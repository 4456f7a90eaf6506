"""Kernel calls whose outputs nobody uses, and calls that only seem to be missing."""

import jax
import jax_triton
import triton
import triton.language as tl

from ligerdiag.model.case import Arg, Case

X = Arg(shape=(8, 16))
DONATED = Arg(shape=(8, 16), donate=True)
CHUNKS = Arg(shape=(4, 8, 16))


@triton.jit
def sum_kernel(x_ptr, sum_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    tl.store(sum_ptr + row, tl.sum(tl.load(x_ptr + row * COLUMNS + tl.arange(0, COLUMNS))))


@triton.jit
def hidden_kernel(x_ptr, sum_ptr, COLUMNS: tl.constexpr):
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at)
    tl.store(sum_ptr + tl.program_id(0), tl.sum(x * x))
    tl.store(x_ptr + at, 2 * x)


@triton.jit
def declared_kernel(x_ptr, sum_ptr, double_ptr, COLUMNS: tl.constexpr):
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at)
    tl.store(sum_ptr + tl.program_id(0), tl.sum(x * x))
    tl.store(double_ptr + at, 2 * x)


def call(kernel, x):
    sums = jax.ShapeDtypeStruct(x.shape[:1], x.dtype)
    return jax_triton.triton_call(x, kernel=kernel, out_shape=sums, grid=x.shape[:1], COLUMNS=x.shape[1])


def call_declared(x):
    outputs = jax.ShapeDtypeStruct(x.shape[:1], x.dtype), x
    return jax_triton.triton_call(
        x, kernel=declared_kernel, out_shape=outputs, input_output_aliases={0: 1}, grid=x.shape[:1], COLUMNS=x.shape[1]
    )


@jax.custom_vjp
def squares(x):
    return call(hidden_kernel, x).sum()


def squares_forward(x):
    return call(hidden_kernel, x).sum(), x


squares.defvjp(squares_forward, lambda double, g: (g * double,))


@jax.custom_jvp
def total(x):
    return call(hidden_kernel, x).sum()


@total.defjvp
def total_jvp(primals, tangents):
    (x,), (dx,) = primals, tangents
    return call(hidden_kernel, x).sum(), (2 * x * dx).sum()


def differentiate(function):
    def step(chunks, w):
        return jax.value_and_grad(lambda w: jax.lax.map(lambda x: function(x * w), chunks).sum())(w)

    return step


def use_nothing_of(function):
    def step(x):
        h = x + 1
        function(h)
        return h

    return step


def use_its_shape(x):
    shape = jax.eval_shape(lambda h: call(hidden_kernel, h), x)
    return call(hidden_kernel, x + 1).reshape(shape.shape)


@triton.jit
def add_into_kernel(x_ptr, y_ptr, done_ptr, COLUMNS: tl.constexpr):
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    tl.store(y_ptr + at, tl.load(y_ptr + at) + tl.load(x_ptr + at))
    tl.store(done_ptr + tl.program_id(0), 1.0)


def add_unread(old, x, y):
    done = jax.ShapeDtypeStruct(x.shape[:1], x.dtype)
    jax_triton.triton_call(x, y, kernel=add_into_kernel, out_shape=done, grid=x.shape[:1], COLUMNS=x.shape[1])
    return y * 2


CASES = (
    Case(name="rule_of_a_vjp", function=differentiate(squares), args=(CHUNKS, X)),
    Case(name="rule_of_a_jvp", function=differentiate(total), args=(CHUNKS, X)),
    Case(name="remat", function=differentiate(jax.checkpoint(squares)), args=(CHUNKS, X)),
    Case(name="shape", function=use_its_shape, args=(X,)),
    Case(name="reads", function=use_nothing_of(lambda h: call(sum_kernel, h)), args=(X,)),
    Case(name="declares", function=use_nothing_of(call_declared), args=(X,)),
    Case(name="overwrites", function=use_nothing_of(lambda h: call(hidden_kernel, h)), args=(X,)),
    Case(name="within_a_vjp", function=use_nothing_of(squares), args=(X,)),
    Case(name="reads_an_argument", function=add_unread, args=(DONATED, DONATED, DONATED)),
)
