"""Computes floors from the highest measured rates of a GPU, not from a data sheet."""

from typing import NamedTuple

from tools.bench_kernels.record import Cost


class Rates(NamedTuple):
    """The rates of a GPU.

    bandwidth: bytes per second, read plus written, of a large copy. flops: operations per second of a large bf16
    product.
    """

    bandwidth: float
    flops: float


_BY_GPU = {
    "NVIDIA H200": Rates(4.3e12, 790e12),
    "NVIDIA H100 80GB HBM3": Rates(3.0e12, 798e12),
}


def compute_floor(cost: Cost, gpu: str) -> float:
    """Returns milliseconds for products and traffic one after the other; 0 for a GPU with unknown rates."""
    rates = _BY_GPU.get(gpu)
    return 0.0 if rates is None else 1e3 * (cost.flops / rates.flops + cost.bytes / rates.bandwidth)
