"""With the concurrent mode of command buffers, control dependences between operations have no edge in the graph.

The right answer: an edge for each. XLA has written them since then, and the mode is off by default.
"""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/openxla/xla/pull/27412",
    year=2025,
    versions="XLA of June 2025",
    kind=Kind.OUT_OF_REACH,
    reported="commands that run concurrently in a command buffer forget control dependences",
    unreachable="it needs a version of XLA and a flag that a case cannot choose",
)
