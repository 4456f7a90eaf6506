"""Gluon, the lower level of Triton, through jax-triton 0.4 and a Triton from 3.8 on: the payload is IR with layouts."""

from typing import Any

import jax
import jax_triton as jt
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from ligerdiag.model.case import Arg, Case
from tests.effects.library_programs import plain

BLOCK = 16


@gluon.jit
def add_and_double(a, out, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, order=[0])
    place = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=layout)
    kept = gl.allocate_shared_memory(gl.float32, [BLOCK], shared)
    kept.store(gl.load(a + place))
    gl.store(out + place, kept.load(layout) + 1.0)
    gl.store(a + place, kept.load(layout) * 2.0)


@gluon.jit
def double(a, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    place = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=layout)
    gl.store(a + place, gl.load(a + place) * 2.0)


def hidden(x: Any) -> Any:
    h = x * 3
    out = jt.triton_call(
        h, kernel=add_and_double, out_shape=jax.ShapeDtypeStruct(h.shape, h.dtype), grid=(4,), BLOCK=BLOCK
    )
    return {"out": out, "sum": h + 1}


def declared(x: Any) -> Any:
    h = x * 3
    ref = jax.new_ref(h)
    jt.triton_call(ref, kernel=double, out_shape=(), grid=(4,), BLOCK=BLOCK)
    return {"doubled": ref[...], "sum": h + 1}


def declared_both(x: Any) -> Any:
    h = x * 3
    ref = jax.new_ref(h)
    out = jt.triton_call(
        ref, kernel=add_and_double, out_shape=jax.ShapeDtypeStruct(h.shape, h.dtype), grid=(4,), BLOCK=BLOCK
    )
    return {"out": out, "doubled": ref[...], "sum": h + 1}


VECTOR = Arg(shape=(64,))
CASES = (
    Case(
        name="hidden",
        function=hidden,
        args=(VECTOR,),
        reference=plain.hidden,
        expected={"sum": "stale", "*": "fresh"},
    ),
    Case(name="declared", function=declared, args=(VECTOR,), reference=plain.doubled, expected="fresh"),
    Case(name="declared_both", function=declared_both, args=(VECTOR,), reference=plain.declared, expected="fresh"),
)
