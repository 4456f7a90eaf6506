"""Programs that donate a state and return one value several times instead of it, as an H200 ran them (2026-11-23).

They call no kernel. WRONG gives the wrong outputs of those whose numbers differed from the numbers without donation.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from ligerdiag.model.case import Arg, Case, Draw


def zeros_computed(state: Any, value: Any) -> Any:
    zero = value - value
    return tuple(zero for _ in state), state


def zeros_constant(state: Any, value: Any) -> Any:
    import jax.numpy as jnp

    return tuple(jnp.zeros_like(one) for one in state), state


def passed(state: Any, value: Any) -> Any:
    import jax.numpy as jnp

    return tuple(jnp.tanh(value) for _ in state), state


def passed_first(state: Any, value: Any) -> Any:
    import jax.numpy as jnp

    return state, tuple(jnp.tanh(value) for _ in state)


def used(state: Any, value: Any) -> Any:
    return tuple(value * value for _ in state), tuple(one + value for one in state)


def one_passed(state: Any, value: Any) -> Any:
    import jax.numpy as jnp

    return tuple(jnp.tanh(value) for _ in state), state[0]


def summed(state: Any, value: Any) -> Any:
    import jax.numpy as jnp

    return tuple(jnp.tanh(value) for _ in state), sum(jnp.sum(one) for one in state)


def rotated(state: Any, value: Any) -> Any:
    return (*state[1:], state[0]), value + 1


FORMS: tuple[Callable[..., Any], ...] = (
    zeros_computed,
    zeros_constant,
    passed,
    passed_first,
    used,
    one_passed,
    summed,
    rotated,
)
SHAPES: tuple[tuple[int, ...], ...] = ((), (1,), (4,))
WRONG = {
    (form, count, shape): outputs
    for form in ("zeros_computed", "passed")
    for count, outputs in ((3, ("0.1", "1.2")), (4, ("0.1", "0.2", "1.2", "1.3")))
    for shape in ("0", "1")
}


def _make_case(form: Callable[..., Any], count: int, shape: tuple[int, ...]) -> Case:
    state = tuple(Arg(shape=shape, draw=Draw(seed=seed), donate=True) for seed in range(count))
    return Case(
        name="donated",
        keep_unused=True,
        function=partial(form),
        args=(state, Arg(shape=shape, draw=Draw(seed=9))),
        params=(form.__name__, str(count), str(sum(shape))),
    )


CASES = tuple(_make_case(form, count, shape) for form in FORMS for count in (2, 3, 4) for shape in SHAPES)
