"""Renders measurements as tables in Markdown, one for each benchmark."""

from collections.abc import Sequence

from tools.bench_kernels.record import Benchmark, Measurement

_MEBIBYTE = 2**20


def render_tables(benchmarks: Sequence[Benchmark], measurements: Sequence[Measurement]) -> str:
    """Returns a heading and a table for each measured benchmark, with a row for each size and way."""
    return "\n\n".join(
        _render(benchmark, found)
        for benchmark in benchmarks
        if (found := [one for one in measurements if one.benchmark == benchmark.name])
    )


def _render(benchmark: Benchmark, measurements: Sequence[Measurement]) -> str:
    lines = [
        f"### {benchmark.name}",
        "",
        f"{benchmark.title}.",
        "",
        "| size | way | ms (median) | least | floor | of the floor | of the first way | temporary MiB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for size in benchmark.sizes:
        of_size = [one for one in measurements if one.size == size]
        first = next((one.median for one in of_size if one.way == benchmark.ways[0].name), 0.0)
        lines += [_render_row(one, first) for one in of_size]
    return "\n".join(lines)


def _render_row(one: Measurement, first: float) -> str:
    cells = [str(one.size), one.way]
    if one.trouble:
        return f"| {' | '.join(cells)} | {one.trouble.replace('|', '/')} | | | | | |"
    cells += [f"{one.median:.3f}", f"{one.least:.3f}", f"{one.floor:.3f}"]
    cells += [f"{one.median / divisor:.3f}" if divisor else "" for divisor in (one.floor, first)]
    cells.append(f"{one.memory / _MEBIBYTE:,.1f}")
    return f"| {' | '.join(cells)} |"
