"""The compiler aborts for a call with two aliased results of which one is used.

The right answer: a compiled program. It compiles today.
"""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/openxla/xla/issues/21312",
    year=2025,
    versions="XLA of January 2025",
    kind=Kind.OUT_OF_REACH,
    reported="a custom call whose results alias its operands ends in an assertion of the compiler",
    unreachable="XLA refused the program with an assertion, and takes it today; no value was wrong",
)
