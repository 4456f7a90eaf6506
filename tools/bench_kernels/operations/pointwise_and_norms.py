"""Benchmarks norms, gated units and the rotary embedding of bf16 rows, forward, and forward and backward, against XLA's
code for jnp.

The modes are `out_of_place`: the arguments of a program belong to the caller, and XLA would copy them before a declared
write. The bytes are those of the large arrays; each pass reads or writes each of them once.
"""

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from tools.bench_kernels.record import Benchmark, Cost, Size, Way

_SIZES = (Size(16384, 4096), Size(16384, 11008))
_HEAD = 128
_REPEATS = 4


class _Operation(NamedTuple):
    """One operation.

    draws: a letter for each argument. differentiated: the number of differentiated arguments. forward, backward: large
    arrays moved.
    """

    draws: str
    differentiated: int
    forward: int
    backward: int


_OPERATIONS = {
    "rms_norm": _Operation("xw", 2, 2, 3),
    "layer_norm": _Operation("xww", 3, 2, 3),
    "swiglu": _Operation("xx", 2, 3, 5),
    "geglu": _Operation("xx", 2, 3, 5),
    "rope": _Operation("hhcs", 2, 4, 4),
}
"""x: rows; w: one number per column; h: rows as heads; c, s: cosines and sines of their angles."""


def _find(name: str, way: str) -> Callable[..., Any]:
    function = getattr(importlib.import_module(f"kernels.{name}.{way}"), name)
    return partial(function, mode="out_of_place") if way == "api" else function


def _draw(name: str, size: Size) -> tuple[Any, ...]:
    import jax
    import jax.numpy as jnp

    from kernels.rope.reference import compute_angles

    cosines, sines = compute_angles(size.tokens, _HEAD)
    heads = (size.tokens, size.width // _HEAD, _HEAD)
    shapes = {"x": size[:2], "w": size[1:2], "h": heads}
    arrays: list[Any] = []
    for number, kind in enumerate(_OPERATIONS[name].draws):
        key = jax.random.key(number)
        arrays.append(
            {"c": cosines, "s": sines}[kind] if kind in "cs" else jax.random.normal(key, shapes[kind], jnp.bfloat16)
        )
    return tuple(arrays)


def _draw_with_cotangents(name: str, size: Size) -> tuple[Any, ...]:
    import jax
    import jax.numpy as jnp

    arrays = _draw(name, size)
    outputs = arrays[:2] if name == "rope" else arrays[:1]
    cotangents = [
        jax.random.normal(jax.random.key(9 + i), output.shape, jnp.bfloat16) for i, output in enumerate(outputs)
    ]
    return (tuple(cotangents) if name == "rope" else cotangents[0], *arrays)


def _make(name: str, way: str, _: Size) -> Callable[..., Any]:
    return _find(name, way)


def _make_both(name: str, way: str, _: Size, *, apart: bool = False) -> Callable[..., Any]:
    """Returns forward and backward pass. apart: the cotangent comes after the outputs, as in a model with other layers
    between.
    """
    import jax

    function, count = _find(name, way), _OPERATIONS[name].differentiated

    def compute(cotangent: Any, *arrays: Any) -> Any:
        outputs, pull = jax.vjp(lambda *given: function(*given, *arrays[count:]), *arrays[:count])
        if apart:
            outputs, cotangent = jax.lax.optimization_barrier((outputs, cotangent))
        return outputs, pull(cotangent)

    return compute


def _move(times: int, size: Size) -> Cost:
    return Cost(0, 2 * times * size.tokens * size.width)


def _describe(name: str) -> tuple[Benchmark, ...]:
    operation = _OPERATIONS[name]
    ways = (("ours", "api"), ("XLA alone", "reference"))
    forward, both = (partial(_move, n) for n in (operation.forward, operation.forward + operation.backward))
    return (
        Benchmark(
            name=f"{name}_forward",
            title=f"{name}, forward; floor: {operation.forward} arrays",
            sizes=_SIZES,
            repeats=_REPEATS,
            draw=partial(_draw, name),
            ways=tuple(Way(name=label, make=partial(_make, name, way), cost=forward) for label, way in ways),
        ),
        Benchmark(
            name=name,
            title=f"{name}, forward and backward; floor: {operation.forward} and {operation.backward} arrays",
            sizes=_SIZES,
            repeats=_REPEATS,
            draw=partial(_draw_with_cotangents, name),
            ways=tuple(Way(name=label, make=partial(_make_both, name, way), cost=both) for label, way in ways),
        ),
        Benchmark(
            name=f"{name}_apart",
            title=f"{name}, forward and then backward; floor: {operation.forward} and {operation.backward} arrays",
            sizes=_SIZES,
            repeats=_REPEATS,
            draw=partial(_draw_with_cotangents, name),
            ways=tuple(
                Way(name=label, make=partial(_make_both, name, way, apart=True), cost=both) for label, way in ways
            ),
        ),
    )


BENCHMARKS = tuple(benchmark for name in _OPERATIONS for benchmark in _describe(name))
