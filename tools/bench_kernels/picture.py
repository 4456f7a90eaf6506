"""Draws measurements (SVG): a bar of milliseconds for each implementation of a benchmark at a size, with the floor
marked.
"""

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby

from tools.bench_kernels.record import Benchmark, Measurement

_WIDTH, _LABEL, _BAR, _GAP = 900, 230, 16, 22
_SCALE = _WIDTH - _LABEL - 190
"""Pixels of the longest bar of a size; its figures are to the right of it."""
_COLOURS = {True: "#d98c3f", False: "#4c78a8"}
"""By whether PyTorch computes it."""


def render_picture(benchmarks: Sequence[Benchmark], measurements: Sequence[Measurement]) -> str:
    """Returns an SVG document."""
    parts: list[str] = []
    y = 10
    for benchmark in benchmarks:
        found = [one for one in measurements if one.benchmark == benchmark.name and not one.trouble]
        if found:
            parts.append(f'<text x="10" y="{y + 16}" font-weight="bold">{escape(benchmark.title)}</text>')
            y += 30
        torch = {way.name for way in benchmark.ways if way.torch}
        for size, group in groupby(
            sorted(found, key=lambda one: benchmark.sizes.index(one.size)), lambda one: one.size
        ):
            ones = list(group)
            parts.append(f'<text x="10" y="{y + 12}" fill="#555">{size}</text>')
            y += 20
            parts += _render_bars(ones, torch, y)
            y += _GAP * len(ones) + 8
    size = f'width="{_WIDTH}" height="{y + 10}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>", ""])


def _render_bars(ones: Sequence[Measurement], torch: set[str], y: int) -> Iterator[str]:
    longest = max(one.median for one in ones)
    for number, one in enumerate(ones):
        top = y + number * _GAP
        length = _SCALE * one.median / longest
        floor = _LABEL + _SCALE * one.floor / longest
        colour = _COLOURS[one.way in torch]
        yield f'<text x="{_LABEL - 8}" y="{top + 12}" text-anchor="end">{escape(one.way)}</text>'
        yield f'<rect x="{_LABEL}" y="{top}" width="{length:.1f}" height="{_BAR}" fill="{colour}"/>'
        if one.floor:
            yield f'<line x1="{floor:.1f}" x2="{floor:.1f}" y1="{top - 2}" y2="{top + _BAR + 2}" stroke="black"/>'
        figures = f"{one.median:.2f} ms, {one.memory / 2**20:,.0f} MiB"
        yield f'<text x="{_LABEL + length + 6:.1f}" y="{top + 12}">{figures}</text>'
