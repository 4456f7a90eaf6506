"""The search finds the smallest program for which a property of the program itself holds."""

import re
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
from jax import lax

from ligerdiag.reduce.delta_debugging import Reduction
from ligerdiag.reduce.edits import (
    keep_outputs,
    merge_arguments,
    peel_output,
    remove_equations,
    resize,
    run_once,
    shorten_loop,
)
from ligerdiag.reduce.program_text import print_function
from ligerdiag.reduce.reduced_program import Kind, compute_size, iterate_equations
from tests.reduce.test_printing import read_program, run_text


def many(x, w):
    a = jnp.tanh(x @ w)
    b = jnp.sin(a) + jnp.cos(x)
    c = jnp.exp(b * 2.0) @ w
    return a.sum(), b, c - 1.0


def looped(x, w):
    def step(carry, row):
        kept, unused = carry
        return (jnp.sin(kept) @ w, unused + 1.0), row * kept

    (kept, _), rows = lax.scan(step, (x, x), x)
    return kept, rows


ARRAYS = (jnp.full((4, 4), 0.5), jnp.full((4, 4), 0.25))


def reduce_while(function, holds):
    """Returns the smallest program of the function that the search finds while `holds` is true of its primitives."""
    asked = []

    def find_first(programs):
        for program in programs:
            asked.append("\n".join(print_function(program)))
            if holds([one.primitive for one in iterate_equations(program.body)]):
                run_text(
                    program, *(jnp.ones(one.type.shape, one.type.dtype) for one in program.body.parameters)
                )  # it can be traced
                return program
        return None

    reduction = Reduction(
        best=read_program(function, *ARRAYS),
        find_first=find_first,
        retrace=lambda sizes: [None for _ in sizes],
        report=lambda program, step: None,
    )
    reduction.run()
    return reduction.best, asked


def test_one_operation_is_left_if_one_matters():
    best, _ = reduce_while(many, lambda names: "exp" in names)
    assert [one.primitive for one in iterate_equations(best.body)] == ["exp"]
    assert len(best.body.parameters) == len(best.body.results) == 1


def test_two_operations_are_left_if_both_matter():
    best, _ = reduce_while(many, lambda names: {"tanh", "sin"} <= set(names))
    assert sorted(one.primitive for one in iterate_equations(best.body)) == ["sin", "tanh"]


def test_an_operation_leaves_its_loop():
    best, _ = reduce_while(looped, lambda names: "sin" in names)
    assert [one.primitive for one in iterate_equations(best.body)] == ["sin"]


def test_a_loop_that_matters_stays_with_its_body():
    best, _ = reduce_while(looped, lambda names: {"scan", "sin"} <= set(names))
    assert [one.primitive for one in iterate_equations(best.body)] == ["scan", "sin"]


def test_the_search_asks_about_the_same_programs_each_time():
    _, first = reduce_while(many, lambda names: "cos" in names)
    _, second = reduce_while(many, lambda names: "cos" in names)
    assert first == second


def test_outputs_are_dropped_with_all_that_only_they_need():
    program = keep_outputs(read_program(many, *ARRAYS), {0})
    assert [one.primitive for one in iterate_equations(program.body)] == ["dot_general", "tanh", "reduce_sum"]


def test_an_operand_takes_the_place_of_a_result():
    program = read_program(lambda x, w: jnp.sin(x @ w), *ARRAYS)
    (sine,) = [one for one in iterate_equations(program.body) if one.primitive == "sin"]
    smaller = remove_equations(program, {sine.results[0].name})
    assert print_function(smaller)[1:] == ("    t0 = x0 @ x1", "    return t0")


def test_a_new_argument_takes_the_place_of_a_result():
    program = read_program(lambda x, w: jnp.sin(x @ w), *ARRAYS)
    (product,) = [one for one in iterate_equations(program.body) if one.primitive == "dot_general"]
    smaller = remove_equations(program, {product.results[0].name}, by_operand=False)
    assert print_function(smaller) == ("def program(x1_):", "    t0 = jnp.sin(x1_)", "    return t0")


def test_a_loop_runs_once():
    program = read_program(looped, *ARRAYS)
    (loop,) = [one for one in iterate_equations(program.body) if one.kind is Kind.SCAN]
    once = run_once(program, loop.results[0].name)
    assert not [one for one in iterate_equations(once.body) if one.kind is Kind.SCAN]
    kept, rows = run_text(once, *ARRAYS)
    assert kept.shape == rows.shape[1:] == (4, 4)


def repeated(x, w):
    def step(number, y):
        return jnp.sin(y) * number

    def is_small(state):
        return state[0] < 90

    first = lax.fori_loop(0, 60, step, x)
    counted = lax.while_loop(is_small, lambda state: (state[0] + 1, state[1] @ w), (3, first))
    return counted[1], lax.scan(lambda carry, row: (carry + row, None), w[0], w)[0]


def test_loops_whose_number_of_iterations_is_written_run_less_often():
    best, _ = reduce_while(
        repeated, lambda names: sorted({"lt", "scan", "while"} & set(names)) == ["lt", "scan", "while"]
    )
    text = "\n".join(print_function(best))
    assert "length=2" in text
    assert "< 2" in text
    assert not re.search(r"\b(60|90)\b", text), text


def test_a_shortened_loop_computes_what_fewer_iterations_do():
    program = read_program(lambda x, w: lax.fori_loop(0, 60, lambda number, y: y @ w + number, x), *ARRAYS)
    (loop,) = [one for one in iterate_equations(program.body) if one.kind in (Kind.SCAN, Kind.WHILE)]
    shorter = shorten_loop(program, loop.label, 2)
    x, w = ARRAYS
    np.testing.assert_allclose(run_text(shorter, x, w), (x @ w) @ w + 1, rtol=1e-6)


def test_an_output_is_replaced_by_an_earlier_value_of_another_type():
    program = read_program(lambda x, w: (x @ w).sum(), *ARRAYS)
    (peeled,) = peel_output(program, 0)
    assert print_function(peeled)[1:] == ("    t0 = x0 @ x1", "    return t0")


def test_sizes_change_in_types_and_in_expressions():
    program = resize(read_program(lambda x, w: jnp.broadcast_to(x.reshape(16), (3, 16)), *ARRAYS), 4, 2)
    assert program.body.parameters[0].type.shape == (2, 2)
    assert "16" in "\n".join(print_function(program))


def test_a_size_that_a_kernel_gets_by_name_changes_with_the_array():
    program = read_program(lambda x, w: jnp.sum(x, axis=1), *ARRAYS)
    (equation,) = program.body.equations
    text = "jt.triton_call({0}, columns=4, kernel=kernel, grid=(4,), num_warps=4, BLOCK=4)"
    call = replace(equation, kind=Kind.KERNEL, text=text)
    resized = resize(replace(program, body=replace(program.body, equations=(call,))), 4, 2).body.equations[0]
    assert resized.text == "jt.triton_call({0}, columns=2, kernel=kernel, grid=(2,), num_warps=4, BLOCK=2)"
    assert resized.operands[0].type.shape == (2, 2)


def test_arguments_of_one_type_become_one():
    program = read_program(lambda x, w: x @ w, *ARRAYS)
    merged = merge_arguments(program, "x0", "x1")
    assert print_function(merged)[:2] == ("def program(x0):", "    t0 = x0 @ x0")
    assert compute_size(merged) < compute_size(program)
