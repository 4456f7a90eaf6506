"""The calls that `call_in_place` makes, and the ones it refuses.

tests/docs/test_plain_install.py also runs this file with jax-triton 0.4, so it imports no other test code.
"""

import re
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import triton
import triton.language as tl

from ligerdiag.in_place import _IS_NEW, call_in_place

X, Y = jnp.ones((8,)), jnp.ones((4,), "bfloat16")
SCALAR = jax.ShapeDtypeStruct((), "float32")
_OPERAND = re.compile(r"operand_index = (\d+)")


@triton.jit
def adam_kernel(p_ptr, rate, m_ptr, g_ptr, norm_ptr, spare_p_ptr, spare_m_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = 0.9 * tl.load(m_ptr + at) + tl.load(g_ptr + at)
    tl.atomic_add(norm_ptr, tl.sum(m))
    tl.store(m_ptr + at, m)
    tl.store(p_ptr + at, tl.load(p_ptr + at) - (rate * m).to(tl.float32))


@triton.jit
def double_kernel(x_ptr, spare_ptr, N: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, N), 2 * tl.load(x_ptr + tl.arange(0, N)))


@triton.jit
def short_kernel(x_ptr, N: tl.constexpr):
    """Has no spare pointer."""
    tl.store(x_ptr + tl.arange(0, N), 2 * tl.load(x_ptr + tl.arange(0, N)))


@triton.jit
def late_kernel(spare_ptr, x_ptr, N: tl.constexpr):
    """Has its operand last."""
    tl.store(x_ptr + tl.arange(0, N), 2 * tl.load(x_ptr + tl.arange(0, N)))


def adam(*operands: Any, **keywords: Any) -> tuple[Any, ...]:
    given = {"written": (0, 2), "outputs": [SCALAR], "grid": lambda meta: (8 // meta["BLOCK"],), "BLOCK": 4}
    return call_in_place(*operands, kernel=adam_kernel, **(given | keywords))


def double(x: Any, **keywords: Any) -> Any:
    (doubled,) = call_in_place(x, kernel=double_kernel, written=0, grid=1, N=x.shape[0], **keywords)
    return doubled


def list_aliases(function: Callable[..., Any], *arrays: Any) -> list[int]:
    """Returns, for each output with an alias, the index of the aliased operand among the arrays."""
    text = jax.jit(function).trace(*arrays).lower(lowering_platforms=("cuda",)).as_text()
    return [int(number) for number in _OPERAND.findall(text)]


FORMS = {
    "places": (lambda p, m, g: adam(p, 0.1, m, g, compute_capability=90), [0, 1]),
    "in reverse": (lambda p, m, g: adam(p, 0.1, m, g, written=(2, 0), compute_capability=90), [1, 0]),
    "a list": (lambda p, m, g: adam(p, 0.1, m, g, written=[0, 2], compute_capability=90), [0, 1]),
    "one": (
        lambda p, m, g: adam(p, 0.1, m, g, written=2, outputs=(SCALAR, SCALAR), compute_capability=90),
        [1],
    ),
    "names": (lambda p, m, g: adam(p, 0.1, m, g, written=("m_ptr", "p_ptr"), compute_capability=90), [1, 0]),
    "operands by name": (
        lambda p, m, g: adam(p, g_ptr=g, rate=2, m_ptr=m, written=("p_ptr", "m_ptr"), compute_capability=90),
        [0, 1],
    ),
    "one output": (lambda p, m, g: adam(p, 0.1, m, g, outputs=SCALAR, compute_capability=90), [0, 1]),
    "a NumPy number": (lambda p, m, g: adam(p, np.float64(0.1), m, g, compute_capability=90), [0, 1]),
    "a NumPy array": (lambda p, m, g: adam(np.ones(8), 0.1, m, g, compute_capability=90), [0, 1]),
}


@pytest.mark.parametrize("name", FORMS)
def test_each_written_operand_is_aliased_by_its_result(name: str) -> None:
    function, aliases = FORMS[name]
    assert list_aliases(function, X, X, X) == aliases


def test_the_results_are_the_outputs_then_the_overwritten_arrays_in_the_given_order() -> None:
    results = jax.eval_shape(lambda p, m, g: adam(p, 0.1, m, g, written=(2, 0)), X, Y, X)
    assert [(one.shape, one.dtype.name) for one in results] == [((), "float32"), ((4,), "bfloat16"), ((8,), "float32")]


def test_a_correct_call_gives_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jax.make_jaxpr(double)(X)


@pytest.mark.skipif(not _IS_NEW, reason="jax-triton before 0.4 passes the address there")
def test_since_0_4_the_spare_pointer_may_be_missing() -> None:
    def function(x: Any) -> Any:
        return call_in_place(x, kernel=short_kernel, written=0, grid=1, N=8, compute_capability=90)

    assert list_aliases(function, X) == [0]


@pytest.mark.skipif(_IS_NEW, reason="jax-triton 0.4 takes any order")
def test_before_0_4_a_kernel_with_another_parameter_order_is_refused() -> None:
    with pytest.raises(
        TypeError, match="in the order operands, `x_ptr`, outputs, constants but got `spare_ptr`, `x_ptr`"
    ):
        call_in_place(x_ptr=X, kernel=late_kernel, written="x_ptr", grid=1, N=8)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "past the end": (lambda: adam(X, 0.1, X + 1, X, written=4), "expected 0 to 3 or one of .* but got 4"),
    "before the start": (lambda: adam(X, 0.1, X + 1, X, written=(0, -1)), "expected 0 to 3 or one of .* but got -1"),
    "no name": (
        lambda: adam(X, 0.1, X + 1, X, written="q_ptr"),
        "one of `p_ptr`, `rate`, `m_ptr`, `g_ptr` in .* 'q_ptr'",
    ),
    "nothing": (lambda: adam(X, 0.1, X + 1, X, written=()), "expected an operand in `written`"),
    "a truth value": (lambda: adam(X, 0.1, X + 1, X, written=True), "but got True"),
    "twice": (lambda: adam(X, 0.1, X + 1, X, written=(0, 0)), "each operand once .* `p_ptr` twice"),
    "twice, by place and name": (
        lambda: adam(X, 0.1, X + 1, X, written=(2, "m_ptr")),
        "each operand once .* `m_ptr` twice",
    ),
    "a number": (
        lambda: adam(X, 0.1, X + 1, X, written=(0, 1)),
        "expected an array as `rate`.* take it out of `written`",
    ),
    "one array for two": (lambda: adam(X, 0.1, X, X + 1), "`p_ptr` and `m_ptr` are one array.* pass `jax.numpy.copy`"),
    "a Ref": (lambda: adam(jax.new_ref(X), 0.1, X, X + 1), r"`p_ptr` is a Ref: pass `ref\[...\]`"),
    "a Ref that is read": (lambda: adam(X, 0.1, X + 1, jax.new_ref(X)), r"`g_ptr` is a Ref: pass `ref\[...\]`"),
    "too many outputs": (
        lambda: adam(X, 0.1, X + 1, X, outputs=[SCALAR] * 2),
        "expected 4 parameters .* but the kernel has 3: `norm_ptr`, `spare_p_ptr`, `spare_m_ptr`",
    ),
    "no shape": (
        lambda: adam(X, 0.1, X + 1, X, outputs=[(8,)]),
        r"expected a `jax.ShapeDtypeStruct` as output 0 .*\(8,\)",
    ),
    "a name of triton_call": (
        lambda: adam(X, 0.1, X + 1, X, out_shape=SCALAR),
        "`call_in_place` does not take `out_shape` of `triton_call`",
    ),
    "an operand twice": (lambda: adam(X, 0.1, X + 1, X, g_ptr=X), "`g_ptr` is given by its position and by its name"),
    "a name with a typo": (
        lambda: adam(X, 0.1, X + 1, grad_ptr=X),
        "`grad_ptr` is an array, but the kernel has no such parameter",
    ),
    "too many operands": (lambda: adam(*[X] * 9), "expected at most 8 operands"),
    "no kernel": (lambda: call_in_place(X, kernel=len, written=0, grid=1), "decorate the function with `triton.jit`"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_nonsensical_call_is_refused_with_a_remedy(name: str) -> None:
    call, message = REFUSED[name]
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def make_squares() -> Any:
    squares = jax.custom_vjp(lambda y: (y * y).sum())
    squares.defvjp(lambda y: ((y * y).sum(), double(y)), lambda doubled, g: (g * doubled,))
    return squares


def test_rematerialization_calls_the_kernel_again() -> None:
    """With a Ref, JAX kept `freeze(new_ref(y))` and dropped the call in between: the gradient was y instead of 2 y."""
    squares = make_squares()
    backward = str(jax.make_jaxpr(jax.value_and_grad(jax.checkpoint(lambda y: squares(jnp.sin(y)))))(X))
    calls = backward.count("triton_kernel_call[")
    assert calls == (2 if _IS_NEW else 1)  # before 0.4 JAX drops the forward pass's call: nobody reads its result
    assert "Ref{" not in backward


def test_a_batch_needs_sequential_vmap() -> None:
    batch = jnp.ones((3, 8))
    with pytest.raises(NotImplementedError, match="custom_batching"):
        jax.vmap(double)(batch)
    assert jax.eval_shape(jax.vmap(jax.custom_batching.sequential_vmap(double)), batch).shape == (3, 8)


def test_a_derivative_needs_a_custom_rule() -> None:
    with pytest.raises(NotImplementedError, match="custom_vjp"):
        jax.grad(lambda x: double(x).sum())(X)


def test_inside_a_shard_map_a_result_varies_over_devices_if_an_operand_does() -> None:
    """Otherwise JAX sums its cotangent over the devices, because jax-triton declares an equal result on each device."""
    twice = jax.custom_vjp(double)
    twice.defvjp(lambda x: (double(x), None), lambda _, g: (2 * g,))
    mesh = jax.sharding.AbstractMesh((2,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("x")
    function = jax.shard_map(jax.grad(lambda x: (twice(x) * x).sum()), mesh=mesh, in_specs=spec, out_specs=spec)
    assert "psum" not in str(jax.make_jaxpr(function)(X))
