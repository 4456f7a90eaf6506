"""A program overwrites what some of its own threads have not read yet."""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/triton-lang/triton/issues/1615",
    year=2023,
    versions="triton 2.1",
    kind=Kind.STALE,
    reported="a load that several warps share may happen after the store that overwrites it",
    unreachable="the threads of one program are not modelled: in the kernel's IR the load precedes the store",
)
