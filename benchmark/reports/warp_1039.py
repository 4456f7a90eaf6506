"""A CUDA graph is captured with the addresses of its first call; later calls pass others.

The right answer: each call works on its own buffers.
"""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/NVIDIA/warp/issues/1039",
    year=2025,
    versions="warp 1.9",
    kind=Kind.OUT_OF_REACH,
    reported="a captured graph keeps the addresses of buffers that JAX has moved",
    unreachable="addresses in a graph that a library captures at run time",
)
