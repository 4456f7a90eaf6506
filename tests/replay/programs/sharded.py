"""Programs over a mesh without kernels, in both of JAX's styles; the reference of each is the same program in plain
jnp.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from ligerdiag.model.case import Arg, Case, Draw

MESH = {"a": 2, "b": 2}


def _arg(*shape: int, seed: int, partition: tuple[Any, ...] = ()) -> Arg:
    return Arg(shape=shape, draw=Draw(seed=seed), partition=partition)


def over_both(x: Any, w: Any) -> Any:
    def local(x: Any, w: Any) -> Any:
        place = jax.lax.axis_index("a") * 10 + jax.lax.axis_index("b")
        product = jax.lax.psum(x @ w, "b")
        shifted = jax.lax.ppermute(x, "a", [(0, 1), (1, 0)])
        gathered = jax.lax.all_gather(w, "b", axis=0, tiled=True)
        total = jax.lax.fori_loop(0, 3, lambda i, t: t + jax.lax.pmax(x.sum() * i, ("a", "b")), 0.0)
        return product + place * 0, shifted, gathered, total[None], place[None, None].astype(jnp.float32)

    specs = (P("a"), P("a", "b"), P(), P(), P("a", "b"))
    run = jax.shard_map(local, in_specs=(P("a", "b"), P("b")), out_specs=specs, check_vma=False)
    return dict(zip(("product", "shifted", "gathered", "total", "place"), run(x, w), strict=True))


def over_both_in_plain_jnp(x: Any, w: Any) -> Any:
    blocks = [half.sum() for rows in jnp.split(x, 2) for half in jnp.split(rows, 2, axis=1)]
    largest = sum(jnp.max(jnp.stack([b * i for b in blocks])) for i in range(3))
    return {
        "product": x @ w,
        "shifted": jnp.concatenate(jnp.split(x, 2)[::-1]),
        "gathered": w,
        "total": jnp.asarray(largest)[None],
        "place": jnp.array([[0.0, 1.0], [10.0, 11.0]]),
    }


def train_step(w1: Any, w2: Any, x: Any) -> Any:
    def loss(w1: Any, w2: Any) -> Any:
        return jnp.mean(jnp.tanh(jax.nn.relu(x @ w1) @ w2) ** 2)

    value, (g1, g2) = jax.value_and_grad(loss, (0, 1))(w1, w2)
    return {"loss": value, "w1": w1 - 0.1 * g1, "w2": w2 - 0.1 * g2}


CASES = (
    Case(
        name="shard_map",
        function=over_both,
        args=(_arg(4, 8, seed=1, partition=("a", "b")), _arg(8, 6, seed=2, partition=("b",))),
        mesh=MESH,
        reference=over_both_in_plain_jnp,
    ),
    Case(
        name="partitioned",
        function=train_step,
        args=(
            _arg(16, 32, seed=1, partition=(None, "b")),
            _arg(32, 8, seed=2, partition=("b",)),
            _arg(8, 16, seed=3, partition=("a",)),
        ),
        mesh=MESH,
        reference=train_step,
    ),
)
