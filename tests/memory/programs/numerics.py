"""Linear algebra, transforms, sorts and scans over arrays that are donated or kept."""

import jax.numpy as jnp
from jax import lax

from ligerdiag import Arg, Case


def own(*shape, dtype="float32"):
    return Arg(shape=shape, dtype=dtype, donate=True)


def lend(*shape, dtype="float32"):
    return Arg(shape=shape, dtype=dtype)


def project_transposed(x, w):
    return (x @ w).T


def spectrum(x):
    return jnp.fft.fft(x)


def low_pass(signal):
    f = jnp.fft.rfft(signal)
    return jnp.fft.irfft(f.at[..., 100:].set(0), n=signal.shape[-1])


def largest(x):
    return lax.top_k(x, 8)


def sort_pair(keys, values):
    return lax.sort((keys, values), num_keys=1)


def flip_bits(mask):
    return ~mask


def running_max(x):
    return lax.cummax(x, axis=0)


def prefix_products(x):
    return lax.associative_scan(jnp.multiply, x, axis=0)


def running_sum_donated(x):
    return jnp.cumsum(x, axis=0)


def max_pool_same(image):
    return lax.reduce_window(image, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 1, 1, 1), "SAME")


def convolve(image, kernel):
    return lax.conv_general_dilated(image, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def gather_rows(x, order):
    return x[order]


def window_shift(window, sample):
    """A sliding window by concatenation."""
    return jnp.concatenate([window[1:], sample[None]])


def symmetrise(a):
    return 0.5 * (a + a.T)


def outer_update(a, u, v):
    return a + jnp.outer(u, v)


def scale_columns(a):
    return a / jnp.linalg.norm(a, axis=0)


def batch_norm(x):
    return (x - x.mean(0)) / jnp.sqrt(x.var(0) + 1e-5)


def rms_norm_rows(x, g):
    return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * g


def triangular_mask(scores):
    return jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -1e9)


def diagonal_shift(a):
    return a.at[jnp.diag_indices(a.shape[0])].add(1e-3)


def householder_columns(a):
    """Works on one column after the other."""

    def step(k, a):
        v = jnp.where(jnp.arange(a.shape[0]) >= k, a[:, k], 0.0)
        v = v / (jnp.linalg.norm(v) + 1e-6)
        return a - 2 * jnp.outer(v, v @ a)

    return lax.fori_loop(0, 8, step, a)


def gauss_seidel(u):
    """Red and black points in turn."""
    red = (jnp.arange(u.shape[0])[:, None] + jnp.arange(u.shape[1])) % 2 == 0

    def sweep(u, _):
        around = 0.25 * (jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1))
        u = jnp.where(red, around, u)
        around = 0.25 * (jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1))
        return jnp.where(red, u, around), None

    return lax.scan(sweep, u, None, length=6)[0]


def fixed_point(x, a):
    """Compares each iterate with the one before."""

    def unfinished(state):
        x, old, n = state
        return (jnp.abs(x - old).max() > 1e-4) & (n < 50)

    def step(state):
        x, _, n = state
        return jnp.cos(x @ a), x, n + 1

    return lax.while_loop(unfinished, step, (x, x + 1, 0))[0]


def runge_kutta(y, length):
    def f(y):
        return jnp.sin(y) - 0.1 * y

    def step(_, y):
        k1 = f(y)
        k2 = f(y + 0.05 * k1)
        k3 = f(y + 0.05 * k2)
        k4 = f(y + 0.1 * k3)
        return y + 0.1 / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    return lax.fori_loop(0, length, step, y)


def adams_bashforth(y, before):
    def step(state, _):
        y, before = state
        now = jnp.sin(y)
        return (y + 0.1 * (1.5 * now - 0.5 * before), now), None

    return lax.scan(step, (y, before), None, length=12)[0]


def three_level(a, b, c):
    """A history of three levels; the newest is computed from all."""

    def step(_, s):
        a, b, c = s
        return b, c, 0.5 * c + 0.3 * b + 0.2 * jnp.roll(a, 1)

    return lax.fori_loop(0, 9, step, (a, b, c))


CASES = (
    Case(name="project_transposed", function=project_transposed, args=(own(512, 512), lend(512, 512))),
    Case(name="spectrum", function=spectrum, args=(own(64, 1024, dtype="complex64"),)),
    Case(name="low_pass", function=low_pass, args=(own(64, 1024),)),
    Case(name="largest", function=largest, args=(own(256, 1024),)),
    Case(name="sort_pair", function=sort_pair, args=(own(256, 1024, dtype="int32"), own(256, 1024))),
    Case(name="flip_bits", function=flip_bits, args=(own(1024, 1024, dtype="bool"),)),
    Case(name="running_max", function=running_max, args=(own(1024, 512),)),
    Case(name="prefix_products", function=prefix_products, args=(own(512, 256),)),
    Case(name="running_sum_donated", function=running_sum_donated, args=(own(1024, 512),)),
    Case(name="max_pool_same", function=max_pool_same, args=(own(4, 64, 64, 32),)),
    Case(name="convolve", function=convolve, args=(own(4, 32, 32, 64), lend(3, 3, 64, 64))),
    Case(name="gather_rows", function=gather_rows, args=(own(1024, 256, dtype="bfloat16"), lend(1024, dtype="int32"))),
    Case(name="window_shift", function=window_shift, args=(own(512, 512), lend(512))),
    Case(name="symmetrise", function=symmetrise, args=(own(512, 512),)),
    Case(name="outer_update", function=outer_update, args=(own(1024, 512), lend(1024), lend(512))),
    Case(name="scale_columns", function=scale_columns, args=(own(1024, 512),)),
    Case(name="batch_norm", function=batch_norm, args=(own(1024, 512),)),
    Case(
        name="rms_norm_rows",
        function=rms_norm_rows,
        args=(own(512, 2048, dtype="bfloat16"), lend(2048, dtype="bfloat16")),
    ),
    Case(name="triangular_mask", function=triangular_mask, args=(own(4, 256, 256),)),
    Case(name="diagonal_shift", function=diagonal_shift, args=(own(512, 512),)),
    Case(name="householder_columns", function=householder_columns, args=(own(512, 256),)),
    Case(name="gauss_seidel", function=gauss_seidel, args=(own(512, 512),)),
    Case(name="fixed_point", function=fixed_point, args=(own(512, 512), lend(512, 512))),
    Case(name="runge_kutta", function=runge_kutta, args=(own(512, 512), lend(dtype="int32"))),
    Case(name="adams_bashforth", function=adams_bashforth, args=(own(512, 512), own(512, 512))),
    Case(name="three_level", function=three_level, args=(own(1 << 17), own(1 << 17), own(1 << 17))),
)
