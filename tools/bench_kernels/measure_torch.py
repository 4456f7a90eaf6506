"""Measures the PyTorch implementations, in a process of its own. The `make` of each imports what it needs."""

from collections.abc import Iterator

from tools.bench_kernels.rates import compute_floor
from tools.bench_kernels.record import Benchmark, Measurement, Size, Way
from tools.bench_kernels.timing import time_calls


def measure(benchmark: Benchmark, size: Size) -> Iterator[Measurement]:
    """Yields a measurement for each PyTorch implementation, or the reason why it does not run or is not installed."""
    for way in benchmark.ways:
        if way.torch:
            try:
                yield _measure_way(benchmark.name, way, size)
            except Exception as error:
                yield benchmark.fail(way.name, size, error)


def _measure_way(benchmark: str, way: Way, size: Size) -> Measurement:
    import torch  # pyright: ignore[reportMissingImports]

    call = way.make(size)
    call()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    call()
    torch.cuda.synchronize()
    memory = torch.cuda.max_memory_allocated() - before
    timing = time_calls({way.name: call}, lambda _: torch.cuda.synchronize())[way.name]
    return Measurement(
        benchmark=benchmark,
        way=way.name,
        size=size,
        median=timing.median,
        least=timing.least,
        memory=memory,
        floor=compute_floor(way.cost(size), torch.cuda.get_device_name()),
    )
