"""Times the benchmarks of these names, or all of them: `python -m tools.bench_kernels [NAME…] [--output FOLDER]`.

Prints tables, and writes them to FOLDER/kernels.md and a picture of them to FOLDER/kernels.svg.
"""

import argparse
import sys
from pathlib import Path

from tools.bench_kernels.catalogue import load_benchmarks
from tools.bench_kernels.picture import render_picture
from tools.bench_kernels.processes import describe_machine, measure_in_processes
from tools.bench_kernels.record import Measurement
from tools.bench_kernels.table import render_tables


def main() -> int:
    """Returns the exit code: 2 for a name that does not exist, 1 if something did not run, else 0."""
    benchmarks = load_benchmarks()
    parser = argparse.ArgumentParser(prog="python -m tools.bench_kernels", description="Times the kernels on a GPU.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of a benchmark: {', '.join(benchmarks)}")
    parser.add_argument("--output", type=Path, default=Path("report"), metavar="FOLDER")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in benchmarks]:
        parser.error(f"expected one of {', '.join(benchmarks)} but got {', '.join(unknown)}")
    chosen = options.names or list(benchmarks)
    measurements: list[Measurement] = []
    for one in measure_in_processes(chosen):
        measurements.append(one)
        sys.stderr.write(f"{one.benchmark} {one.size} {one.way}: {one.trouble or f'{one.median:.3f} ms'}\n")
    wanted = [benchmarks[name] for name in chosen]
    machine = "\n".join(f"- {line}" for line in describe_machine())
    text = f"{machine}\n\n{render_tables(wanted, measurements)}\n"
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "kernels.md").write_text(text, encoding="utf-8")
    (options.output / "kernels.svg").write_text(render_picture(wanted, measurements), encoding="utf-8")
    sys.stdout.write(text)
    return 1 if any(one.trouble for one in measurements) else 0


if __name__ == "__main__":
    sys.exit(main())
