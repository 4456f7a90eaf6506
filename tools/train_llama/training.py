"""Trains one Llama on synthetic data: loss and norm of the gradient at each step."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from kernels.llama.config import CONFIGS, Fused, LlamaConfig
from kernels.llama.grid import choose_fused
from kernels.llama.layout import BATCH, LAYOUTS
from kernels.llama.step import init_state, partition_state, train_step
from tools.train_llama.record import PLAIN, Run

REPEATED = 0.75
"""Probability that a token is the one that always follows its predecessor; the others are random."""
TOGETHER = 10
"""Number of steps after which the host waits for the device."""


def train(
    mode: str, *, size: str, layout: str, devices: int, steps: int, seed: int, sequences: int, context: int = 0
) -> Iterator[Run]:
    """Yields the run so far every few steps, and at its end.

    mode: of the loss, as in kernels/llama/grid.py, or `plain` for none. seed: of the parameters and of the data.
    sequences: for each device of the axis `data`. context: tokens of each sequence, 0 for the number of the size.
    """
    config, chosen = CONFIGS[size], LAYOUTS[layout]
    axes = chosen.split_devices(devices)
    mesh = jax.make_mesh(
        tuple(axes.values()),
        tuple(axes),
        devices=jax.devices()[:devices],
        axis_types=(jax.sharding.AxisType.Auto,) * len(axes),
    )
    split = jax.tree.map(lambda spec: NamedSharding(mesh, spec), partition_state(config, chosen))
    fused = Fused() if mode == PLAIN else choose_fused(mode)
    step = jax.jit(
        partial(train_step, config=config, layout=chosen, fused=fused),
        donate_argnums=0,
        out_shardings={"loss": None, "norm": None, "state": split},
    )
    batches = draw_batches(config, seed, axes["data"] * sequences, context or config.context)
    where = NamedSharding(mesh, PartitionSpec(*BATCH))
    run = Run(mode=mode, seed=seed, size=size, layout=layout, devices=devices, device=jax.devices()[0].device_kind)
    waiting: list[tuple[Any, Any]] = []
    with jax.set_mesh(mesh):
        state = jax.jit(partial(init_state, config=config), out_shardings=split)(jax.random.key(seed))
        for number in range(1, steps + 1):
            tokens, targets = (jax.device_put(ids, where) for ids in next(batches))
            results = step(state, tokens, targets)
            state = results["state"]
            waiting.append((results["loss"], results["norm"]))
            if number % TOGETHER == 0 or number == steps:
                run = run.extend([(float(loss), float(norm)) for loss, norm in waiting])
                waiting.clear()
                yield run


def draw_batches(config: LlamaConfig, seed: int, sequences: int, context: int) -> Iterator[tuple[Any, Any]]:
    """Yields token ids and targets, i32[sequences, context] each, without end.

    A fixed permutation says which token follows which, most of the time; the rest follows Zipf's law. A model that has
    learned both has a loss well below its first one, and has memorised nothing.
    """
    random = np.random.Generator(np.random.PCG64(seed))
    follower = np.random.Generator(np.random.PCG64(0)).permutation(config.vocabulary)
    weights = 1.0 / np.arange(1, config.vocabulary + 1)
    bounds = np.cumsum(weights / weights.sum())
    while True:
        drawn = np.searchsorted(bounds, random.random((sequences, context + 1))).clip(max=config.vocabulary - 1)
        follows = random.random((sequences, context + 1)) < REPEATED
        ids = drawn.astype(np.int32)
        for column in range(1, context + 1):
            ids[:, column] = np.where(follows[:, column], follower[ids[:, column - 1]], ids[:, column])
        yield ids[:, :-1], ids[:, 1:]
