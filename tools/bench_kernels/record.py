"""Defines benchmarks: each is an operation at some sizes, computed in several ways. Imports no framework."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple


class Size(NamedTuple):
    """A size of an operation.

    tokens: rows. width: columns, a vocabulary or a hidden dimension. embedding: the contracted dimension of a product,
    or 0.
    """

    tokens: int
    width: int
    embedding: int = 0

    def __str__(self) -> str:
        return " x ".join(str(number) for number in (self.tokens, self.width, self.embedding) if number)


class Cost(NamedTuple):
    """The cost that no implementation avoids: flops of matrix products in bf16, and bytes to and from the GPU's memory."""

    flops: float
    bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to compute the operation.

    name: as in the table. make: returns, for a size, a function of the drawn arrays; called in a process that can
    import the framework. cost: of a size. overwrites: the number of the argument that it overwrites, or None; that
    argument is donated, and the function's last result replaces it in the next call. torch: PyTorch computes it, on
    torch tensors.
    """

    name: str
    make: Callable[[Size], Callable[..., Any]]
    cost: Callable[[Size], Cost]
    overwrites: int | None = None
    torch: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The result for one way of a benchmark at one size.

    milliseconds: median and least of a call. memory: temporary bytes, None if `trouble` says why there are none. floor:
    milliseconds that `Way.cost` takes at the rates of the GPU. JAX's temporaries are XLA's own figure; PyTorch's are
    the peak of its allocator above its level before the call.
    """

    benchmark: str
    way: str
    size: Size
    median: float = 0.0
    least: float = 0.0
    memory: int = 0
    floor: float = 0.0
    trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """One benchmark.

    name: for the command line. title: a line for people. draw: the arguments for a size, as JAX arrays. repeats: how
    often a JAX program computes the operation, one after the other; the measured time is divided by it, and no way may
    then overwrite an argument. Between two programs the GPU idles for some 5 us, which is as long as a short operation.
    """

    name: str
    title: str
    sizes: tuple[Size, ...]
    draw: Callable[[Size], tuple[Any, ...]]
    ways: tuple[Way, ...]
    repeats: int = 1

    def fail(self, way: str, size: Size, error: Exception) -> Measurement:
        """Returns the measurement of a way that raised."""
        trouble = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"
        return Measurement(benchmark=self.name, way=way, size=size, trouble=trouble)
