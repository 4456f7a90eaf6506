"""Compares kernels on a GPU with their Triton IR on numbers: `python -m tests.gpu.compare_kernels [RANDOM]`.

Prints for each kernel and array the largest distance in units of the last place and the largest difference relative to
the largest number; then a histogram of the kernels. Needs a GPU, and torch, which Triton launches with.
"""

import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.replay.triton_ir import op_kernels, test_project_kernels
from tests.replay.triton_ir.op_launches import LAUNCHES
from tests.replay.triton_ir.oracle import Launch, find_kernel, load_kernels
from tests.replay.triton_ir.random_kernels import make_launch, write_kernels
from tests.replay.triton_ir.run import run_launch

CACHE = Path(tempfile.gettempdir()) / "compiled-kernels"


def run_on_gpu(file: Path, launch: Launch) -> dict[str, Any]:
    """Returns the arguments after the run on the GPU."""
    import torch
    import triton

    arguments = launch.copy()
    handed: dict[str, Any] = {}
    for name, value in arguments.items():
        if isinstance(value, np.ndarray) and value.ndim:
            made = torch.from_numpy(value.reshape(-1).view(np.uint8).copy()).cuda()
            handed[name] = made.view(_find_dtype(torch, value.dtype.name)).reshape(value.shape)
        else:
            handed[name] = value.item() if isinstance(value, np.generic) else value
    triton.knobs.cache.dir = str(CACHE)
    find_kernel(load_kernels(file), launch.kernel)[launch.grid](**handed, **launch.constants)
    torch.cuda.synchronize()
    for name, value in arguments.items():
        if isinstance(value, np.ndarray) and value.ndim:
            found = handed[name].reshape(-1).view(torch.uint8).cpu().numpy()
            arguments[name] = found.view(value.dtype).reshape(value.shape)
    return arguments


def _find_dtype(torch: Any, name: str) -> Any:
    names = {"bool": "bool", "float8_e5m2": "float8_e5m2", "float8_e4m3fn": "float8_e4m3fn"}
    return getattr(torch, names.get(name, name))


def count_ulps(found: Any, wanted: Any) -> float:
    """Returns the largest distance in units of the last place; infinite if only one of two elements is finite."""
    if found.dtype.kind in "biu":
        return float(np.abs(found.astype(np.float64) - wanted.astype(np.float64)).max(initial=0.0))
    width = found.itemsize
    one, other = (_order(array.view(f"i{width}").astype(np.int64), width) for array in (found, wanted))
    both = np.isnan(found.astype(np.float32)) & np.isnan(wanted.astype(np.float32))
    distance = np.where(both, 0, np.abs(one - other))
    return float(distance.max(initial=0))


def _order(bits: Any, width: int) -> Any:
    least = -(1 << (8 * width - 1))
    return np.where(bits < 0, least - bits, bits)


def compare(title: str, file: Path, launches: Sequence[tuple[str, Launch]], tally: Counter[str]) -> None:
    for name, launch in launches:
        try:
            wanted = run_on_gpu(file, launch)
        except Exception as fault:
            sys.stdout.write(f"{title} {name}: not run: {type(fault).__name__}: {str(fault)[:150]!r}\n")
            tally["not run"] += 1
            continue
        found, _ = run_launch(file, launch, optimized=True)
        worst, relative, where = 0.0, 0.0, ""
        for argument, value in found.items():
            if isinstance(value, np.ndarray) and value.ndim:
                ulps = count_ulps(value, wanted[argument])
                one, other = value.astype(np.float64), wanted[argument].astype(np.float64)
                finite = np.isfinite(one) & np.isfinite(other)
                scale = float(np.abs(other[finite]).max(initial=0.0)) or 1.0
                difference = float(np.abs(one - other)[finite].max(initial=0.0)) / scale
                if ulps > worst:
                    worst, relative, where = ulps, difference, argument
        tally[
            "equal" if not worst else "within 4 ulps" if worst <= 4 else "relative 1e-5" if relative < 1e-5 else "far"
        ] += 1
        if worst:
            sys.stdout.write(f"{title} {name} `{where}`: {worst:.3g} ulps, {relative:.2g} of the largest\n")
        sys.stdout.flush()


def main() -> None:
    tallies: dict[str, Counter[str]] = {}
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    for title, file, launches in (
        ("operation", Path(op_kernels.__file__), LAUNCHES.items()),
        *(
            ("kernel", test_project_kernels.ROOT / name / "triton.py", [(name, launch)])
            for name, launch in test_project_kernels.LAUNCHES.items()
        ),
    ):
        compare(title, file, list(launches), tallies.setdefault(title, Counter()))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "random_kernels_0.py"
        write_kernels(file, range(count))
        compare(
            "random", file, [(str(s), make_launch(s)) for s in range(count)], tallies.setdefault("random", Counter())
        )
    for title, tally in tallies.items():
        sys.stdout.write(f"{title}: {dict(tally)}\n")


if __name__ == "__main__":
    main()
