"""An update with a shifted slice of the same array reads elements that it has already written."""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/jax-ml/jax/issues/7461",
    year=2021,
    versions="jaxlib 0.1.69, CPU",
    kind=Kind.MISCOMPILE,
    reported="under jit on the CPU an update by a shifted slice of the same array gives running sums",
    unreachable=(
        "the mistake is in the code that XLA:CPU emits for one fusion; on a GPU, says the thread, the program is right"
    ),
)
