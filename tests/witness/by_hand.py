"""Small programs for `test_by_hand`, to be run in the process that interprets kernels."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tests.property.differentiated_kernels import launch_rows, make_loss
from tests.witness.eager import run_eagerly

ROWS, COLUMNS = 4, 16

type Program = Callable[[jax.Array], Any]


def run_all() -> dict[str, dict[str, float]]:
    """Returns, for each program, the distances of its result from its two arrays, relative in norm."""
    return {program.__name__: _measure(program, **how) for program, how in _PROGRAMS.items()}


def _measure(program: Any, *, saved_values: bool = True, pair: Any = None, runs: int = 1) -> dict[str, float]:
    x = np.random.default_rng(0).standard_normal((ROWS, COLUMNS), np.float32) + 0.5
    weight = 1 + np.arange(COLUMNS, dtype=np.float32) / COLUMNS
    before, after = (pair or (lambda x, after: (x, after)))(x, weight * np.tanh(x))
    argument = jnp.asarray(x)
    found: Any = None
    for _ in range(runs):
        found = run_eagerly(lambda x: {"out": program(x)}, (argument,), saved_values=saved_values)["out"]
    if program is an_argument_of_the_caller_is_not_overwritten:
        found = np.asarray(argument)
    return {
        "before": float(np.linalg.norm(found - before) / np.linalg.norm(before)),
        "after": float(np.linalg.norm(found - after) / np.linalg.norm(after)),
    }


def _keep(value: jax.Array, sums: jax.Array) -> jax.Array:
    """Returns the value, and makes the kernel's outputs used."""
    return value + 0 * sums.sum()


def a_reader_after_the_kernel_sees_what_it_left(x: jax.Array) -> jax.Array:
    sums, _ = launch_rows(x)
    return _keep(x, sums)


def a_reader_before_the_kernel_sees_the_original(x: jax.Array) -> jax.Array:
    read = x * 1
    sums, _ = launch_rows(x)
    return _keep(read, sums)


def another_name_of_the_operand_is_overwritten_too(x: jax.Array) -> jax.Array:
    name = jax.jit(lambda x: jax.lax.stop_gradient(x.astype(jnp.float32)).reshape(ROWS, COLUMNS))(x)
    sums, _ = launch_rows(x)
    return _keep(name, sums)


def a_copy_made_before_is_not_overwritten(x: jax.Array) -> jax.Array:
    copy = jnp.array(x)
    sums, _ = launch_rows(x)
    return _keep(copy, sums)


def an_argument_of_the_caller_is_not_overwritten(x: jax.Array) -> jax.Array:
    return launch_rows(x)[0]


_CONSTANT: dict[str, jax.Array] = {}


def a_closed_over_array_is_a_constant_of_each_run(x: jax.Array) -> jax.Array:
    constant = _CONSTANT.setdefault("x", x)
    read = constant * 1.0
    sums, _ = launch_rows(constant)
    return _keep(read, sums)


def a_declared_write_does_not_change_the_operand(x: jax.Array) -> jax.Array:
    sums, _ = launch_rows(x, declared=True)
    return _keep(x, sums)


def a_declared_write_is_in_the_output(x: jax.Array) -> jax.Array:
    return launch_rows(x, declared=True)[1]


def a_residual_of_the_users_rule_is_what_the_kernel_left(x: jax.Array) -> jax.Array:
    return jax.grad(lambda x: make_loss("scaled")(x * 1.0))(x)


def a_product_with_the_tangent_in_a_jvp_rule_reads_after_the_kernel(x: jax.Array) -> jax.Array:
    return jax.grad(lambda x: make_loss("jvp")(x * 1.0))(x)


def the_residual_of_exp_is_the_original(x: jax.Array) -> jax.Array:
    return _differentiate_exp(x)


def without_saved_values_the_residual_of_exp_is_what_the_kernel_left(x: jax.Array) -> jax.Array:
    return _differentiate_exp(x)


def _differentiate_exp(x: jax.Array) -> jax.Array:
    """Returns d loss(exp(log x)) / d log x, which is the gradient of the loss times the residual of exp."""
    y, pull = jax.vjp(jnp.exp, jnp.log(jnp.abs(x) + 1))
    sums, gradient = launch_rows(y)
    return pull(gradient * 1.0)[0] + 0 * sums.sum()


def _pair_of_exp(x: Any, after: Any) -> tuple[Any, Any]:
    del after
    y = np.abs(x) + 1
    left = (1 + np.arange(COLUMNS, dtype=np.float32) / COLUMNS) * np.tanh(y)
    return left * y, left * left


def the_initial_state_of_a_scan_is_a_copy(x: jax.Array) -> jax.Array:
    def body(state: jax.Array, _: Any) -> tuple[jax.Array, Any]:
        sums, state = launch_rows(state)
        return state * 1.0, sums

    _, sums = jax.lax.scan(body, x, None, length=2)
    return _keep(x, sums)


def the_result_of_a_branch_is_a_copy(x: jax.Array) -> jax.Array:
    same = jax.lax.cond(x.sum() > -1e9, lambda x: x, lambda x: x * 2, x)
    sums, _ = launch_rows(x)
    return _keep(same, sums)


def a_remat_drops_a_kernel_whose_outputs_only_the_loss_needs(x: jax.Array) -> jax.Array:
    """JAX recomputes only the residual, which the backward pass needs, and not the sums: it is wrong in any order."""
    return jax.grad(jax.checkpoint(lambda x: make_loss("scaled")(x * 1.0)))(x)


def each_device_of_a_shard_map_overwrites_its_own_shard(x: jax.Array) -> jax.Array:
    def local(x: jax.Array) -> jax.Array:
        sums, _ = launch_rows(x)
        return _keep(x, sums)

    split = PartitionSpec("devices")
    return jax.shard_map(local, mesh=_build_mesh(), in_specs=split, out_specs=split, check_vma=False)(x)


def an_array_on_two_devices_is_overwritten_on_both(x: jax.Array) -> jax.Array:
    split = jax.device_put(x, NamedSharding(_build_mesh(), PartitionSpec("devices")))
    launch_rows(split)
    return split * 1.0


def _build_mesh() -> Mesh:
    return Mesh(np.array(jax.devices()[:2]), ("devices",))


_PROGRAMS: dict[Program, dict[str, Any]] = {
    a_reader_after_the_kernel_sees_what_it_left: {},
    a_reader_before_the_kernel_sees_the_original: {},
    another_name_of_the_operand_is_overwritten_too: {},
    a_copy_made_before_is_not_overwritten: {},
    an_argument_of_the_caller_is_not_overwritten: {},
    a_closed_over_array_is_a_constant_of_each_run: {"runs": 2},
    a_declared_write_does_not_change_the_operand: {},
    a_declared_write_is_in_the_output: {},
    a_residual_of_the_users_rule_is_what_the_kernel_left: {},
    a_product_with_the_tangent_in_a_jvp_rule_reads_after_the_kernel: {},
    the_residual_of_exp_is_the_original: {"pair": _pair_of_exp},
    without_saved_values_the_residual_of_exp_is_what_the_kernel_left: {"pair": _pair_of_exp, "saved_values": False},
    the_initial_state_of_a_scan_is_a_copy: {},
    the_result_of_a_branch_is_a_copy: {},
    a_remat_drops_a_kernel_whose_outputs_only_the_loss_needs: {},
    each_device_of_a_shard_map_overwrites_its_own_shard: {},
    an_array_on_two_devices_is_overwritten_on_both: {},
}
"""Arguments of `_measure`; the two arrays are x and what the kernel makes of it, unless `pair` gives others."""
