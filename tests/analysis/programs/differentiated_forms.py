"""Train steps that differentiate through a fused loss in the forms of real code bases, each hidden and declared.

`cubes_kernel` overwrites each row x with 3 x², its gradient, and returns the row's sum of x³. Hidden, the call returns
its operand, which the kernel has overwritten or not; declared, it returns the outputs of `call_in_place`. The reference
is the step in plain jnp.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
import triton
import triton.language as tl
from jax.sharding import PartitionSpec as P
from jax_triton import triton_call

from ligerdiag import Arg, Case, Draw
from ligerdiag.in_place import call_in_place

ROWS, WIDTH, COLUMNS = 8, 16, 32

type Fused = Callable[[Any], tuple[Any, Any]]
"""Maps the logits to (loss of each row, the memory of the logits afterwards)."""
type Loss = Callable[..., Any]


@triton.jit
def cubes_kernel(x_ptr, loss_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    offsets = row * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + offsets)
    tl.store(loss_ptr + row, tl.sum(x * x * x))
    tl.store(x_ptr + offsets, 3.0 * x * x)


@triton.jit
def declared_cubes_kernel(x_ptr, loss_ptr, declared_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    offsets = row * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + offsets)
    tl.store(loss_ptr + row, tl.sum(x * x * x))
    tl.store(x_ptr + offsets, 3.0 * x * x)


def hidden(z: Any) -> tuple[Any, Any]:
    rows, columns = z.shape
    out = jax.ShapeDtypeStruct((rows,), "float32")
    return triton_call(z, kernel=cubes_kernel, out_shape=out, grid=(rows,), COLUMNS=columns), z


def declared(z: Any) -> tuple[Any, Any]:
    rows, columns = z.shape
    out = jax.ShapeDtypeStruct((rows,), "float32")
    losses, dz = call_in_place(z, written=0, kernel=declared_cubes_kernel, outputs=[out], grid=(rows,), COLUMNS=columns)
    return losses, dz


def plain(z: Any) -> Any:
    return (z**3).sum()


def make_loss(fused: Fused | None, **how: Any) -> Loss:
    """Returns the loss in its usual form; in plain jnp if there is no kernel."""
    if fused is None:
        return plain
    loss = jax.custom_vjp(lambda z: fused(z)[0].sum())
    loss.defvjp(keep_gradient(fused), lambda dz, g: (g * dz,), **how)
    return loss


def keep_gradient(fused: Fused, sign: float = 1.0) -> Callable[[Any], tuple[Any, Any]]:
    """Returns the forward rule: the loss, and what the kernel left in the logits."""

    def forward(z: Any) -> tuple[Any, Any]:
        losses, dz = fused(z)
        return sign * losses.sum(), dz

    return forward


def descend(loss: Loss, x: Any, w: Any) -> Any:
    value, dw = jax.value_and_grad(lambda w: loss(x @ w))(w)
    return {"loss": value, "w": w - 0.1 * dw}


def with_optimized_remat(fused: Fused | None, x: Any, w: Any) -> Any:
    return descend(make_loss(fused, optimize_remat=True) if fused else plain, x, w)


def two_results(fused: Fused | None, x: Any, w: Any) -> Any:
    """The loss also returns the sums of all rows, of which the step uses only the largest."""

    def rows(z: Any) -> Any:
        return (z**3).sum(1) if fused is None else fused(z)[0]

    def both(z: Any) -> Any:
        return rows(z).sum(), rows(z)

    if fused is not None:
        loss = jax.custom_vjp(both)

        def forward(z: Any) -> Any:
            losses, dz = fused(z)
            return (losses.sum(), losses), {"gradient": dz}

        loss.defvjp(forward, lambda kept, g: (g[0] * kept["gradient"] + g[1][:, None] * kept["gradient"],))
        both = loss
    (value, losses), dw = jax.value_and_grad(lambda w: both(x @ w), has_aux=True)(w)
    return {"loss": value, "largest": losses.max(), "w": dw}


def fused_linear(fused: Fused | None, x: Any, w: Any) -> Any:
    """The forward rule computes the gradients of the product in chunks, as Liger's fused linear cross entropy does."""

    def linear_loss(x: Any, w: Any) -> Any:
        return plain(x @ w)

    if fused is not None:
        loss = jax.custom_vjp(lambda x, w: sum(fused(part @ w)[0].sum() for part in jnp.split(x, 2)))

        def forward(x: Any, w: Any) -> Any:
            value, dx, dw = jnp.float32(0), [], jnp.zeros_like(w)
            for part in jnp.split(x, 2):
                losses, dz = fused(part @ w)
                value, dw = value + losses.sum(), dw + part.T @ dz
                dx.append(dz @ w.T)
            return value, (jnp.concatenate(dx), dw)

        loss.defvjp(forward, lambda kept, g: (g * kept[0], g * kept[1]))
        linear_loss = loss
    value, (dx, dw) = jax.value_and_grad(linear_loss, argnums=(0, 1))(x, w)
    return {"loss": value, "x": dx, "w": dw}


def padded(fused: Fused | None, x: Any, w: Any) -> Any:
    """The kernel needs a power of two: the step pads the logits and slices the residual."""
    w = w[:, : COLUMNS - 5]
    if fused is None:
        return descend(plain, x, w)

    def forward(z: Any) -> Any:
        losses, dz = fused(jnp.pad(z, ((0, 0), (0, COLUMNS - z.shape[1]))))
        return losses.sum(), dz[:, : z.shape[1]]

    loss = jax.custom_vjp(lambda z: forward(z)[0])
    loss.defvjp(forward, lambda dz, g: (g * dz,))
    return descend(loss, x, w)


def widened(fused: Fused | None, x: Any, w: Any) -> Any:
    """The step trains in bfloat16 with a loss in float32: the kernel overwrites the wide copy."""
    x, w = x.astype(jnp.bfloat16), w.astype(jnp.bfloat16)
    loss = make_loss(fused)
    value, dw = jax.value_and_grad(lambda w: loss((x @ w).astype(jnp.float32)))(w)
    return {"loss": value, "w": dw}


def negative(fused: Fused | None, x: Any, w: Any) -> Any:
    """The step ascends: minus the loss, whose backward rule returns minus the residual and ignores g."""
    if fused is None:
        return descend(lambda z: -plain(z), x, w)
    loss = jax.custom_vjp(lambda z: -fused(z)[0].sum())
    loss.defvjp(keep_gradient(fused, -1.0), lambda dz, g: (-dz,))
    return descend(loss, x, w)


@functools.partial(jax.tree_util.register_dataclass, data_fields=["w", "b"], meta_fields=["activate"])
@dataclasses.dataclass(frozen=True)
class Linear:
    """A layer as in a module system."""

    w: Any
    b: Any
    activate: bool

    def __call__(self, x: Any) -> Any:
        y = x @ self.w + self.b
        return jax.nn.silu(y) if self.activate else y


def modules(fused: Fused | None, x: Any, w: Any) -> Any:
    """Two layers, and Adam after clipping by the norm, with a learning rate given by keyword."""
    loss = make_loss(fused)
    layers = [Linear(0.3 * w @ w.T, jnp.zeros(WIDTH), True), Linear(w, jnp.zeros(COLUMNS), False)]
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-2))

    def objective(layers: Any, *, scale: Any) -> Any:
        h = x
        for layer in layers:
            h = layer(h)
        return scale * loss(h)

    value, gradients = jax.value_and_grad(objective)(layers, scale=0.5)
    updates, _ = optimizer.update(gradients, optimizer.init(layers), layers)
    norm = optax.tree.norm(gradients)
    return {"loss": value, "norm": norm, "updates": jax.tree.map(lambda u: u * norm, updates)}


def training_loop(fused: Fused | None, x: Any, w: Any) -> Any:
    """Three steps in one program."""
    loss = make_loss(fused)

    def step(_: Any, carry: Any) -> Any:
        w, total = carry
        value, dw = jax.value_and_grad(lambda w: loss(x @ w))(w)
        return w - 0.001 * dw, total + value

    w, total = jax.lax.fori_loop(0, 3, step, (w, jnp.float32(0)))
    return {"total": total, "w": w, "last": loss(x @ w)}


def around_shards(fused: Fused | None, x: Any, w: Any) -> Any:
    """The gradient is taken outside of shard_map, which JAX transposes."""
    loss = make_loss(fused)
    if fused is None:
        return descend(plain, x, w)

    @functools.partial(jax.shard_map, in_specs=(P("x"), P()), out_specs=P(), check_vma=False)
    def total(x: Any, w: Any) -> Any:
        return jax.lax.psum(loss(x @ w), "x")

    value, dw = jax.value_and_grad(lambda w: total(x, w))(w)
    return {"loss": value, "w": w - 0.1 * dw}


def over_a_batch(fused: Fused | None, x: Any, w: Any) -> Any:
    """A vmap of the whole loss over groups; the kernel's batching rule runs them one after the other."""
    loss = plain
    if fused is not None:
        launch = jax.custom_batching.sequential_vmap(fused)
        loss = make_loss(launch)
    value, dw = jax.value_and_grad(lambda w: jax.vmap(lambda part: loss(part @ w))(x.reshape(2, -1, WIDTH)).sum())(w)
    return {"loss": value, "w": w - 0.1 * dw}


def rematerialized_layers(fused: Fused | None, x: Any, w: Any) -> Any:
    """A scan over checkpointed layers, followed by the loss."""
    loss = make_loss(fused)
    stack = jnp.stack([w, 0.5 * w])

    def objective(stack: Any) -> Any:
        layer = jax.checkpoint(lambda h, part: (jnp.tanh(h @ part) @ part.T, None))
        h, _ = jax.lax.scan(layer, x, stack)
        return loss(h @ stack[0])

    value, gradient = jax.value_and_grad(objective)(stack)
    return {"loss": value, "stack": gradient}


FORMS = {
    form.__name__: form
    for form in (
        with_optimized_remat,
        two_results,
        fused_linear,
        padded,
        widened,
        negative,
        modules,
        training_loop,
        around_shards,
        over_a_batch,
        rematerialized_layers,
    )
}
ARGS = (Arg(shape=(ROWS, WIDTH), draw=Draw(seed=0)), Arg(shape=(WIDTH, COLUMNS), draw=Draw(seed=1, scale=0.3)))


def _make(name: str, mode: str, fused: Fused) -> Case:
    return Case(
        name=f"{name}-{mode}",
        function=functools.partial(FORMS[name], fused),
        args=ARGS,
        mesh={"x": 2} if name == "around_shards" else {},
        reference=functools.partial(FORMS[name], None),
    )


CASES = tuple(
    _make(name, mode, fused) for name in FORMS for mode, fused in (("hidden", hidden), ("declared", declared))
)
