"""A kernel writes into a Ref that the body of a scan makes, and the scan is differentiated (the relative attention of
https://github.com/rwth-i6/returnn, returnn/jax/util/rel_pos_att_triton.py, in a scan over layers, where the forward pass
never sees the attention).

- `zeros`: the Ref is made of zeros. JAX takes it out of the loop, and with it the read that should come after the kernel:
  neither needs the iteration. The loss is that of zeros, and so is its gradient
- `iteration`: the Ref is made of a value of the iteration, and stays in the loop with its read
- `output`: the kernel's result is an output, and there is no Ref

The kernel is a sine here, by Pallas, with its derivative beside it. What it returns is stored into the Ref; the report's
kernel writes the Ref itself, which takes jax-triton 0.4. The model around it is missing.
"""

from functools import partial
from typing import Any

from ligerdiag.model.case import Arg, Case, Draw

CHUNKS, SIZE = 3, 128
ARGS = (Arg(shape=(CHUNKS, SIZE), draw=Draw(seed=0)), Arg(shape=(SIZE,), draw=Draw(seed=1)))
EXPECTED = {"zeros": {"loss": "stale", "gradient": "stale"}, "iteration": "fresh", "output": "fresh"}


def compute(variant: str, chunks: Any, weight: Any) -> dict[str, Any]:
    """Returns a loss of the sines of all chunks, and its gradient, by the kernel."""
    import jax
    import jax.numpy as jnp

    @jax.custom_vjp
    def sine(x: Any) -> Any:
        return _sine(variant, x)

    def forward(x: Any) -> tuple[Any, Any]:
        return _sine(variant, x), x

    def backward(x: Any, cotangent: Any) -> tuple[Any]:
        return (cotangent * jnp.cos(x),)

    sine.defvjp(forward, backward)
    return _compute(sine, chunks, weight)


def compute_reference(chunks: Any, weight: Any) -> dict[str, Any]:
    """Returns the same in plain jnp."""
    import jax.numpy as jnp

    return _compute(jnp.sin, chunks, weight)


def _compute(sine: Any, chunks: Any, weight: Any) -> dict[str, Any]:
    import jax
    import jax.numpy as jnp

    def compute_loss(weight: Any) -> Any:
        total, _ = jax.lax.scan(lambda total, x: (total + sine(x * weight), None), jnp.zeros(SIZE), chunks)
        return (total**2).sum()

    loss, gradient = jax.value_and_grad(compute_loss)(weight)
    return {"loss": loss, "gradient": gradient}


def _sine(variant: str, x: Any) -> Any:
    import jax
    import jax.numpy as jnp
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    sine = pl.pallas_call(_sine_kernel, out_shape=shape, compiler_params=triton.CompilerParams(num_warps=1))(x)
    if variant == "output":
        return sine
    ref = jax.new_ref(jnp.zeros(SIZE) if variant == "zeros" else 0 * x)
    ref[...] = sine
    return ref[...]


def _sine_kernel(x_ref: Any, sine_ref: Any) -> None:
    import jax.numpy as jnp

    sine_ref[...] = jnp.sin(x_ref[...])


CASES = tuple(
    Case(
        name="moved_ref",
        function=partial(compute, variant),
        args=ARGS,
        params=(variant,),
        expected=EXPECTED[variant],
        expected_rules=("LD023",) if variant == "zeros" else (),
        reference=compute_reference,
        about="returnn: a Ref that JAX takes out of a differentiated scan",
    )
    for variant in EXPECTED
)
