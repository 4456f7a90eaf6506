"""Measures the JAX implementations, in a process of its own: JAX takes most of the GPU's memory."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax

from tools.bench_kernels.rates import compute_floor
from tools.bench_kernels.record import Benchmark, Measurement, Size, Way
from tools.bench_kernels.timing import time_calls


class _Ready(NamedTuple):
    """A compiled implementation. call: queues one execution; memory: temporary bytes."""

    call: Callable[[], Any]
    memory: int


def measure(benchmark: Benchmark, size: Size) -> Iterator[Measurement]:
    """Yields a measurement for each JAX implementation, or the reason why it does not run."""
    arguments = benchmark.draw(size)
    ready: dict[str, _Ready] = {}
    ways = {way.name: way for way in benchmark.ways if not way.torch}
    for name, way in ways.items():
        try:
            ready[name] = _prepare(way, size, list(arguments), benchmark.repeats)
        except Exception as error:
            yield benchmark.fail(name, size, error)
    timings = time_calls({name: one.call for name, one in ready.items()}, jax.block_until_ready)
    for name, timing in timings.items():
        yield Measurement(
            benchmark=benchmark.name,
            way=name,
            size=size,
            median=timing.median / benchmark.repeats,
            least=timing.least / benchmark.repeats,
            memory=ready[name].memory,
            floor=compute_floor(ways[name].cost(size), jax.devices()[0].device_kind),
        )


def _prepare(way: Way, size: Size, arguments: list[Any], repeats: int) -> _Ready:
    """Compiles the implementation, and calls it once."""
    donated = () if way.overwrites is None else (way.overwrites,)
    function = way.make(size) if repeats == 1 else partial(_repeat, way.make(size), repeats)
    compiled = jax.jit(function, donate_argnums=donated).lower(*arguments).compile()
    for number in donated:
        arguments[number] = arguments[number].copy()

    def call() -> Any:
        results = compiled(*arguments)
        if way.overwrites is not None:
            arguments[way.overwrites] = results[-1]
        return results

    jax.block_until_ready(call())
    memory = compiled.memory_analysis()
    return _Ready(call, memory.temp_size_in_bytes if memory is not None else 0)


def _repeat(function: Callable[..., Any], times: int, *arguments: Any) -> list[Any]:
    """Computes it again and again, each time after the last; XLA sees other arguments each time."""
    results: list[Any] = []
    for _ in range(times):
        outcome, arguments = jax.lax.optimization_barrier((function(*arguments), arguments))
        results.append(outcome)
    return results
