"""Defines the parts of a drawn program: kernels, functions that call them, and transformations; and all of them in
plain jnp.

A program that `drawing` writes begins with this text, and so needs no other file.

Each function takes x and w, `f32[n]`, and k, `s32[3]` of zeros and ones, and returns `f32[n]`. The derivatives are at
most about 1, so that a rounding error does not grow with the depth.
"""

import functools

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import PartitionSpec

from ligerdiag import Arg, Case, Draw
from ligerdiag.in_place import call_in_place

POLICIES = jax.checkpoint_policies
HALF_PI = 1.5707963267948966
SIZE = 32


@triton.jit
def square_kernel(x_ptr, square_ptr, spare_ptr, N: tl.constexpr):
    """Overwrites x with the derivative of its square."""
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(square_ptr + at, x * x)
    tl.store(x_ptr + at, 2.0 * x)


@triton.jit
def scale_kernel(g_ptr, by_ptr, spare_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(g_ptr + at, tl.load(g_ptr + at) * tl.load(by_ptr + at))


@triton.jit
def sine_kernel(x_ptr, shift, total_ptr, spare_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(total_ptr, tl.sum(x))
    tl.store(x_ptr + at, tl.sin(x + shift).to(tl.float32))


@triton.jit
def circle_kernel(s_ptr, x_ptr, c_ptr, spare_s_ptr, spare_c_ptr, N: tl.constexpr):
    """Adds to both operands, so that their old contents matter."""
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(s_ptr + at, tl.load(s_ptr + at) + tl.sin(x))
    tl.store(c_ptr + at, tl.load(c_ptr + at) + tl.cos(x))


@triton.jit
def momentum_kernel(p_ptr, m_ptr, g_ptr, rate, norm_ptr, spare_p_ptr, spare_m_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    g = tl.load(g_ptr + at)
    m = 0.5 * tl.load(m_ptr + at) + g
    tl.store(norm_ptr, tl.sum(g * g))
    tl.store(m_ptr + at, m)
    tl.store(p_ptr + at, (tl.load(p_ptr + at) - rate * m).to(tl.float32))


def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


SCALAR = jax.ShapeDtypeStruct((), "float32")
BATCH = {False: lambda function: function, True: jax.custom_batching.sequential_vmap}
"""Makes a function that calls a kernel suitable for `jax.vmap`."""


def make_square(batched, scales):
    """Returns a custom_vjp whose forward pass overwrites its residual; its backward pass may overwrite the cotangent."""

    @BATCH[batched]
    def forward(x):
        return call_in_place(x, written=0, kernel=square_kernel, outputs=[like(x)], grid=1, N=x.shape[0])

    @BATCH[batched]
    def scale(g, by):
        (scaled,) = call_in_place(
            g,
            by_ptr=by,
            written="g_ptr",
            kernel=scale_kernel,
            grid=lambda meta: (by.shape[0] // meta["BLOCK"],),
            BLOCK=8,
        )
        return scaled

    square = jax.custom_vjp(lambda x: forward(x)[0])
    square.defvjp(forward, lambda doubled, g: (scale(g, doubled) if scales else g * doubled,))
    return square


def make_sine(batched, by_ref=False):
    """Returns a sine, differentiable any number of times in forward and reverse mode; by_ref: not differentiable."""

    def call(x, shift):
        options = {"kernel": sine_kernel, "grid": (1,), "N": x.shape[0]}
        if not by_ref:
            return call_in_place(x, shift, written=0, outputs=SCALAR, **options)[1]
        ref = jax.new_ref(x)
        jax_triton.triton_call(ref, shift, out_type=SCALAR, spare_ptr=None, **options)
        return jax.freeze(ref)

    if by_ref:
        return lambda x: call(x, 0.0)
    sine, cosine = (jax.custom_jvp(BATCH[batched](functools.partial(call, shift=shift))) for shift in (0.0, HALF_PI))
    sine.defjvp(lambda xs, ts: (sine(xs[0]), ts[0] * cosine(xs[0])))
    cosine.defjvp(lambda xs, ts: (cosine(xs[0]), -ts[0] * sine(xs[0])))
    return sine


def make_circle(batched, same):
    """Returns sine and cosine, added to zeros. same: the two operands are equal, and XLA takes them for one value."""

    @jax.custom_jvp
    @BATCH[batched]
    def circle(x):
        zeros = jnp.zeros(x.shape)
        others = jnp.zeros(x.shape) if same else 0.0 * x
        return call_in_place(zeros, x, others, written=(0, 2), kernel=circle_kernel, grid=1, N=x.shape[0])

    @circle.defjvp
    def derive(xs, ts):
        sine, cosine = circle(xs[0])
        return (sine, cosine), (ts[0] * cosine, -ts[0] * sine)

    return circle


def make_momentum(batched, written):
    """Returns a linear function that overwrites two operands. written: the order, or the names, of the writes."""
    first = written[0] in (0, "p_ptr")

    @BATCH[batched]
    def call(p, m, g):
        results = call_in_place(
            p, m, g, 0.25, written=written, kernel=momentum_kernel, outputs=[SCALAR], grid=1, N=p.shape[0]
        )
        return results[1:] if first else (results[2], results[1])

    step = jax.custom_vjp(call)
    step.defvjp(
        lambda p, m, g: (call(p, m, g), None), lambda _, g: (g[0], 0.5 * g[1] - 0.125 * g[0], g[1] - 0.25 * g[0])
    )
    return step


class Real:
    """The program with its kernels."""

    @staticmethod
    def square(batched=False, scales=False):
        square = make_square(batched, scales)
        return lambda x, w, k: checkpoint_name(square(jnp.sin(x + w)), "y")

    @staticmethod
    def sine(batched=False, by_ref=False):
        sine = make_sine(batched, by_ref)
        return lambda x, w, k: checkpoint_name(sine(x * 0.5 + w), "y")

    @staticmethod
    def circle(batched=False, same=True):
        circle = make_circle(batched, same)

        def function(x, w, k):
            sine, cosine = circle(x - w)
            return checkpoint_name(sine * 0.5, "y") + cosine * 0.25

        return function

    @staticmethod
    def momentum(batched=False, written=(0, 1)):
        step = make_momentum(batched, written)

        def function(x, w, k):
            p, m = step(0.5 * x, w, jnp.sin(x))
            return checkpoint_name(p, "y") + 0.5 * m

        return function

    @staticmethod
    def ref():
        def function(x, w, k):
            ref = jax.new_ref(x)
            ref[...] = jnp.sin(ref[...]) * 0.5
            ref[...] += w * 0.5
            return jax.freeze(ref)

        return function

    @staticmethod
    def jit(f, **options):
        return jax.jit(f, **options)

    @staticmethod
    def checkpoint(f, policy=None, **options):
        return jax.checkpoint(f, policy=policy, **options)

    @staticmethod
    def scan(f, **options):
        def function(x, w, k):
            def body(c, v):
                y = 0.3 * c + 0.4 * f(c, v, k)
                return y, jnp.sin(y)

            last, every = jax.lax.scan(body, x, jnp.stack([w, 0.5 * w, -w]), **options)
            return last + 0.1 * every.sum(0)

        return function

    @staticmethod
    def fori(f):
        return lambda x, w, k: jax.lax.fori_loop(0, 3, lambda i, c: 0.3 * c + 0.4 * f(c, w, k), x)

    @staticmethod
    def loop(f):
        def function(x, w, k):
            start = jnp.int32(0), x

            def body(state):
                return state[0] + 1, 0.3 * state[1] + 0.4 * f(state[1], w, k)

            return jax.lax.while_loop(lambda state: state[0] < 2 + k[0], body, start)[1]

        return function

    @staticmethod
    def cond(f, g):
        return lambda x, w, k: jax.lax.cond(k[1] > 0, f, g, x, w, k)

    @staticmethod
    def switch(f, g, h):
        return lambda x, w, k: jax.lax.switch(k[1] + k[2], (f, g, h), x, w, k)

    @staticmethod
    def vmap(f, both=True):
        def function(x, w, k):
            ws = jnp.stack([w, 0.5 * w, -w]) if both else w
            return 0.3 * jax.vmap(f, in_axes=(0, 0 if both else None, None))(jnp.stack([x, 0.5 * x, -x]), ws, k).sum(0)

        return function

    @staticmethod
    def shard(f, check_vma=True):
        parted = PartitionSpec("x")

        def function(x, w, k):
            return jax.shard_map(f, in_specs=(parted, parted, PartitionSpec()), out_specs=parted, check_vma=check_vma)(
                x, w, k
            )

        return function

    @staticmethod
    def vjp(f):
        function = jax.custom_vjp(f)

        def forward(x, w, k):
            return jax.vjp(lambda x, w: f(x, w, k), x, w)

        function.defvjp(forward, lambda pull, g: (*pull(g), None))
        return function

    @staticmethod
    def jvp(f):
        function = jax.custom_jvp(f)

        @function.defjvp
        def derive(primals, tangents):
            return jax.jvp(lambda x, w: f(x, w, primals[2]), primals[:2], tangents[:2])

        return function

    @staticmethod
    def linearize(f):
        def function(x, w, k):
            y, derive = jax.linearize(lambda x, w: f(x, w, k), x, w)
            return 0.5 * y + 0.25 * derive(jnp.sin(x), w)

        return function

    @staticmethod
    def grad(f):
        return lambda x, w, k: jax.grad(lambda x: (f(x, w, k) * w).sum())(x)

    @staticmethod
    def product(f):
        return lambda x, w, k: f(jnp.dot(jnp.outer(x, w) / x.shape[0], w, precision="highest"), w, k)

    @staticmethod
    def chain(f, g):
        return lambda x, w, k: 0.5 * g(f(x, w, k), w, k) + 0.1 * x

    @staticmethod
    def both(f, g):
        return lambda x, w, k: 0.5 * f(x, w, k) + 0.5 * g(x, w, k)


class Plain:
    """The same in jnp, without kernels, Refs, custom rules or JAX's loops."""

    square = staticmethod(lambda **_: lambda x, w, k: jnp.sin(x + w) ** 2)
    sine = staticmethod(lambda **_: lambda x, w, k: jnp.sin(x * 0.5 + w))
    circle = staticmethod(lambda **_: lambda x, w, k: jnp.sin(x - w) * 0.5 + jnp.cos(x - w) * 0.25)
    ref = staticmethod(lambda: lambda x, w, k: jnp.sin(x) * 0.5 + w * 0.5)
    jit = checkpoint = shard = staticmethod(lambda f, *_, **__: f)
    vjp = jvp = staticmethod(lambda f: f)
    product, chain, both = Real.product, Real.chain, Real.both

    @staticmethod
    def momentum(**_):
        def function(x, w, k):
            m = 0.5 * w + jnp.sin(x)
            return 0.5 * x - 0.25 * m + 0.5 * m

        return function

    @staticmethod
    def scan(f, reverse=False, **_):
        def function(x, w, k):
            vs, total = [w, 0.5 * w, -w], 0.0
            for v in reversed(vs) if reverse else vs:
                x = 0.3 * x + 0.4 * f(x, v, k)
                total += jnp.sin(x)
            return x + 0.1 * total

        return function

    @staticmethod
    def fori(f):
        def function(x, w, k):
            for _ in range(3):
                x = 0.3 * x + 0.4 * f(x, w, k)
            return x

        return function

    @staticmethod
    def loop(f):
        def function(x, w, k):
            for i in range(3):
                x = jnp.where(i < 2 + k[0], 0.3 * x + 0.4 * f(x, w, k), x)
            return x

        return function

    @staticmethod
    def cond(f, g):
        return lambda x, w, k: jnp.where(k[1] > 0, f(x, w, k), g(x, w, k))

    @staticmethod
    def switch(f, g, h):
        def function(x, w, k):
            first, second, third = (one(x, w, k) for one in (f, g, h))
            return jnp.where(k[1] + k[2] == 0, first, jnp.where(k[1] + k[2] == 1, second, third))

        return function

    @staticmethod
    def vmap(f, both=True):
        def function(x, w, k):
            ws = [w, 0.5 * w, -w] if both else [w, w, w]
            return 0.3 * sum(f(x, w, k) for x, w in zip([x, 0.5 * x, -x], ws, strict=True))

        return function

    @staticmethod
    def linearize(f):
        def function(x, w, k):
            y, derivative = jax.jvp(lambda x, w: f(x, w, k), (x, w), (jnp.sin(x), w))
            return 0.5 * y + 0.25 * derivative

        return function

    @staticmethod
    def grad(f):
        return lambda x, w, k: jax.grad(lambda x: (f(x, w, k) * w).sum())(x)


def derive(f, mode):
    """Returns the outputs: the result of f, and its derivatives according to the mode."""

    def loss(x, w, k):
        y = f(x, w, k)
        return (y * y * (1.5 + jnp.cos(w))).sum(), y  # of one sign: cancellation would lose precision

    def value(x, w, k):
        return {"y": f(x, w, k)}

    def grad(x, w, k):
        (total, y), (by_x, by_w) = jax.value_and_grad(loss, argnums=(0, 1), has_aux=True)(x, w, k)
        return {"total": total, "y": y, "by_x": by_x, "by_w": by_w}

    def vjp(x, w, k):
        y, pull = jax.vjp(lambda x, w: f(x, w, k), x, w)
        by_x, by_w = pull(jnp.sin(y))
        return {"y": y, "by_x": by_x, "by_w": by_w}

    def jvp(x, w, k):
        y, along = jax.jvp(lambda x, w: f(x, w, k), (x, w), (w, jnp.sin(x)))
        return {"y": y, "along": along}

    def linearize(x, w, k):
        y, push = jax.linearize(lambda x, w: f(x, w, k), x, w)
        return {"y": y, "along": push(w, jnp.sin(x))}

    def hvp(x, w, k):
        by_x, along = jax.jvp(jax.grad(lambda x: loss(x, w, k)[0]), (x,), (w,))
        return {"by_x": by_x, "along": along}

    return {"value": value, "grad": grad, "vjp": vjp, "jvp": jvp, "linearize": linearize, "hvp": hvp}[mode]


def make_case(seed, build, mode, sharded=False, donated=False):
    """Returns the case of one program. build: the nesting, from the functions of `Real` or `Plain`."""
    part = ("x",) if sharded else ()
    x = Arg(shape=(SIZE,), draw=Draw(seed=seed), partition=part, donate=donated)
    w = Arg(shape=(SIZE,), draw=Draw(seed=seed + 1), partition=part)
    k = Arg(shape=(3,), dtype="int32", draw=Draw(kind="randint", seed=seed))
    return Case(
        name=f"nesting_{seed}",
        function=derive(build(Real), mode),
        args=(x, w, k),
        mesh={"x": 2} if sharded else {},
        reference=derive(build(Plain), mode),
        expected="fresh",
    )
