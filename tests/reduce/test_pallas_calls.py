"""Calls of Pallas are printed from their kernels' source so that tracing the text gives the same calls again."""

import re
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import triton as pltriton

from ligerdiag.reduce.jaxpr_reader import JaxprReader, iterate_operations
from ligerdiag.reduce.pallas_call_text import PallasCalls
from ligerdiag.reduce.program_text import print_function, print_head
from ligerdiag.reduce.reduced_program import Kind, Program, ReducedArgument, iterate_equations

ROWS = 2
MATRIX = jax.ShapeDtypeStruct((4, 64), jnp.float32)
VECTOR = jax.ShapeDtypeStruct((256,), jnp.float32)


def scale_rows(x_ref, factor_ref, sum_ref, *, power):
    x = x_ref[...]
    sum_ref[0] = x.sum() * factor_ref[0] ** power
    x_ref[...] = x * ROWS


def by_rows(x, y):
    width = x.shape[1]
    row = pl.BlockSpec((None, width), lambda i: (i // ROWS * ROWS + i % 2, 0))
    number = pl.BlockSpec((1,), lambda i: (i,))
    return pl.pallas_call(
        partial(scale_rows, power=3),
        grid=(4,),
        in_specs=[row, pl.BlockSpec((1,), lambda i: (0,))],
        out_specs=[number],
        out_shape=[jax.ShapeDtypeStruct((4,), x.dtype)],
        compiler_params=pltriton.CompilerParams(num_warps=2),
        name="rows",
    )(x, y[0, :4])


def put_in_place(write):
    def double_in_place(values_ref, doubled_ref, *scratch):
        write(values_ref, doubled_ref, values_ref, *scratch)

    return double_in_place


def copy_through_shared(values_ref, doubled_ref, contents_ref, shared, barrier):
    plgpu.copy_gmem_to_smem(values_ref, shared, barrier)
    plgpu.barrier_wait(barrier)
    plgpu.copy_smem_to_gmem(shared, doubled_ref)
    plgpu.copy_smem_to_gmem(shared, contents_ref)
    plgpu.wait_smem_to_gmem(0)


class Option:
    """No Python form: the kernel is printed from its jaxpr."""

    factor = 2.0


def by_jaxpr(x, y):
    def scale(x_ref, y_ref, out_ref, *, option):
        row = pl.program_id(0)
        out_ref[row] = jnp.exp(x_ref[row]) * option.factor + y_ref[0, :].sum()
        x_ref[row, 2:4] = jnp.maximum(y_ref[row, :2], 0.5)

    call = pl.pallas_call(partial(scale, option=Option()), out_shape=MATRIX, grid=(4,))
    return call(x, y)


def by_mosaic(x, y):
    scratch = [plgpu.SMEM(x.shape, x.dtype), plgpu.Barrier()]
    call = plgpu.kernel(out_type=MATRIX, scratch_types=scratch)(put_in_place(copy_through_shared))
    return call(x) + y


def by_dict(x, y):
    def double(pair, out):
        out["a"][...] = 2 * pair[0][...]
        out["b"][...] = 2 * pair[1][...]

    made = pl.pallas_call(double, {"a": MATRIX, "b": MATRIX}, input_output_aliases={0: 0})((x, y))
    return made["b"] - made["a"]


def trace(function) -> tuple[Any, JaxprReader]:
    reader = JaxprReader(pallas=PallasCalls())
    with reader.pallas.record():
        return jax.jit(function, keep_unused=True).trace(MATRIX, MATRIX).jaxpr, reader


def describe_calls(closed) -> list[str]:
    found = []
    for eqn in iterate_operations(closed):
        if eqn.primitive.name in ("pallas_call", "mpmd_map"):
            said = {name: str(value) for name, value in eqn.params.items()}
            found.append(str([eqn.primitive.name, said]))
    return [re.sub(r" at 0x\w+", "", one) for one in found]


def read(function) -> tuple[Program, list[str]]:
    closed, reader = trace(function)
    body = reader.read(closed, ["x", "y"])
    program = Program(
        name="program",
        body=body,
        arguments=(ReducedArgument(),) * 2,
        outputs=("0",),
        definitions=reader.definitions,
        imports=tuple(reader.imports),
    )
    return program, describe_calls(closed)


@pytest.mark.parametrize("function", [by_rows, by_jaxpr, by_mosaic, by_dict])
def test_a_printed_call_is_the_same_call(function):
    program, original = read(function)
    text = print_head(program) + "\n" + "\n".join(print_function(program))
    scope: dict[str, Any] = {"np": np}
    exec(text, scope)
    again, _ = trace(scope["program"])
    assert len(original) == 1
    assert describe_calls(again) == original, text
    assert "tests." not in text


def test_a_call_whose_argument_has_no_python_form_says_so():
    def call(x, y):
        def double(pair, out_ref, *, option):
            out_ref[...] = 2 * pair[0][...]

        return pl.pallas_call(partial(double, option=Option()), out_shape=MATRIX)((x, y))

    program, _ = read(call)
    missing = [one for one in iterate_equations(program.body) if one.kind is Kind.UNPRINTABLE]
    assert [one.reason for one in missing] == ["has a parameter of type `Option`, which has no Python form"]
    assert missing[0].kernel == "double"


def test_a_call_that_jax_batches_is_not_printed_as_it_was():
    def call(x, y):
        return jax.vmap(pl.pallas_call(lambda a, b: None, out_shape=VECTOR))(x), y

    program, _ = read(call)
    assert [one.kind for one in iterate_equations(program.body)] == [Kind.UNPRINTABLE]
