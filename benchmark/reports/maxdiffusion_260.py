"""A model runs out of memory from JAX 0.7.2 on."""

from benchmark.report import Kind, Report

REPORT = Report(
    link="https://github.com/AI-Hypercomputer/maxdiffusion/issues/260",
    year=2025,
    versions="jax 0.7.2 and later",
    kind=Kind.MEMORY_DRIFT,
    reported="a diffusion model that fits with JAX 0.7.1 does not fit any more",
    unreachable=(
        "the report has no program smaller than the model; openxla/xla#45912 is a cause that came with the same version"
    ),
)
