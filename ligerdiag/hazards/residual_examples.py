"""Examples of clobbered-read in a backward pass: whole case files around the kernel of `examples`."""

from ligerdiag.hazards.examples import ALIASED_CALL, KERNEL
from ligerdiag.hazards.rule import Example

_DERIVATIVE = """\
@jax.custom_vjp
def row_sums(x):
    return forward(x)[0]


def forward(x):
    return {sums}, None


def backward(_, cotangent):
    return (jnp.broadcast_to(cotangent[:, None], (8, 32)),)


row_sums.defvjp(forward, backward)


def step(x):
    def loss_of(x):
        return (row_sums(jnp.tanh(x)) ** 2).sum()

    loss, gradient = jax.value_and_grad(loss_of)(x)
    return {{"loss": loss, "gradient": gradient}}


CASE = Case(name="{name}", function=step, args=(Arg(shape=(8, 32)),))
"""

SAVED_RESIDUAL = Example(
    about="The derivative of tanh is computed from its result, which autodiff saved and the kernel has doubled since.",
    code=KERNEL + _DERIVATIVE.format(sums="sum_and_double(x)", name="saved"),
)

COPIED_RESIDUAL = Example(
    about="With the write declared, XLA keeps the result of tanh for the derivative.",
    code=KERNEL + ALIASED_CALL + _DERIVATIVE.format(sums="sum_and_double_declared(x)[1]", name="saved_copy"),
)
