"""A grouped product of cuDNN is wrong unless its offsets are multiples of 64."""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/marin-community/marin/issues/8339",
    year=2026,
    versions="cuDNN, GB200",
    kind=Kind.OUT_OF_REACH,
    reported="the grouped gradient of the weights in cuDNN is silently wrong for unaligned offsets",
    unreachable="the mistake is in cuDNN, whose kernels have no IR to read",
)
