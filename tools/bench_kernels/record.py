"""Benchmarks: each is an operation at some sizes, computed in several ways. Imports no framework."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple


class Size(NamedTuple):
    """tokens: rows; width: columns, a vocabulary or a hidden dimension; embedding: what a product contracts, or 0."""

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

    name: as it stands in the table. make: returns, for a size, a function of the drawn arrays; called where the framework
    can be imported. cost: of a size. overwrites: the number of the argument that it overwrites, or None; it is donated,
    and the function's last result takes its place in the next call. torch: computed by PyTorch on torch tensors.
    """

    name: str
    make: Callable[[Size], Callable[..., Any]]
    cost: Callable[[Size], Cost]
    overwrites: int | None = None
    torch: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """milliseconds: median and least of a call; memory: temporary bytes, None where `trouble` says why there are none.

    floor: milliseconds that `Way.cost` takes at the rates of the GPU. JAX's temporaries are XLA's own figure; PyTorch's
    are the peak of its allocator above what was there before.
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
    """name: for the command line; title: a line for people; draw: the arguments for a size, as JAX arrays.

    repeats: how often a program of JAX computes it, one after the other; what is measured is divided by it, and no way
    overwrites an argument then. Between two programs the GPU idles for some 5 us, as much as a short operation's aim is
    worth.
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
