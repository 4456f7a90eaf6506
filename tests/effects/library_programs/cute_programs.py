"""CuTe DSL (package `nvidia-cutlass-dsl`): the payload is an object file, whose machine code ligerdiag does not read."""

from typing import Any

import jax
from cuda.bindings.driver import CUstream
from cutlass import cute
from cutlass.jax import cutlass_call

from ligerdiag.model.case import Arg, Case
from tests.effects.library_programs import plain

THREADS = 16


@cute.kernel
def add_and_double_kernel(a: cute.Tensor, out: cute.Tensor) -> None:
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    place = block * THREADS + thread
    value = a[place]
    out[place] = value + 1.0
    a[place] = value * 2.0


@cute.jit
def add_and_double(stream: CUstream, a: cute.Tensor, out: cute.Tensor) -> None:
    add_and_double_kernel(a, out).launch(grid=[4, 1, 1], block=[THREADS, 1, 1], stream=stream)


@cute.kernel
def double_kernel(a: cute.Tensor) -> None:
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    place = block * THREADS + thread
    a[place] = a[place] * 2.0


@cute.jit
def double(stream: CUstream, a: cute.Tensor) -> None:
    double_kernel(a).launch(grid=[4, 1, 1], block=[THREADS, 1, 1], stream=stream)


@cute.jit
def both(stream: CUstream, a: cute.Tensor, out: cute.Tensor) -> None:
    add_and_double_kernel(a, out).launch(grid=[4, 1, 1], block=[THREADS, 1, 1], stream=stream)
    double_kernel(out).launch(grid=[4, 1, 1], block=[THREADS, 1, 1], stream=stream)


def hidden(x: Any) -> Any:
    h = x * 3
    shape = jax.ShapeDtypeStruct(h.shape, h.dtype)
    return {"out": cutlass_call(add_and_double, output_shape_dtype=shape)(h), "sum": h + 1}


def declared(x: Any) -> Any:
    h = x * 3
    shape = jax.ShapeDtypeStruct(h.shape, h.dtype)
    doubled = cutlass_call(double, output_shape_dtype=shape, input_output_aliases={0: 0})(h)
    return {"doubled": doubled, "sum": h + 1}


def declared_both(x: Any) -> Any:
    h = x * 3
    shape = jax.ShapeDtypeStruct(h.shape, h.dtype)
    call = cutlass_call(add_and_double, output_shape_dtype=(shape, shape), input_output_aliases={0: 0})
    doubled, out = call(h)
    return {"out": out, "doubled": doubled, "sum": h + 1}


def two_kernels(x: Any) -> Any:
    h = x * 3
    shape = jax.ShapeDtypeStruct(h.shape, h.dtype)
    return {"out": cutlass_call(both, output_shape_dtype=shape, use_static_tensors=True)(h), "sum": h + 1}


VECTOR = Arg(shape=(64,))
CASES = (
    Case(name="hidden", function=hidden, args=(VECTOR,), expected={"*": "unknown"}),
    Case(
        name="told",
        function=hidden,
        args=(VECTOR,),
        effects={"add_and_double_kernel": {"writes": [0]}},
        reference=plain.hidden,
        expected={"sum": "stale", "*": "fresh"},
    ),
    Case(name="declared", function=declared, args=(VECTOR,), reference=plain.doubled, expected="fresh"),
    Case(name="declared_both", function=declared_both, args=(VECTOR,), reference=plain.declared, expected="fresh"),
    Case(name="two_kernels", function=two_kernels, args=(VECTOR,), expected={"*": "unknown"}),
)
