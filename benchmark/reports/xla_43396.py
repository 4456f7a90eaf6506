"""The offset of an update slice is kept beside the HLO, as a start and a stride, and unrolling a loop did not adapt it.

The right answer: the offset that the HLO computes. Today's XLA writes right ones, so no program of ours is wrong.
"""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/openxla/xla/pull/43396",
    year=2026,
    versions="XLA of May 2026",
    kind=Kind.OUT_OF_REACH,
    reported="after a loop is peeled or unrolled, update slices write at the offsets of the loop before",
    unreachable="the offset is in a backend configuration that ligerdiag does not compare with the HLO; mended since",
)
