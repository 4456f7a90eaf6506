"""The smallest form found of `folded` in which a static analysis of XLA's schedule reports LD002 on
operand 0 of `double_kernel`.

Compiled for h100 with jax 0.11.2, jaxlib 0.11.2, triton 3.6.0.
Relative error of each output when this schedule is computed on the CPU: 0.5, 0.
"""

import jax
import jax.numpy as jnp
import jax_triton as jt
import numpy as np
import triton
import triton.language as tl


@triton.jit
def double_kernel(x_ptr, sum_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    at = row * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at)
    tl.store(sum_ptr + row, tl.sum(x))
    tl.store(x_ptr + at, 2 * x)  # overwrites its operand


def program(x):
    t0 = x.astype(jnp.float32)
    t1 = jt.triton_call(
        t0, kernel=double_kernel, out_shape=jax.ShapeDtypeStruct((2,), jnp.float32), grid=(2,), COLUMNS=2)
    return (t0.astype(jnp.bfloat16), t1)


def make_arguments():
    """Returns the arguments as NumPy arrays, always the same ones."""
    random = np.random.default_rng(0)
    return (
        np.asarray(random.standard_normal((2, 2)), jnp.bfloat16),  # x
    )


def main():
    compiled = jax.jit(program, keep_unused=True)
    arrays = [jnp.asarray(one) for one in make_arguments()]
    with jax.disable_jit():  # one operation after the other: program order
        intended = jax.device_get(program(*[jnp.asarray(one) for one in make_arguments()]))
    actual = jax.device_get(compiled(*arrays))
    for number, (got, wanted) in enumerate(zip(jax.tree.leaves(actual), jax.tree.leaves(intended))):
        got, wanted = np.asarray(got, np.float64), np.asarray(wanted, np.float64)
        error = np.linalg.norm(got - wanted) / max(np.linalg.norm(wanted), 1e-30)
        assert error < 0.05, f"output {number} has a relative error of {error:.2g}"


if __name__ == "__main__":
    main()
