"""A schedule of a kernel's loop lets loads of shared memory overtake the stores of the next block.

The right answer: the block of this iteration.
"""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/triton-lang/triton/issues/11696",
    year=2026,
    versions="triton, gfx942",
    kind=Kind.OUT_OF_REACH,
    reported="a pipelined product on an AMD GPU reads shared memory that is one block old",
    unreachable="shared memory inside of one kernel, after Triton's IR",
)
