"""The smallest form found of `sharded_flce[vocabulary-trivial-2]` in which a static analysis of XLA's
schedule reports LD002 on operand 0 of `cross_entropy_kernel`.

Compiled for h100 with jax 0.11.2, jaxlib 0.11.2, triton 3.6.0.
Relative error of each output when this schedule is computed on the CPU: 0.45.
"""

import jax
import jax.numpy as jnp
import jax_triton as jt
import numpy as np
import triton
import triton.language as tl
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


@triton.jit
def cross_entropy_kernel(  # noqa: PLR0917 - Triton knows no keyword-only parameters
    logits_ptr,
    targets_ptr,
    count_ptr,
    loss_ptr,
    destination_ptr,
    VOCABULARY: tl.constexpr,
    IGNORE_INDEX: tl.constexpr,
    LABEL_SMOOTHING: tl.constexpr,
    MEAN: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    if destination_ptr is None:
        destination_ptr = logits_ptr
    logits_ptr += row * VOCABULARY
    destination_ptr += row * VOCABULARY
    target = tl.load(targets_ptr + row)
    if target == IGNORE_INDEX:
        for start in range(0, VOCABULARY, BLOCK):
            column = start + tl.arange(0, BLOCK)
            tl.store(destination_ptr + column, 0.0, mask=column < VOCABULARY)
        tl.store(loss_ptr + row, 0.0)
        return

    scale = 1.0
    if MEAN:
        scale = 1.0 / tl.load(count_ptr)
    exists = (target >= 0) & (target < VOCABULARY)
    at_target = tl.load(logits_ptr + target, mask=exists, other=float("nan")).to(tl.float32)

    # Milakov and Gimelshein, algorithm 3, a block at a time; a row may begin with blocks of -inf.
    maximum = float("-inf")
    denominator = 0.0
    row_sum = 0.0
    for start in range(0, VOCABULARY, BLOCK):
        column = start + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + column, mask=column < VOCABULARY, other=float("-inf")).to(tl.float32)
        if LABEL_SMOOTHING > 0:
            row_sum += tl.sum(tl.where(column < VOCABULARY, x, 0.0))
        higher = tl.maximum(maximum, tl.max(x))
        shift = tl.where(higher == float("-inf"), 0.0, higher)
        denominator = denominator * tl.exp(maximum - shift) + tl.sum(tl.exp(x - shift))
        maximum = higher
    # A target outside of the vocabulary makes the loss and the gradient of its row NaN.
    maximum = tl.where(exists, maximum, float("nan"))

    smoothing: tl.constexpr = LABEL_SMOOTHING / VOCABULARY
    for start in range(0, VOCABULARY, BLOCK):
        column = start + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + column, mask=column < VOCABULARY, other=float("-inf")).to(tl.float32)
        gradient = (tl.exp(x - maximum) / denominator - smoothing) * scale
        tl.store(destination_ptr + column, gradient, mask=column < VOCABULARY)
    tl.debug_barrier()

    log_denominator = maximum + tl.log(denominator)
    loss = (1.0 - LABEL_SMOOTHING) * (log_denominator - at_target)
    if LABEL_SMOOTHING > 0:
        loss += LABEL_SMOOTHING * log_denominator - smoothing * row_sum
    tl.store(loss_ptr + row, loss * scale)
    # Computed again rather than loaded: the gradient stands there rounded to the logits' dtype.
    gradient = (tl.exp(at_target - maximum) / denominator - smoothing - (1.0 - LABEL_SMOOTHING)) * scale
    tl.store(destination_ptr + target, gradient, mask=exists)


def program(x3, x29, x20, x21):
    t0 = x20 @ x3
    t1 = jt.triton_call(
        t0, x21, x29, kernel=cross_entropy_kernel, out_shape=jax.ShapeDtypeStruct((2,), jnp.float32), grid=(2,),
        num_warps=32, destination_ptr=None, VOCABULARY=2, IGNORE_INDEX=-100, LABEL_SMOOTHING=0.0, MEAN=True, BLOCK=2)
    t2 = jnp.sum(t1)
    t3 = t0 + t2
    return t3


def make_arguments():
    """Returns the arguments as NumPy arrays, always the same ones."""
    random = np.random.default_rng(0)
    return (
        np.asarray(random.standard_normal((2, 2)), jnp.float32),  # x3
        np.asarray(random.standard_normal(()), jnp.float32),  # x29
        np.asarray(random.standard_normal((2, 2)), jnp.float32),  # x20
        random.integers(0, 2, (2,)).astype(jnp.int32),  # x21
    )


def main():
    mesh = jax.make_mesh((2,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    specs = [P(None, "x"), P(), P(), P()]
    compiled = jax.jit(program, keep_unused=True)
    arrays = [jax.device_put(one, NamedSharding(mesh, spec)) for one, spec in zip(make_arguments(), specs)]
    with jax.disable_jit():  # one operation after the other: program order
        intended = jax.device_get(program(*[jnp.asarray(one) for one in make_arguments()]))
    with jax.set_mesh(mesh):
        actual = jax.device_get(compiled(*arrays))
    for number, (got, wanted) in enumerate(zip(jax.tree.leaves(actual), jax.tree.leaves(intended))):
        got, wanted = np.asarray(got, np.float64), np.asarray(wanted, np.float64)
        error = np.linalg.norm(got - wanted) / max(np.linalg.norm(wanted), 1e-30)
        assert error < 0.001, f"output {number} has a relative error of {error:.2g}"


if __name__ == "__main__":
    main()
