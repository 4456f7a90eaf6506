"""Random programs around kernels that overwrite an operand behind XLA's back, for differential testing.

A recipe is drawn from a seed and can be run in two ways:

    hidden    the Triton kernel overwrites its operand and declares nothing; later reads of the operand intend the new value
    intended  the same in plain jnp: after a kernel call the name refers to the new value

Every value is f32 or bf16[16, 16] of magnitude about one, so that any value can be any operand. The kernel replaces x by
`exp(-x * x) + 0.3 * x` and returns weighted sums of its rows, so that nothing commutes by chance.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl

SIZE = 16
OUTPUTS = 4


@triton.jit
def shift_kernel(x_ptr, sum_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    at = row * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at).to(tl.float32)
    weights = 1 + tl.arange(0, COLUMNS) / COLUMNS
    tl.store(sum_ptr + row, tl.sum(x * weights))
    tl.store(x_ptr + at, (tl.exp(-x * x) + 0.3 * x).to(x_ptr.dtype.element_ty))


def call_hidden(x: jax.Array) -> jax.Array:
    """Returns weighted row sums f32[16], and overwrites `x`."""
    sums = jax.ShapeDtypeStruct((SIZE,), jnp.float32)
    return jax_triton.triton_call(x, kernel=shift_kernel, out_shape=sums, grid=(SIZE,), COLUMNS=SIZE)


@dataclass(slots=True)
class Machine:
    """Runs a recipe; `values` are the named arrays."""

    hidden: bool
    values: list[jax.Array]
    total: Any = 0.0
    """Sum of all row sums; a kernel whose outputs nothing uses would be dropped before XLA sees it."""

    def overwrite(self, name: int, recipe: random.Random) -> None:
        """Calls the kernel on the value of that name."""
        x = self.values[name]
        if self.hidden:
            sums = call_hidden(x)
        else:
            wide = x.astype(jnp.float32)
            sums = (wide * (1 + jnp.arange(SIZE) / SIZE)).sum(1)
            self.values[name] = (jnp.exp(-wide * wide) + 0.3 * wide).astype(x.dtype)
        self.total = self.total + sums.sum() * 1e-3
        style = recipe.random()
        if style < 0.2:  # the trivial operations
            total = jax.lax.stop_gradient(sums.sum()).astype(x.dtype) * 1e-3
            self.values[name] = self.values[name] + total - total
        elif style < 0.3:
            self.values[name], sums = jax.lax.optimization_barrier((self.values[name], sums))
        self.values.append(jnp.broadcast_to(sums[:, None] / SIZE, (SIZE, SIZE)))


def _mix(machine: Machine, a: jax.Array, b: jax.Array) -> jax.Array:
    return (a.astype(jnp.float32) @ b.astype(jnp.float32)) * 0.25


_UNARY: tuple[Callable[[jax.Array], jax.Array], ...] = (
    jnp.tanh,
    lambda x: x * 0.7,
    lambda x: x.T,
    lambda x: x.reshape(4, 64)[::-1].reshape(SIZE, SIZE),
    lambda x: x.astype(jnp.bfloat16 if x.dtype == jnp.float32 else jnp.float32),
    lambda x: x - x.mean(1, keepdims=True),
    lambda x: jnp.roll(x, 3, 0),
    lambda x: jax.lax.dynamic_update_slice(x, x[:2] * 2, (3, 0)),
    jax.jit(lambda x: jnp.where(x > 0, x, 0.5 * x)),
    lambda x: jnp.concatenate([x[8:], x[:8]]),
)


def _step(machine: Machine, recipe: random.Random, depth: int) -> None:
    values, kind = machine.values, recipe.random()
    a, b = recipe.randrange(len(values)), recipe.randrange(len(values))
    if kind < 0.28:
        machine.overwrite(a, recipe)
    elif kind < 0.45:
        values.append(_mix(machine, values[a], values[b]))
    elif kind < 0.55:
        values.append((values[a].astype(jnp.float32) + values[b].astype(jnp.float32)) * 0.5)
    elif kind < 0.63 and depth < 2:
        _scan(machine, recipe.randrange(1 << 30), values[a], values[b], depth)
    elif kind < 0.67 and depth < 2:
        _branch(machine, recipe.randrange(1 << 30), values[a], values[b], depth)
    else:
        values.append(recipe.choice(_UNARY)(values[a]))


def _run_steps(machine: Machine, seed: int, steps: int, depth: int) -> None:
    recipe = random.Random(seed)
    for _ in range(steps):
        _step(machine, recipe, depth)


def _scan(machine: Machine, seed: int, a: jax.Array, b: jax.Array, depth: int) -> None:
    recipe = random.Random(seed)
    length, steps = recipe.choice((1, 2, 3)), recipe.randrange(2, 6)

    def body(carry: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        inner = Machine(machine.hidden, [jnp.tanh(carry), x * 0.9])  # values that belong to the loop
        _run_steps(inner, seed + 1, steps, depth + 1)
        last = inner.values[-1].astype(jnp.float32) + inner.total
        return (carry * 0.5 + inner.values[pick_index(seed, len(inner.values))].astype(jnp.float32) * 0.5), last

    stacked = jnp.stack([b.astype(jnp.float32) * (0.5 + 0.2 * i) for i in range(length)])
    carry, ys = jax.lax.scan(body, a.astype(jnp.float32), stacked)
    machine.values += [carry, ys.mean(0)]


def _branch(machine: Machine, seed: int, a: jax.Array, b: jax.Array, depth: int) -> None:
    steps = random.Random(seed).randrange(1, 4)

    def run(offset: int, x: jax.Array, y: jax.Array) -> jax.Array:
        inner = Machine(machine.hidden, [x * 0.8, y + 0.1])
        _run_steps(inner, seed + offset, steps, depth + 1)
        return inner.values[-1].astype(jnp.float32) + inner.total

    machine.values.append(jax.lax.cond(a.astype(jnp.float32).sum() > 0, partial(run, 1), partial(run, 2), a, b))


def pick_index(seed: int, count: int) -> int:
    """Returns an index below `count` that depends on the seed alone."""
    return random.Random(seed + 7).randrange(count)


def make_program(seed: int, *, hidden: bool) -> Callable[..., dict[str, Any]]:
    """Returns the program of this seed: from two f32[16, 16] to a few outputs, one of which mixes all the others."""

    def program(x: jax.Array, y: jax.Array) -> dict[str, Any]:
        machine = Machine(hidden, [x + 0.1, y * 0.9])
        _run_steps(machine, seed, random.Random(seed + 13).randrange(4, 12), 0)
        picked = machine.values[-OUTPUTS:]
        outputs: dict[str, Any] = {f"v{n}": value.astype(jnp.float32) for n, value in enumerate(picked)}
        outputs["norm"] = sum((value**2).mean() for value in list(outputs.values()))
        outputs["total"] = jnp.asarray(machine.total)
        return outputs

    return program
