"""Judges the train step of a Llama from one GPU to 512: `python -m tools.llama_grid [PATTERN...]`, as `make
llama-grid`.

Prints a row for each case of kernels/llama/grid.py whose params match a glob pattern, such as `fsdp-*-64-*`: the
verdict, the bytes that XLA reserves on one GPU, the collectives of a step and their bytes on one GPU, and the cost of
the judgement itself from an empty cache: seconds, processor seconds, the peak memory of all its processes. It needs no
GPU and replays nothing. Each case has a process and a cache of its own.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from fnmatch import fnmatchcase
from os import wait4
from pathlib import Path
from typing import Any

from kernels.llama.grid import CASES
from ligerdiag.api.checking import check
from ligerdiag.hlo.parse import load_hlo
from ligerdiag.model.findings import Verdict
from ligerdiag.run_options import CheckOptions
from tools.collectives import sum_collectives

FILE = "kernels/llama/grid.py"
COLUMNS = ("case", "verdict", "rules", "GiB a GPU", "collectives a step", "s", "CPU s", "GiB here", "instructions")
INTERVAL = 1.0
"""Seconds between two measurements of the processes' memory."""


def judge(id: str, cache: str) -> dict[str, Any]:
    """Returns the figures of one case that its own process can measure."""
    options = CheckOptions(selectors=(f"{FILE}::{id}",), replay=False, cache_directory=Path(cache), jobs=1, timeout=600)
    (case,) = check(options).cases
    figures: dict[str, Any] = {
        "status": case.status,
        "error": case.error,
        "outputs": Counter(case.outputs.values()),
        "loss": case.outputs.get("loss", ""),
        "rules": sorted({finding.rule for finding in case.findings}),
        "not_covered": case.coverage.not_covered,
        "hidden_writes": case.coverage.hidden_writes,
    }
    if case.artifact:
        module, buffers = load_hlo(Path(case.artifact) / "optimized.hlo.pb")
        figures["instructions"] = module.instruction_count
        figures["peak"] = buffers.memory.peak if buffers is not None and buffers.memory is not None else 0
        figures["collectives"] = {kind: (t.runs, t.size) for kind, t in sum_collectives(module).items()}
    return figures


def judge_alone(id: str) -> dict[str, Any]:
    """Returns the figures of one case, with those of the processes that judged it."""
    with tempfile.TemporaryDirectory() as cache:
        started = time.perf_counter()
        command = [sys.executable, "-m", "tools.llama_grid", "--judge", id, cache]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        peak = 0
        while True:
            done, code, usage = wait4(process.pid, 1)
            if done:
                break
            peak = max(peak, measure_memory(process.pid))
            time.sleep(INTERVAL)
        seconds = time.perf_counter() - started
        assert process.stdout is not None
        text = process.stdout.read()
        process.stdout.close()
        process.returncode = code
    if code:
        raise SystemExit(f"judging `{id}` ended with status {code}")
    return {
        **json.loads(text),
        "seconds": seconds,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "memory": peak,
    }


def measure_memory(pid: int) -> int:
    """Returns the bytes of a process and its descendants, with shared pages counted once; 0 if it has ended."""
    total = 0
    with suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1]) * 1024
        for task in Path(f"/proc/{pid}/task").iterdir():
            total += sum(map(measure_memory, map(int, (task / "children").read_text(encoding="ascii").split())))
    return total


def render_row(id: str, figures: dict[str, Any]) -> tuple[str, ...]:
    """Returns the cells of a row, in the order of `COLUMNS`."""
    if figures["error"]:
        return (id, figures["error"], *[""] * (len(COLUMNS) - 2))
    wrong = [f"{count} {verdict}" for verdict, count in figures["outputs"].items() if verdict != Verdict.FRESH]
    total = sum(figures["outputs"].values())
    verdict = f"{', '.join(wrong)} of {total}; loss {figures['loss']}" if wrong else f"fresh: {total}"
    collectives = (f"{runs} {kind} {size / 2**30:.3g} GiB" for kind, (runs, size) in figures["collectives"].items())
    return (
        id,
        verdict + "".join(f"; not covered: {line}" for line in figures["not_covered"]),
        " ".join(figures["rules"]),
        f"{figures['peak'] / 2**30:.3g}",
        ", ".join(collectives) or "none",
        f"{figures['seconds']:.1f}",
        f"{figures['cpu_seconds']:.1f}",
        f"{figures['memory'] / 2**30:.1f}",
        str(figures["instructions"]),
    )


def main(arguments: list[str]) -> int:
    """Prints the table, as Markdown; returns 1 if a case could not be judged."""
    if arguments[:1] == ["--judge"]:
        print(json.dumps(judge(*arguments[1:])))  # noqa: T201
        return 0
    chosen = [
        one.id for one in CASES if not arguments or any(fnmatchcase(_shorten(one.id), glob) for glob in arguments)
    ]
    if not chosen:
        sys.stderr.write(
            f"no case of {FILE} matches {' '.join(arguments)}; they are called like {_shorten(CASES[-1].id)}\n"
        )
        return 2
    failed = False
    _print_row(COLUMNS)
    _print_row(["---"] * len(COLUMNS))
    for number, id in enumerate(chosen, 1):
        sys.stderr.write(f"{number} of {len(chosen)}: {id}\n")
        figures = judge_alone(id)
        failed |= bool(figures["error"])
        _print_row(render_row(_shorten(id), figures))
    return int(failed)


def _shorten(id: str) -> str:
    return id.removeprefix("llama[").removesuffix("]")


def _print_row(cells: Any) -> None:
    sys.stdout.write(f"| {' | '.join(cells)} |\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
