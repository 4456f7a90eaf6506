"""Code that tests/kernels runs in a process with four CPU devices: the loss and the train step, split over them."""

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from differences import Errors, compute_relative_error
from jax.sharding import NamedSharding, PartitionSpec

from kernels.cross_entropy.partitioning import partition_by_rows
from kernels.fused_linear_cross_entropy.api import fused_linear_cross_entropy
from kernels.fused_linear_cross_entropy.in_shard_map import fused_linear_cross_entropy_in_shard_map
from kernels.fused_linear_cross_entropy.reference import fused_linear_cross_entropy as reference
from kernels.llama.config import CONFIGS, Fused
from kernels.llama.layout import BATCH, LAYOUTS
from kernels.llama.step import init_state, partition_state, train_step
from kernels.modes import Mode


def compare_split_vocabulary(**options: Any) -> Errors:
    """Returns the errors of loss and gradients if two devices split the vocabulary and two the tokens."""
    keys = jax.random.split(jax.random.key(0), 4)
    input = jax.random.normal(keys[0], (2, 12, 16))
    weight, bias = jax.random.normal(keys[1], (16, 40)), jax.random.normal(keys[2], (40,))
    targets = jax.random.randint(keys[3], (2, 12), 0, 40)
    where = jnp.arange(24).reshape(2, 12) % 5 != 0
    local = partial(fused_linear_cross_entropy, logits_bytes=4 * 20 * 4, **options)

    def on_mesh(input: Any, weight: Any, bias: Any) -> Any:
        return 3 * fused_linear_cross_entropy_in_shard_map(
            input,
            weight,
            targets,
            bias,
            where=where,
            axis="data",
            weight_partition=("data", "model"),
            bias_partition=("model",),
            vocabulary_axis="model",
            local_loss=local,
        )

    def whole(input: Any, weight: Any, bias: Any) -> Any:
        return 3 * reference(input, weight, targets, bias, where=where, **options)

    with jax.set_mesh(_make_mesh({"data": 2, "model": 2})):
        actual = jax.jit(jax.value_and_grad(on_mesh, argnums=(0, 1, 2)))(input, weight, bias)
    wanted = jax.value_and_grad(whole, argnums=(0, 1, 2))(input, weight, bias)
    return _compare(
        {"output": actual[0], **dict(enumerate(actual[1]))}, {"output": wanted[0], **dict(enumerate(wanted[1]))}
    )


def compare_partitioned() -> tuple[Errors, int]:
    """Returns the errors of a row-wise function that the partitioner calls, and the number of all-gathers in the
    program.

    The function is plain JAX: XLA:CPU loses the callback of an interpreted kernel there.
    """

    def normalize(logits: jax.Array, targets: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jnp.take_along_axis(logits, targets[:, None], 1)[:, 0], jax.nn.softmax(logits)

    logits = jax.random.normal(jax.random.key(0), (16, 8))
    targets = jnp.arange(16) % 8
    partitioned = partition_by_rows(normalize, "row column, row -> row, row column")
    mesh = _make_mesh({"data": 4, "model": 1})
    placed = jax.device_put((logits, targets), NamedSharding(mesh, PartitionSpec("data")))
    compiled = jax.jit(partitioned).lower(*placed).compile()
    names = ("at target", "softmax")
    errors = _compare(
        dict(zip(names, compiled(*placed), strict=True)), dict(zip(names, normalize(logits, targets), strict=True))
    )
    return errors, compiled.as_text().count("all-gather")


def compare_steps(layout: str) -> Errors:
    """Returns the errors of a step in which each device calls all kernels, relative to plain JAX on one device."""
    config, chosen = replace(CONFIGS["tiny"], tied=layout == "fsdp+tp+sp"), LAYOUTS[layout]
    fused = Fused(loss=Mode.ALIASED, norm=Mode.ALIASED, rope=Mode.ALIASED, gate=Mode.ALIASED, per_device=True)
    state = init_state(jax.random.key(0), config)
    tokens, targets = (jax.random.randint(jax.random.key(n), (4, config.context), 0, config.vocabulary) for n in (1, 2))
    with jax.set_mesh(_make_mesh({"data": 1, "model": 1})):
        plain = partial(train_step, config=config, layout=LAYOUTS["dp"], fused=Fused())
        wanted = jax.jit(plain)(state, tokens, targets)
    with jax.set_mesh(_make_mesh(chosen.split_devices(4))) as mesh:
        split = jax.tree.map(lambda spec: NamedSharding(jax.sharding.get_mesh(), spec), partition_state(config, chosen))
        del mesh
        placed = jax.device_put(state, split)
        batch = jax.device_put((tokens, targets), NamedSharding(jax.sharding.get_mesh(), PartitionSpec(*BATCH)))
        actual = jax.jit(partial(train_step, config=config, layout=chosen, fused=fused))(placed, *batch)
    moments = {name: jax.tree.leaves(both["state"]["mu"]) for name, both in (("a", actual), ("w", wanted))}
    return _compare(
        {"loss": actual["loss"], "norm": actual["norm"], **dict(enumerate(moments["a"]))},
        {"loss": wanted["loss"], "norm": wanted["norm"], **dict(enumerate(moments["w"]))},
    )


def _make_mesh(axes: dict[str, int]) -> Any:
    count = int(np.prod(list(axes.values())))
    return jax.make_mesh(
        tuple(axes.values()),
        tuple(axes),
        devices=jax.devices()[:count],
        axis_types=(jax.sharding.AxisType.Auto,) * len(axes),
    )


def _compare(actual: dict[Any, Any], wanted: dict[Any, Any]) -> Errors:
    return {str(name): compute_relative_error(np.asarray(actual[name]), np.asarray(wanted[name])) for name in wanted}
