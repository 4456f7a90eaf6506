"""An ordinary program without kernels: a training step through a scan."""

from typing import Any

from ligerdiag.model.case import Arg, Case, Draw


def train_step(x: Any, w: Any, v: Any) -> dict[str, Any]:
    """One training step of a recurrent network with f32[16, 32] states."""
    import jax
    import jax.numpy as jnp

    def loss_of(x: Any, w: Any, v: Any) -> Any:
        def step(state: Any, _: None) -> tuple[Any, None]:
            return jnp.tanh(state @ w) + 0.1 * state, None

        state, _ = jax.lax.scan(step, x, None, length=3)
        probabilities = jax.nn.log_softmax(state @ v, axis=-1)
        return -jnp.mean(probabilities * jnp.sin(state))

    loss, (x_gradient, w_gradient, v_gradient) = jax.value_and_grad(loss_of, argnums=(0, 1, 2))(x, w, v)
    return {"x": x - 0.1 * x_gradient, "w": w - 0.1 * w_gradient, "v": v - 0.1 * v_gradient, "loss": loss}


CASE = Case(
    name="ordinary",
    function=train_step,
    args=(
        Arg(shape=(16, 32), draw=Draw(seed=0)),
        Arg(shape=(32, 32), draw=Draw(seed=1)),
        Arg(shape=(32, 32), draw=Draw(seed=2)),
    ),
)
