"""Loops that copy their state."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from ligerdiag import Arg, Case


def own(*shape, dtype="float32"):
    return Arg(shape=shape, dtype=dtype, donate=True)


def lend(*shape, dtype="float32"):
    return Arg(shape=shape, dtype=dtype)


def leapfrog(previous, current):
    """The wave equation keeps two time levels."""

    def step(carry, _):
        previous, current = carry
        laplacian = jnp.roll(current, 1, 0) + jnp.roll(current, -1, 0) - 2 * current
        return (current, 2 * current - previous + 0.1 * laplacian), None

    return lax.scan(step, (previous, current), None, length=32)[0]


def rotate_buffers(a, b, c):
    return lax.fori_loop(0, 9, lambda _, s: (s[1], s[2], s[0]), (a, b, c))


def swap_and_scale(a, b):
    return lax.fori_loop(0, 10, lambda _, s: (s[1] * 0.5, s[0]), (a, b))


def conjugate_gradient(matrix, b):
    def step(state, _):
        x, r, p, rs = state
        q = matrix @ p
        alpha = rs / jnp.vdot(p, q)
        x, r = x + alpha * p, r - alpha * q
        new = jnp.vdot(r, r)
        return (x, r, r + new / rs * p, new), new

    x = jnp.zeros_like(b)
    return lax.scan(step, (x, b, b, jnp.vdot(b, b)), None, length=12)


def jacobi_until(u, tolerance):
    def go(state):
        return state[1] > tolerance

    def sweep(state):
        u, _ = state
        new = 0.25 * (jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1))
        return new, jnp.abs(new - u).max()

    return lax.while_loop(go, sweep, (u, jnp.float32(1)))


def power_iteration(matrix):
    return lax.fori_loop(0, 6, lambda _, m: (m @ m) / jnp.linalg.norm(m), matrix)


def shift_register(line, samples):
    def step(line, x):
        line = jnp.concatenate([line[1:], x[None]])
        return line, line.sum(0)

    return lax.scan(step, line, samples)


def rolled_history(history, samples):
    def step(i, history):
        return jnp.roll(history, 1, axis=0).at[0].set(samples[i])

    return lax.fori_loop(0, samples.shape[0], step, history)


def game_of_life(board):
    def step(board, _):
        around = sum(jnp.roll(board, (dx, dy), (0, 1)) for dx in (-1, 0, 1) for dy in (-1, 0, 1) if (dx, dy) != (0, 0))
        return ((around == 3) | ((board == 1) & (around == 2))).astype(jnp.int8), None

    return lax.scan(step, board, None, length=20)[0]


def nested_jacobi(u):
    def inner(_, u):
        return 0.5 * (jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0))

    def outer(u, _):
        u = lax.fori_loop(0, 4, inner, u)
        return u.at[0].set(1.0), u[1, :8]

    return lax.scan(outer, u, None, length=5)


def permute_inside(x, order):
    def step(x, _):
        return x[order], None

    return lax.scan(step, x, None, length=7)[0]


def transposed_carry(x):
    return lax.fori_loop(0, 6, lambda _, x: x.T + 1, x)


def reverse_each(x):
    return lax.fori_loop(0, 5, lambda _, x: x[::-1] * 2, x)


def double_kernel(x, o):
    o[...] = 2 * x[...]


def double(x):
    block = pl.BlockSpec((1024,), lambda i: i)
    return pl.pallas_call(
        double_kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(x.shape[0] // 1024,),
        in_specs=[block],
        out_specs=block,
        compiler_params=plt.CompilerParams(),
    )(x)


def pallas_out_of_place(x):
    return lax.fori_loop(0, 8, lambda _, x: double(x), x)


def softmax_steps(x):
    return lax.scan(lambda x, _: (jax.nn.softmax(x * 1.1, axis=-1), x.max()), x, None, length=8)


def attention_layers(x, weights):
    """A residual stream through a stack of layers."""

    def layer(x, w):
        h = jax.nn.gelu(x @ w)
        return x + h @ w.T, None

    return lax.scan(layer, x, weights)[0]


def recurrent(h, w, xs):
    def cell(h, x):
        h = jnp.tanh(h @ w + x)
        return h, h

    return lax.scan(cell, h, xs)


CASES = (
    Case(name="leapfrog", function=leapfrog, args=(own(512, 512), own(512, 512))),
    Case(name="rotate_buffers", function=rotate_buffers, args=(own(256, 256), own(256, 256), own(256, 256))),
    Case(name="swap_and_scale", function=swap_and_scale, args=(own(512, 512), own(512, 512))),
    Case(name="conjugate_gradient", function=conjugate_gradient, args=(lend(512, 512), lend(512, 64))),
    Case(name="jacobi_until", function=jacobi_until, args=(own(512, 512), lend())),
    Case(name="power_iteration", function=power_iteration, args=(own(256, 256),)),
    Case(name="shift_register", function=shift_register, args=(own(64, 1024), lend(16, 1024))),
    Case(
        name="rolled_history",
        function=rolled_history,
        args=(own(128, 1024, dtype="bfloat16"), lend(16, 1024, dtype="bfloat16")),
    ),
    Case(name="game_of_life", function=game_of_life, args=(own(1024, 1024, dtype="int8"),)),
    Case(name="nested_jacobi", function=nested_jacobi, args=(own(512, 512),)),
    Case(name="permute_inside", function=permute_inside, args=(own(1024, 256), lend(1024, dtype="int32"))),
    Case(name="transposed_carry", function=transposed_carry, args=(own(512, 512),)),
    Case(name="reverse_each", function=reverse_each, args=(own(1 << 18),)),
    Case(name="pallas_out_of_place", function=pallas_out_of_place, args=(own(1 << 18),)),
    Case(name="softmax_steps", function=softmax_steps, args=(own(256, 2048),)),
    Case(name="attention_layers", function=attention_layers, args=(own(256, 512), lend(6, 512, 512))),
    Case(name="recurrent", function=recurrent, args=(own(256, 512), lend(512, 512), lend(8, 256, 512))),
)
