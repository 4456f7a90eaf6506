"""Runs one process for each framework.

`python -m tools.bench_kernels.processes jax|torch NAME…` prints one measurement on each line.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from tools.bench_kernels.catalogue import load_benchmarks
from tools.bench_kernels.record import Measurement, Size

FRAMEWORKS = ("jax", "torch")
_MARK = "measurement "
"""Marks the lines to keep: frameworks print other lines."""


def measure_in_processes(names: Sequence[str]) -> Iterator[Measurement]:
    """Yields the measurements of these benchmarks as they are made, in the order of the processes."""
    for framework in FRAMEWORKS:
        command = [sys.executable, "-m", __name__, framework, *names]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout or ():
                if line.startswith(_MARK):
                    record = json.loads(line.removeprefix(_MARK))
                    yield Measurement(**record | {"size": Size(*record["size"])})


def describe_machine() -> list[str]:
    """Returns the GPU and the versions of driver and packages, one on each line."""
    command = [sys.executable, "-m", __name__, "describe"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def _describe() -> None:
    from importlib.metadata import PackageNotFoundError, version

    smi = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    sys.stdout.write(subprocess.run(smi, capture_output=True, text=True, check=False).stdout)
    for package in ("jax", "jax-triton", "triton", "torch", "liger-kernel", "nvidia-cublas"):
        try:
            sys.stdout.write(f"{package} {version(package)}\n")
        except PackageNotFoundError:
            sys.stdout.write(f"{package} is not installed\n")


def _main(arguments: Sequence[str]) -> None:
    framework, *names = arguments
    if framework == "describe":
        _describe()
        return
    if framework == "jax":
        from tools.bench_kernels.measure_jax import measure
    else:
        from tools.bench_kernels.measure_torch import measure
    benchmarks = load_benchmarks()
    for name in names:
        for size in benchmarks[name].sizes:
            for measurement in measure(benchmarks[name], size):
                sys.stdout.write(f"{_MARK}{json.dumps(asdict(measurement))}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    _main(sys.argv[1:])
