"""Trains a Llama on synthetic data, once with the loss in each mode, on the GPUs here: `python -m tools.train_llama`.

    uv run --extra gpu python -m tools.train_llama --layout fsdp --size 100M --steps 300

Writes FOLDER/curves.json, with the loss and the norm of the gradient at each step, FOLDER/curves.svg, a picture of
them, and FOLDER/curves.md: how far each mode is from plain JAX, compared with how far the seeds of plain JAX are from
each other. Runs that curves.json has already are not repeated; Ctrl-C keeps the results so far. A mode changes only the
loss.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from kernels.llama.config import CONFIGS
from kernels.llama.grid import MODES
from kernels.llama.layout import LAYOUTS
from tools.train_llama.picture import render_picture
from tools.train_llama.record import PLAIN, Run, read_runs, write_runs

LAST = 20
"""Number of last steps whose mean loss is compared."""


def main() -> int:
    """Returns the exit code: 130 after Ctrl-C, else 0."""
    parser = argparse.ArgumentParser(prog="python -m tools.train_llama", description=__doc__.splitlines()[0])
    parser.add_argument("--modes", nargs="+", choices=(PLAIN, *MODES), metavar="MODE", default=[PLAIN, *MODES])
    parser.add_argument("--size", choices=CONFIGS, default="100M")
    parser.add_argument("--layout", choices=LAYOUTS, default="fsdp")
    parser.add_argument("--devices", type=int, default=0, help="how many of the GPUs here; by default all")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=3, help="runs of plain JAX, whose differences are the noise")
    parser.add_argument("--sequences", type=int, default=4, help="for each device of the axis `data`")
    parser.add_argument(
        "--context", type=int, default=0, help="tokens of a sequence; by default as many as the size has"
    )
    parser.add_argument("--output", type=Path, default=Path("report"), metavar="FOLDER")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    import jax

    from tools.train_llama.training import train  # imports JAX, which --help does not need

    devices = options.devices or jax.device_count()
    file = options.output / "curves.json"
    runs = {run.name: run for run in read_runs(file)}
    try:
        for mode in options.modes:
            for seed in range(options.seeds if mode == PLAIN else 1):
                wanted = Run(mode=mode, seed=seed, size=options.size, layout=options.layout, devices=devices, device="")
                if len(runs[wanted.name].losses if wanted.name in runs else ()) >= options.steps:
                    continue
                for run in train(
                    mode,
                    size=options.size,
                    layout=options.layout,
                    devices=devices,
                    steps=options.steps,
                    seed=seed,
                    sequences=options.sequences,
                    context=options.context,
                ):
                    runs[run.name] = run
                    sys.stderr.write(f"\r{run.name}: step {len(run.losses)}, loss {run.losses[-1]:.4f} ")
                sys.stderr.write("\n")
                _write(options.output, list(runs.values()))
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        _write(options.output, list(runs.values()))
        return 130
    sys.stdout.write(render_table(list(runs.values())))
    return 0


def render_table(runs: Sequence[Run]) -> str:
    """Returns a row for each run: mean loss and norm at its end, and both relative to plain JAX with the same seed."""
    plain = {(run.layout, run.size, run.devices, run.seed): run for run in runs if run.mode == PLAIN}
    lines = [
        "| run | device | steps | loss at first | loss at last | beside plain JAX | norm at last | its ratio to plain |\n",
        "|---|---|---|---|---|---|---|---|\n",
    ]
    for run in runs:
        if not run.losses:
            continue
        other = plain.get((run.layout, run.size, run.devices, run.seed))
        loss, norm = fmean(run.losses[-LAST:]), fmean(run.norms[-LAST:])
        beside = ("", "")
        if other is not None and len(other.losses) == len(run.losses):
            beside = f"{loss - fmean(other.losses[-LAST:]):+.4f}", f"{norm / fmean(other.norms[-LAST:]):.3g}"
        lines.append(
            f"| {run.name} | {run.device} | {len(run.losses)} | {run.losses[0]:.4f} | {loss:.4f} | {beside[0]} "
            f"| {norm:.4g} | {beside[1]} |\n"
        )
    ends = [fmean(run.losses[-LAST:]) for run in plain.values()]
    if len(ends) > 1:
        lines.append(f"\nThe seeds of plain JAX end within {max(ends) - min(ends):.4f} of each other.\n")
    return "".join(lines)


def _write(folder: Path, runs: Sequence[Run]) -> None:
    write_runs(folder / "curves.json", runs)
    (folder / "curves.svg").write_text(render_picture(runs), encoding="utf-8")
    (folder / "curves.md").write_text(render_table(runs), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
