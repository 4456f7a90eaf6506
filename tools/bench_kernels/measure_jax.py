"""Measures the ways of JAX; runs in a process of its own, for JAX takes most of the GPU's memory."""

from collections.abc import Iterator
from typing import Any

import jax

from tools.bench_kernels.rates import compute_floor
from tools.bench_kernels.record import Benchmark, Measurement, Size, Way
from tools.bench_kernels.timing import time_calls


def measure(benchmark: Benchmark, size: Size) -> Iterator[Measurement]:
    """Yields a measurement for each way of JAX; one that does not run says why."""
    arguments = benchmark.draw(size)
    for way in benchmark.ways:
        if not way.torch:
            try:
                yield _measure_way(benchmark.name, way, size, list(arguments))
            except Exception as error:
                trouble = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
                yield Measurement(benchmark=benchmark.name, way=way.name, size=size, trouble=trouble)


def _measure_way(benchmark: str, way: Way, size: Size, arguments: list[Any]) -> Measurement:
    donated = () if way.overwrites is None else (way.overwrites,)
    compiled = jax.jit(way.make(size), donate_argnums=donated).lower(*arguments).compile()
    for number in donated:
        arguments[number] = arguments[number].copy()

    def call() -> Any:
        results = compiled(*arguments)
        if way.overwrites is not None:
            arguments[way.overwrites] = results[-1]
        return results

    memory = compiled.memory_analysis()
    timing = time_calls(call, jax.block_until_ready)
    return Measurement(
        benchmark=benchmark,
        way=way.name,
        size=size,
        median=timing.median,
        least=timing.least,
        memory=memory.temp_size_in_bytes if memory is not None else 0,
        floor=compute_floor(way.cost(size), jax.devices()[0].device_kind),
    )
