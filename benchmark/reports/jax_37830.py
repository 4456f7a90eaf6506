"""device_put shares the memory of a writeable NumPy array, which the caller changes afterwards.

The right answer: the contents at the time of the call. The host's code does it, outside of any program.
"""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/jax-ml/jax/issues/37830",
    year=2026,
    versions="jax 0.10, CPU",
    kind=Kind.OUT_OF_REACH,
    reported="a JAX array changes with the NumPy array that it was made from",
    unreachable="the write is in Python code of the host, outside of any compiled program",
)
