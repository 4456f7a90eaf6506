"""Runs the benchmark's programs on the GPUs of this machine, and asks NVIDIA's compute-sanitizer about them: `python -m
benchmark.on_gpu`. Writes `benchmark/device_rows.json`, what the page shows of one day.

Both programs of a report run by `ligerdiag check --device`, which compares what the GPU computes with program order. Then
each runs by itself under three tools of compute-sanitizer: memcheck (accesses out of bounds), racecheck (races in shared
memory) and initcheck (reads of memory that nobody wrote). A tool has found a report if it complains about the bad program
and not about its cured twin.

Only programs for one GPU and for the default toolchain run.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import partial
from itertools import batched
from multiprocessing import get_context
from pathlib import Path

from benchmark.judging import Outcome, Witness, find_witness, is_located
from benchmark.report import Entry, list_names, load_entry
from benchmark.table import CURED_ON_DEVICE, DEVICE_ROWS, DEVICE_TOOLS
from ligerdiag.api.checking import check
from ligerdiag.model.case import Case
from ligerdiag.model.findings import Attribution
from ligerdiag.model.report import CaseReport
from ligerdiag.run_options import CheckOptions

_COMPLAINS = 99
"""Exit code of compute-sanitizer if it has something to report."""


def main() -> int:
    """Runs everything, writes the rows after each step, and continues where an earlier run with the same rows ended."""
    options = _parse_options()
    names = [one for one in list_names() if any(fnmatchcase(one, pattern) for pattern in options.only)]
    entries = [one for one in map(load_entry, names) if _is_for_one_gpu(one)]
    rows: dict[str, dict[str, str]] = json.loads(options.rows.read_text())["rows"] if options.keep else {}
    if not options.sanitizer_only:
        _run_on_device([one.name for one in entries if CURED_ON_DEVICE not in rows.get(one.name, {})], rows, options)
    alone = [one for one in entries if _has_kernel(one)]
    for tool in options.tools:
        todo = [one for one in alone if tool not in rows.get(one.name, {})]
        with ThreadPoolExecutor(options.jobs) as pool:
            for entry, said in zip(todo, pool.map(partial(_ask_sanitizer, tool, options.seconds), todo), strict=True):
                rows.setdefault(entry.name, {})[tool] = said
                _report(f"{entry.name:28} {tool} {said}")
                _write(options.rows, rows)
        _report(f"{tool}: {sum(row.get(tool) == Outcome.FOUND for row in rows.values())} found")
    return 0


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmark.on_gpu", description=__doc__)
    parser.add_argument("--only", nargs="+", default=["*"], metavar="GLOB", help="reports by the names of their files")
    parser.add_argument("--rows", type=Path, default=DEVICE_ROWS, help="file with the results")
    parser.add_argument("--keep", action="store_true", help="keep the results in that file, and add what it lacks")
    parser.add_argument("--jobs", type=int, default=8, help="programs that run at once")
    parser.add_argument("--sanitizer-only", action="store_true", help="compare no numbers")
    parser.add_argument("--tools", nargs="*", default=DEVICE_TOOLS, choices=DEVICE_TOOLS, help="of compute-sanitizer")
    parser.add_argument("--seconds", type=float, default=200, help="time limit of one program under the sanitizer")
    parser.add_argument("--cache-dir", type=Path, help="folder that keeps compiled programs")
    return parser.parse_args()


def _run_on_device(names: Sequence[str], rows: dict[str, dict[str, str]], options: argparse.Namespace) -> None:
    """Adds to `rows` what a GPU computes. `check` runs one program after another on the GPU, so several processes, with
    two reports each, share the GPUs.
    """
    groups = list(batched(names, 2))
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        futures = [
            pool.submit(_check_group, group, str(number % _count_gpus()), options.cache_dir)
            for number, group in enumerate(groups)
        ]
        for future in as_completed(futures):
            for name, (row, numbers) in future.result().items():
                rows.setdefault(name, {}).update(row)
                _report(f"{name:28} {' '.join(row.values())} {numbers}")
            _write(options.rows, rows)


def _check_group(names: Sequence[str], gpu: str, cache: Path | None) -> dict[str, tuple[dict[str, str], str]]:
    """Returns, for each report, its part of a row and what the GPU computed. Runs in a process of its own."""
    os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    entries = [load_entry(name) for name in names]
    folder = None if cache is None else cache / "-".join(names)
    options = CheckOptions(
        selectors=tuple(str(one.file) for one in entries), jobs=2, cache_directory=folder, device=True, orders=0
    )
    reports = {report.id: report for report in check(options).cases}
    found: dict[str, tuple[dict[str, str], str]] = {}
    for entry in entries:
        assert isinstance(entry.bad, Case)
        assert isinstance(entry.cured, Case)
        bad, cured = reports.get(entry.bad.id), reports.get(entry.cured.id)
        row = {str(Witness.DEVICE): _judge_bad(entry, bad), CURED_ON_DEVICE: _judge_cured(cured)}
        found[entry.name] = ({tool: said for tool, said in row.items() if said}, _describe(bad))
    return found


def _report(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _judge_bad(entry: Entry, report: CaseReport | None) -> str:
    """Returns whether the GPU computed one of the named outputs wrongly; empty if the report names no output, since it is
    about memory, or about trials whose number nobody knows.
    """
    wanted = entry.report.finds.outputs
    if report is None or report.device is None or report.device.error:
        return Outcome.NOT_RUN
    if not wanted:
        return ""
    if any(find_witness(one) is Witness.DEVICE and is_located(entry, one) for one in report.findings):
        return Outcome.FOUND
    numbers = [report.device.outputs[name].attribution for name in wanted if name in report.device.outputs]
    if any(one.is_wrong for one in numbers):
        return Outcome.FOUND
    return Outcome.UNKNOWN if Attribution.UNDECIDED in numbers or not numbers else Outcome.MISSED


def _judge_cured(report: CaseReport | None) -> str:
    """Returns `right` if the GPU computed every output of the cured program rightly, else what was wrong."""
    if report is None or report.device is None or report.device.error:
        return Outcome.NOT_RUN
    wrong = [name for name, output in report.device.outputs.items() if output.attribution.is_wrong]
    return f"wrong: {', '.join(wrong)}" if wrong else "right"


def _describe(report: CaseReport | None) -> str:
    if report is None or report.device is None:
        return ""
    numbers = (f"{name}={output.attribution}" for name, output in report.device.outputs.items())
    return report.device.error or " ".join(numbers)


def _is_for_one_gpu(entry: Entry) -> bool:
    """Programs for several GPUs are left out: several of them at once would wait for one another."""
    return isinstance(entry.bad, Case) and not entry.bad.mesh and not entry.report.toolchain


def _has_kernel(entry: Entry) -> bool:
    """Returns whether the programs call a kernel of their own; the sanitizer is not asked about those of XLA alone."""
    text = entry.file.read_text()
    return any(call in text for call in ("triton_call(", "pallas_call(", "call_in_place("))


def _ask_sanitizer(tool: str, seconds: float, entry: Entry) -> str:
    bad = _run_under(tool, seconds, entry.name, "bad")
    if bad != _COMPLAINS:
        return (Outcome.MISSED if bad == 0 else Outcome.NOT_RUN).value
    return "false" if _run_under(tool, seconds, entry.name, "cured") == _COMPLAINS else Outcome.FOUND.value


def _run_under(tool: str, seconds: float, name: str, program: str) -> int:
    """Returns the exit code: 0, `_COMPLAINS`, or another one if the program did not run to its end under the tool."""
    command = ("compute-sanitizer", "--tool", tool, "--target-processes", "all", "--error-exitcode", str(_COMPLAINS))
    gpu = str(sum(map(ord, name + program)) % _count_gpus())
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cuda",
        "XLA_PYTHON_CLIENT_ALLOCATOR": "platform",  # from a pool, the tools would not see where an array ends
        "CUDA_VISIBLE_DEVICES": gpu,
    }
    try:
        done = subprocess.run(
            [*command, sys.executable, "-m", "benchmark.gpu_worker", name, program],
            env=environment,
            capture_output=True,
            check=False,
            timeout=seconds,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return -1
    return done.returncode


def _count_gpus() -> int:
    return max(1, len(list(Path("/dev").glob("nvidia[0-9]*"))))


def _write(path: Path, rows: Mapping[str, Mapping[str, str]]) -> None:
    name = subprocess.run(
        ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    machine = f"{len(name)} x {name[0].strip()}"
    record = {"date": datetime.now(UTC).date().isoformat(), "machine": machine, "rows": rows}
    path.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
