"""Steps of the other files, each with the remedy that its finding names: CASES."""

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import optax
from jax import lax

from ligerdiag.model.case import Arg, Case
from tests.memory.steps import decode, more, split, train
from tests.memory.steps.arguments import llama_loss

P = jax.P


def in_order(params: Any, opt_state: Any, batch: Any) -> Any:
    """Of `loss_first`: the outputs in the order of the arguments."""
    loss, opt_state, params = train.loss_first(train.ADAMW, params, opt_state, batch)
    return params, opt_state, loss


def gradients_first(params: Any, target: Any, opt_state: Any, step: Any, batch: Any) -> Any:
    """Of `target_network`: all gradients before the first update."""
    optimizer = optax.adam(1e-3)
    gradients = jax.grad(train.q_loss)(params, target, batch)
    params, gradients = lax.optimization_barrier((params, gradients))
    changes, opt_state = optimizer.update(gradients, opt_state, params)
    params = optax.apply_updates(params, changes)
    return params, optax.periodic_update(params, target, step, 100), opt_state, step + 1


def whole_parameters(params: Any, opt_state: Any, batch: Any) -> Any:
    """Of `zero_one`: the outputs have the arguments' shardings."""
    params, opt_state, loss = split.zero_one(split.ADAM, params, opt_state, batch)
    return jax.tree.map(lambda one: lax.with_sharding_constraint(one, P()), params), opt_state, loss


def keep_shardings(args: Any) -> Any:
    """Of `tensor_jit`."""
    specs = jax.tree.map(lambda one: P(*one.partition), args, is_leaf=lambda one: isinstance(one, Arg))

    def step(state: Any, batch: Any) -> Any:
        state, metrics = train.update(train.ADAMW, llama_loss, state, batch)
        return jax.tree.map(lax.with_sharding_constraint, state, specs), metrics

    return step


def find(cases: tuple[Case, ...], name: str) -> Case:
    return next(one for one in cases if one.name == name)


def keep(tree: Any) -> Any:
    return jax.tree.map(lambda one: replace(one, donate=False), tree, is_leaf=lambda one: isinstance(one, Arg))


RING = find(more.CASES, "ring_attention")
LOSS_FIRST, TARGET = find(train.CASES, "loss_first"), find(train.CASES, "target_network")
ROLLED, ZERO, TENSOR = find(decode.CASES, "rolled"), find(split.CASES, "zero_one"), find(split.CASES, "tensor_jit")
CASES = (
    replace(LOSS_FIRST, name="in_order", function=in_order),
    replace(TARGET, name="gradients_first", function=gradients_first),
    replace(ROLLED, name="rolled_not_donated", args=(ROLLED.args[0], keep(ROLLED.args[1]), *ROLLED.args[2:])),
    replace(ZERO, name="whole_parameters", function=whole_parameters),
    replace(RING, name="ring_in_pairs", function=partial(more.ring_attention, unroll=2)),
    replace(TENSOR, name="kept_shardings", function=keep_shardings(TENSOR.args[0])),
)
