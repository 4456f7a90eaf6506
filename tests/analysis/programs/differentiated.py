"""Programs that differentiate through a kernel that overwrites its operand, in the forms in which people write them.

`cubes_kernel` overwrites each row x with 3 x², its gradient, and returns the row's loss, the sum of x³. The gradient
needs what the kernel left there, except for residuals that JAX's own rules saved before. The reference is the same
program with x³ in plain jnp.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl
from jax.sharding import PartitionSpec as P

from ligerdiag import Arg, Case, Draw

ROWS, WIDTH, COLUMNS = 8, 16, 32


@triton.jit
def cubes_kernel(x_ptr, loss_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    offsets = row * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + offsets).to(tl.float32)
    tl.store(loss_ptr + row, tl.sum(x * x * x))
    tl.store(x_ptr + offsets, (3.0 * x * x).to(x_ptr.dtype.element_ty))


@triton.jit
def halve_kernel(x_ptr, sum_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    offsets = row * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + offsets)
    tl.store(sum_ptr + row, tl.sum(x))
    tl.store(x_ptr + offsets, 0.5 * x)


def launch(kernel: Any, x: Any) -> Any:
    """Returns the sums of the rows; a hidden write overwrites x."""
    rows, columns = x.shape
    out = jax.ShapeDtypeStruct((rows,), "float32")
    return jax_triton.triton_call(x, kernel=kernel, out_shape=out, grid=(rows,), COLUMNS=columns)


def make_loss(keep: Callable[[Any], Any], give: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    """Returns a loss that keeps `keep(x)` after the kernel and whose backward rule returns `give(kept, g)`."""

    @jax.custom_vjp
    def loss(x: Any) -> Any:
        return launch(cubes_kernel, x).sum()

    def forward(x: Any) -> Any:
        value = launch(cubes_kernel, x).sum()
        return value, keep(x)

    def backward(kept: Any, g: Any) -> Any:
        return (give(kept, g),)

    loss.defvjp(forward, backward)
    return loss


def same(x: Any) -> Any:
    return x


def plain(x: Any) -> Any:
    """Returns the loss in a form that JAX differentiates itself."""
    return (x.astype("float32") ** 3).sum()


direct = make_loss(same, lambda kept, g: kept)
scaled = make_loss(same, lambda kept, g: g * kept)
negated = make_loss(lambda x: -x, lambda kept, g: -kept)
pair = make_loss(lambda x: (x, x.sum()), lambda kept, g: kept[0] + 0.01 * kept[1])
halved = make_loss(lambda x: x[: ROWS // 2], lambda kept, g: jnp.concatenate([kept, kept]))
cast = make_loss(same, lambda kept, g: kept.astype(jnp.bfloat16).astype(kept.dtype))


def linear(loss: Any, x: Any, w: Any) -> Any:
    value, (dx, dw) = jax.value_and_grad(lambda x, w: loss(x @ w), argnums=(0, 1))(x, w)
    return {"loss": value, "x": dx, "w": dw}


def activated(activation: Any) -> Any:
    def program(loss: Any, x: Any, w: Any) -> Any:
        return linear(lambda z: loss(activation(z)), x, w)

    return program


def biased(loss: Any, x: Any, w: Any) -> Any:
    b = w.sum(0)
    value, (dx, dw, db) = jax.value_and_grad(lambda x, w, b: loss(x @ w + b), argnums=(0, 1, 2))(x, w, b)
    return {"loss": value, "x": dx, "w": dw, "b": db}


def reshaped(loss: Any, x: Any, w: Any) -> Any:
    def objective(x: Any, w: Any) -> Any:
        z = (x.reshape(2, -1, WIDTH) @ w).reshape(-1, COLUMNS)
        return loss(z)

    value, (dx, dw) = jax.value_and_grad(objective, argnums=(0, 1))(x, w)
    return {"loss": value, "x": dx, "w": dw}


def two_layers(loss: Any, x: Any, w: Any) -> Any:
    def objective(w: Any) -> Any:
        hidden = jax.nn.gelu(x @ w)
        return loss(hidden @ (w.T @ w))

    value, dw = jax.value_and_grad(objective)(w)
    return {"loss": value, "w": dw}


def accumulated(loss: Any, x: Any, w: Any) -> Any:
    def step(total: Any, part: Any) -> Any:
        value, dw = jax.value_and_grad(lambda w: loss(part @ w))(w)
        return total + dw, value

    dw, values = jax.lax.scan(step, jnp.zeros_like(w), x.reshape(4, -1, WIDTH))
    return {"loss": values.mean(), "w": dw}


def accumulated_by_hand(loss: Any, x: Any, w: Any) -> Any:
    dw, value = jnp.zeros_like(w), 0.0
    for part in jnp.split(x, 2):
        one, d = jax.value_and_grad(lambda w, part=part: loss(part @ w))(w)
        dw, value = dw + d, value + one
    return {"loss": value, "w": dw}


def descent(loss: Any, x: Any, w: Any) -> Any:
    value, dw = jax.value_and_grad(lambda w: loss(x @ w))(w)
    return {"loss": value, "w": w - 0.1 * dw, "norm": jnp.sqrt((dw * dw).sum())}


def narrow(loss: Any, x: Any, w: Any) -> Any:
    x, w = x.astype(jnp.bfloat16), w.astype(jnp.bfloat16)
    value, (dx, dw) = jax.value_and_grad(lambda x, w: loss(x @ w), argnums=(0, 1))(x, w)
    return {"loss": value, "x": dx, "w": dw}


def checkpointed(policy: Any) -> Any:
    def program(loss: Any, x: Any, w: Any) -> Any:
        layer = jax.checkpoint(lambda x, w: loss(jnp.tanh(x @ w)), policy=policy)
        value, (dx, dw) = jax.value_and_grad(layer, argnums=(0, 1))(x, w)
        return {"loss": value, "x": dx, "w": dw}

    return program


def in_scanned_layers(loss: Any, x: Any, w: Any) -> Any:
    """The kernel runs in the forward pass of each layer; its result is added to the loss."""

    def objective(w: Any) -> Any:
        def layer(h: Any, part: Any) -> Any:
            z = h @ part
            return jnp.tanh(z @ part.T), loss(z)

        h, losses = jax.lax.scan(layer, x, jnp.stack([w, 2 * w, 3 * w]))
        return losses.sum() + (h * h).sum()

    value, dw = jax.value_and_grad(objective)(w)
    return {"loss": value, "w": dw}


def looked_at_after(loss: Any, x: Any, w: Any) -> Any:
    """The author reads the overwritten logits as the kernel left them."""

    def objective(w: Any) -> Any:
        z = x @ w
        value = loss(z)
        return value, z.max(-1)

    (value, top), dw = jax.value_and_grad(objective, has_aux=True)(w)
    return {"loss": value, "top": top, "w": dw}


def looked_at_before(loss: Any, x: Any, w: Any) -> Any:
    def objective(w: Any) -> Any:
        z = x @ w
        top = z.max(-1)
        return loss(z), top

    (value, top), dw = jax.value_and_grad(objective, has_aux=True)(w)
    return {"loss": value, "top": top, "w": dw}


def pulled_back_twice(loss: Any, x: Any, w: Any) -> Any:
    value, pullback = jax.vjp(lambda w: loss(x @ w), w)
    (one,) = pullback(jnp.float32(1.0))
    (two,) = pullback(jnp.float32(2.0))
    return {"loss": value, "one": one, "two": two}


def jitted_inside(loss: Any, x: Any, w: Any) -> Any:
    inner = jax.jit(lambda x, w: loss(jnp.exp(0.1 * (x @ w))))
    value, (dx, dw) = jax.value_and_grad(inner, argnums=(0, 1))(x, w)
    return {"loss": value, "x": dx, "w": dw}


@jax.custom_jvp
def cubed(x: Any) -> Any:
    return launch(cubes_kernel, x).sum()


@cubed.defjvp
def _cubed_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    value = launch(cubes_kernel, x).sum()
    return value, (t * x).sum()


@jax.custom_gradient
def cubed_by_gradient(x: Any) -> Any:
    value = launch(cubes_kernel, x).sum()
    return value, lambda g: g * x


@jax.custom_vjp
def halved_backward(x: Any) -> Any:
    return 0.5 * x


def _halved_forward(x: Any) -> Any:
    return 0.5 * x, None


def _halved_backward(_: Any, g: Any) -> Any:
    total = launch(halve_kernel, g)
    return (g + 0 * total[:, None],)


halved_backward.defvjp(_halved_forward, _halved_backward)


def squared(x: Any) -> Any:
    """The function that `halved_residual` differentiates."""
    return 0.25 * x * x + 0.5 * x


@jax.custom_vjp
def halved_residual(x: Any) -> Any:
    return squared(x)


def _kept_forward(x: Any) -> Any:
    return squared(x), x + 1.0


def _kept_backward(kept: Any, g: Any) -> Any:
    total = launch(halve_kernel, kept)
    return (g * kept + 0 * total[:, None],)


halved_residual.defvjp(_kept_forward, _kept_backward)


def in_backward(rule: Any, x: Any, w: Any) -> Any:
    """The kernel runs in the backward pass; a residual branch has the same cotangent."""

    def objective(x: Any, w: Any) -> Any:
        z = x @ w
        return jnp.sin(z + rule(z)).sum()

    value, (dx, dw) = jax.value_and_grad(objective, argnums=(0, 1))(x, w)
    return {"loss": value, "x": dx, "w": dw}


def branched(loss: Any, x: Any, w: Any) -> Any:
    def objective(w: Any) -> Any:
        z = x @ w
        return jax.lax.cond(x[0, 0] > -100.0, loss, lambda z: z.sum(), z)

    value, dw = jax.value_and_grad(objective)(w)
    return {"loss": value, "w": dw}


def mapped(loss: Any, x: Any, w: Any) -> Any:
    def objective(w: Any) -> Any:
        return jax.lax.map(lambda part: loss(jnp.tanh(part @ w)), x.reshape(2, -1, WIDTH)).sum()

    value, dw = jax.value_and_grad(objective)(w)
    return {"loss": value, "w": dw}


def twice(loss: Any, x: Any, w: Any) -> Any:
    def objective(w: Any) -> Any:
        return loss(x @ w) + loss(jnp.exp(0.1 * (x @ w)))

    value, dw = jax.value_and_grad(objective)(w)
    return {"loss": value, "w": dw}


def multiplied(loss: Any, x: Any, w: Any) -> Any:
    """The product saves both factors, of which the kernel then overwrites one."""

    def objective(x: Any, w: Any) -> Any:
        z = x @ w
        other = (z * z[::-1]).sum()
        return loss(z) + other

    value, (dx, dw) = jax.value_and_grad(objective, argnums=(0, 1))(x, w)
    return {"loss": value, "x": dx, "w": dw}


def sharded(loss: Any, x: Any, w: Any) -> Any:
    """A data-parallel step under shard_map."""

    def local(x: Any, w: Any) -> Any:
        value, dw = jax.value_and_grad(lambda w: loss(x @ w))(w)
        return jax.lax.psum(value, "x"), jax.lax.psum(dw, "x")

    shard = functools.partial(jax.shard_map, in_specs=(P("x"), P()), out_specs=(P(), P()), check_vma=False)
    value, dw = shard(local)(x, w)
    return {"loss": value, "w": dw}


PROGRAMS: dict[str, tuple[Any, Any, Any]] = {
    "direct": (linear, direct, plain),
    "scaled": (linear, scaled, plain),
    "negated": (linear, negated, plain),
    "pair": (linear, pair, None),
    "halved": (linear, halved, None),
    "cast": (linear, cast, None),
    "gradient_of": (linear, cubed_by_gradient, plain),
    "custom_jvp": (linear, cubed, plain),
    "exp": (activated(lambda z: jnp.exp(0.1 * z)), direct, plain),
    "exp_scaled": (activated(lambda z: jnp.exp(0.1 * z)), scaled, plain),
    "tanh": (activated(jnp.tanh), direct, plain),
    "relu": (activated(jax.nn.relu), direct, plain),
    "gelu": (activated(jax.nn.gelu), direct, plain),
    "softmax": (activated(jax.nn.softmax), direct, plain),
    "rsqrt": (activated(lambda z: jax.lax.rsqrt(z * z + 1)), direct, plain),
    "exp_custom_jvp": (activated(lambda z: jnp.exp(0.1 * z)), cubed, plain),
    "biased": (biased, direct, plain),
    "biased_scaled": (biased, scaled, plain),
    "reshaped": (reshaped, direct, plain),
    "two_layers": (two_layers, direct, plain),
    "accumulated": (accumulated, direct, plain),
    "accumulated_by_hand": (accumulated_by_hand, scaled, plain),
    "descent": (descent, direct, plain),
    "narrow": (narrow, direct, plain),
    "checkpointed": (checkpointed(None), direct, plain),
    "checkpointed_dots": (checkpointed(jax.checkpoint_policies.dots_saveable), direct, plain),
    "checkpointed_all": (checkpointed(jax.checkpoint_policies.everything_saveable), scaled, plain),
    "in_scanned_layers": (in_scanned_layers, direct, None),
    "looked_at_after": (looked_at_after, scaled, None),
    "looked_at_before": (looked_at_before, direct, plain),
    "pulled_back_twice": (pulled_back_twice, scaled, plain),
    "jitted_inside": (jitted_inside, direct, plain),
    "in_backward": (in_backward, halved_backward, lambda x: 0.5 * x),
    "in_backward_kept": (in_backward, halved_residual, squared),
    "branched": (branched, direct, plain),
    "mapped": (mapped, scaled, plain),
    "twice": (twice, direct, plain),
    "multiplied": (multiplied, direct, plain),
}
"""By name: the program, the loss by the kernel, and the loss in plain jnp whose gradient the program computes."""

LOSSES = {"direct": direct, "scaled": scaled, "negated": negated, "custom_jvp": cubed}
ARGS = (Arg(shape=(ROWS, WIDTH), draw=Draw(seed=0)), Arg(shape=(WIDTH, COLUMNS), draw=Draw(seed=1, scale=0.3)))


def make_case(name: str, function: Any, loss: Any, reference: Any, devices: int = 1) -> Case:
    return Case(
        name=name,
        function=functools.partial(function, loss),
        args=ARGS,
        mesh={"x": devices} if devices > 1 else {},
        reference=None if reference is None else functools.partial(function, reference),
    )


CASES = tuple(make_case(name, *parts) for name, parts in PROGRAMS.items()) + tuple(
    make_case(f"sharded_{name}", sharded, loss, None, 2) for name, loss in LOSSES.items()
)
