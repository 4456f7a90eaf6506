"""A grouped product gets arrays of pointers, which the host has asked for by unsafe_buffer_pointer.

The right answer: operands of the call. JAX may free or move the arrays in between.
"""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/NVIDIA/cudnn-frontend/pull/555",
    year=2026,
    versions="cudnn-frontend 1.19",
    kind=Kind.OUT_OF_REACH,
    reported="addresses of JAX arrays are stored in another array and read by a later kernel",
    unreachable="addresses are taken by the host, outside of any compiled program",
)
