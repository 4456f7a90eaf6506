"""A program that is read from its jaxpr and printed as Python computes the same."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from ligerdiag.reduce.jaxpr_reader import JaxprReader
from ligerdiag.reduce.program_text import print_function, print_head
from ligerdiag.reduce.reduced_program import Kind, Program, ReducedArgument, iterate_equations


def read_program(function: Any, *arrays: Any) -> Program:
    """Returns the program of a function as the worker reads it."""
    closed = jax.jit(function, keep_unused=True).trace(*arrays).jaxpr
    reader = JaxprReader()
    body = reader.read(closed, [f"x{number}" for number in range(len(arrays))])
    return Program(
        name="program",
        body=body,
        arguments=(ReducedArgument(),) * len(arrays),
        outputs=tuple(str(number) for number in range(len(body.results))),
        definitions=reader.definitions,
        imports=tuple(reader.imports),
    )


def run_text(program: Program, *arrays: Any) -> Any:
    """Returns the results of the printed program."""
    scope: dict[str, Any] = {"np": np}
    exec(print_head(program) + "\n" + "\n".join(print_function(program)), scope)
    return jax.jit(scope["program"])(*arrays)


def gate(x, w):
    h = jnp.where(x > 0, x, 0.1 * x) @ w
    return jax.nn.softmax(h), h.sum(0), jnp.maximum(h, -1.0), -h, h**2, 1 - h


def move(x, w):
    padded = jnp.pad(x, ((1, 0), (0, 2)))
    return padded[1:, :3], jnp.concatenate([x, x[::2]]), w.T.reshape(-1), x[None, :, 0], jnp.split(x, 2)


def update(x, w):
    return x.at[1].set(2.0), lax.dynamic_update_slice(x, x[:1] * 2, (2, 0)), x[jnp.argmax(w, axis=0)[:2]], jnp.sort(x)


def cast(x, w):
    half = x.astype(jnp.bfloat16)
    return (half @ w.astype(jnp.bfloat16)).astype(jnp.float32), (x > 0).astype(jnp.int32) // 2, jnp.arange(4) - 3


def contract(x, w):
    return jnp.einsum("ij,kj->ik", x, w.T), jax.vmap(jnp.dot)(x, x), jnp.cumsum(x, axis=1)


def loop(x, w):
    def step(carry, row):
        total, count = carry
        return (total + row * x[0], count + 1), (row @ w, count)

    (total, count), (rows, counts) = lax.scan(step, (jnp.zeros(4), 0), x)
    return (
        total,
        count,
        rows,
        counts,
        lax.fori_loop(0, 3, lambda i, y: y * 0.5 + i, x),
        lax.scan(lambda c, _: (c, c), 1.0, None, 2),
    )


def branch(x, w):
    return lax.cond(x.sum() > 0, lambda: x + 1, lambda: x - 1), lax.cond(
        x.sum() > 1e9, lambda y: y @ w, lambda y: y @ w * 2, x
    )


def derive(x, w):
    @jax.custom_vjp
    def act(y):
        return jnp.tanh(y)

    act.defvjp(lambda y: (jnp.tanh(y), y), lambda y, g: (g * jnp.cos(y),))
    return jax.grad(jax.checkpoint(lambda u: act(u @ w).sum()))(x), lax.optimization_barrier((x, w))


@pytest.mark.parametrize("function", [gate, move, update, cast, contract, loop, branch, derive])
def test_the_printed_program_computes_the_same(function):
    random = np.random.default_rng(0)
    x, w = (jnp.asarray(random.standard_normal((4, 4)), jnp.float32) for _ in range(2))
    program = read_program(function, x, w)
    assert not [one.primitive for one in iterate_equations(program.body) if one.kind is Kind.UNPRINTABLE]
    for got, wanted in zip(
        jax.tree.leaves(run_text(program, x, w)), jax.tree.leaves(jax.jit(function)(x, w)), strict=True
    ):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
        assert got.dtype == wanted.dtype


def test_an_operation_in_each_line_and_short_expressions_inline():
    program = read_program(lambda x, w: (x.T @ w) * 2.0, jnp.ones((2, 3)), jnp.ones((2, 3)))
    lines = ("def program(x0, x1):", "    t0 = x0.T @ x1", "    t1 = t0 * 2.0", "    return t1")
    assert print_function(program) == lines
