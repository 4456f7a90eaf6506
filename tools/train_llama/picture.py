"""Draws the curves of several runs (SVG): loss, and norm of the gradient, by step; a colour for each mode."""

import math
from collections.abc import Callable, Sequence
from html import escape

from tools.train_llama.record import PLAIN, Run

_WIDTH, _HEIGHT, _LEFT, _GAP = 900, 260, 60, 50
_COLOURS = {
    PLAIN: "#222222",
    "hidden": "#d62728",
    "trivial": "#ff7f0e",
    "barrier": "#bcbd22",
    "aliased": "#1f77b4",
    "out_of_place": "#9467bd",
    "shard_map": "#2ca02c",
}


def render_picture(runs: Sequence[Run]) -> str:
    """Returns an SVG document."""
    modes = list(dict.fromkeys(run.mode for run in runs))
    legend = [
        f'<text x="{_LEFT + 110 * number}" y="18" fill="{_COLOURS[mode]}">{escape(mode)}</text>'
        for number, mode in enumerate(modes)
    ]
    parts = [
        *legend,
        *_render_panel(runs, lambda run: run.losses, "loss", 30, logarithmic=False),
        *_render_panel(runs, lambda run: run.norms, "norm of the gradient", 30 + _HEIGHT + _GAP, logarithmic=True),
    ]
    size = f'width="{_WIDTH}" height="{2 * (_HEIGHT + _GAP) + 20}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>", ""])


def _render_panel(
    runs: Sequence[Run], read: Callable[[Run], Sequence[float]], title: str, top: int, *, logarithmic: bool
) -> list[str]:
    def scale(value: float) -> float:
        return math.log10(value) if logarithmic else value

    def is_shown(value: float) -> bool:
        return math.isfinite(value) and (value > 0 or not logarithmic)

    shown = [scale(value) for run in runs for value in read(run) if is_shown(value)]
    low, high = (min(shown), max(shown)) if shown else (0.0, 1.0)
    span = (high - low) or 1.0
    steps = max([len(read(run)) for run in runs], default=1)
    parts = [
        f'<text x="{_LEFT}" y="{top + 14}" font-weight="bold">{escape(title)}</text>',
        f'<rect x="{_LEFT}" y="{top + 20}" width="{_WIDTH - _LEFT - 20}" height="{_HEIGHT - 20}" '
        'fill="none" stroke="#bbb"/>',
        f'<text x="{_WIDTH - 20}" y="{top + _HEIGHT + 16}" text-anchor="end">step {steps}</text>',
    ]
    for value, y in ((high, top + 30), (low, top + _HEIGHT)):
        figure = 10**value if logarithmic else value
        parts.append(f'<text x="{_LEFT - 6}" y="{y}" text-anchor="end">{figure:.3g}</text>')
    for run in runs:
        points = " ".join(
            f"{_LEFT + (_WIDTH - _LEFT - 20) * number / max(steps - 1, 1):.1f},"
            f"{top + _HEIGHT - (_HEIGHT - 20) * (scale(value) - low) / span:.1f}"
            for number, value in enumerate(read(run))
            if is_shown(value)
        )
        parts.append(
            f'<polyline fill="none" stroke="{_COLOURS[run.mode]}" stroke-opacity="0.8" points="{points}">'
            f"<title>{escape(run.name)}</title></polyline>"
        )
    return parts
