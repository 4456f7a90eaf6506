"""Finds the benchmarks: each module of `operations` has a tuple BENCHMARKS."""

import importlib
import pkgutil

from tools.bench_kernels import operations
from tools.bench_kernels.record import Benchmark


def load_benchmarks() -> dict[str, Benchmark]:
    """Returns all benchmarks by name, in the order of their modules' names."""
    names = sorted(module.name for module in pkgutil.iter_modules(operations.__path__))
    modules = [importlib.import_module(f"{operations.__name__}.{name}") for name in names]
    return {benchmark.name: benchmark for module in modules for benchmark in module.BENCHMARKS}
