"""Measures the default run, cold and warm, and the analysis' cost per instruction: `python tools/bench.py`.

It is a benchmark that prints, not a test: figures depend on the machine. Selectors given as arguments replace the
default.

It prints three tables: the wall seconds of the whole command; the cost of one artifact, by step (reading is from bytes
to the HLO view; the kernels' effects come from the cache; the limit of 20 us an instruction is for the analysis
itself); and the same steps for a program of N, 2N and 4N layers around one kernel, whose cost per instruction should
stay the same.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from ligerdiag.artifacts.artifact import load_artifact
from ligerdiag.inspection import compilation as inspection

LIMIT = 20.0
"""The most microseconds that the analysis itself may take per instruction."""
LAYERS = (100, 200, 400)
REPEATS = 3
"""Number of runs; the fastest one counts."""

CHAIN = """\
import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl
from ligerdiag import Arg, Case


@triton.jit
def double_kernel(x_ptr, sum_ptr, COLUMNS: tl.constexpr):
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at)
    tl.store(sum_ptr + tl.program_id(0), tl.sum(x))
    tl.store(x_ptr + at, 2 * x)


def chain(layers, x, w):
    for _ in range(layers):
        x = jnp.tanh(x @ w + x.sum(0))
    sums = jax_triton.triton_call(
        x, kernel=double_kernel, out_shape=jax.ShapeDtypeStruct((16,), "float32"), grid=16, COLUMNS=16
    )
    for _ in range(layers):
        x = jnp.tanh(x @ w + x.sum(0))
    return {"sums": sums, "x": x}


ARGS = (Arg(shape=(16, 16)), Arg(shape=(16, 16)))
CASES = tuple(
    Case(name="chain", function=lambda x, w, n=n: chain(n, x, w), args=ARGS, params=(n,)) for n in LAYERS
)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Seconds of judging, by step."""

    instructions: int
    """Number in the program as written and in the scheduled module together."""
    reading: float
    effects: float
    analysis: float

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            instructions=self.instructions + other.instructions,
            reading=self.reading + other.reading,
            effects=self.effects + other.effects,
            analysis=self.analysis + other.analysis,
        )


def run(selectors: list[str], cache: Path) -> tuple[float, list[dict[str, Any]]]:
    """Returns the wall seconds of the whole process, and the cases of its JSON report."""
    words = ["check", *selectors, "--format", "json", "--cache-dir", str(cache)]
    start = time.perf_counter()
    result = subprocess.run([sys.executable, "-m", "ligerdiag", *words], check=False, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if not result.stdout:
        raise SystemExit(result.stderr)
    return seconds, json.loads(result.stdout)["cases"]


def measure(directory: Path, cache: Path) -> Cost:
    """Judges one artifact a few times; returns the cost of the fastest."""
    costs = [_measure_once(directory, cache) for _ in range(REPEATS)]
    return min(costs, key=lambda cost: cost.analysis)


def _measure_once(directory: Path, cache: Path) -> Cost:
    spent = {"load_hlo": 0.0, "_compute_effects": 0.0}

    def time_calls(name: str) -> Callable[..., Any]:
        original = getattr(inspection, name)

        def timed(*arguments: Any) -> Any:
            start = time.perf_counter()
            result = original(*arguments)
            spent[name] += time.perf_counter() - start
            return result

        return timed

    artifact = load_artifact(directory)
    with mock.patch.multiple(inspection, **{name: time_calls(name) for name in spent}):
        start = time.perf_counter()
        found = inspection.inspect_artifact(artifact, effects_cache=cache / "effects")
        total = time.perf_counter() - start
    return Cost(
        instructions=found.coverage.instructions,
        reading=spent["load_hlo"],
        effects=spent["_compute_effects"],
        analysis=total - sum(spent.values()),
    )


def render_run(name: str, seconds: float, cases: list[dict[str, Any]]) -> str:
    """Returns one line: wall seconds, number of cases, number of cases from the cache."""
    cached = sum(bool(case["cached"]) for case in cases)
    return f"{name:<5} {seconds:8.2f} s  {len(cases)} cases, {cached} from the cache\n"


def render_cost(name: str, cost: Cost) -> str:
    """Returns one line: microseconds per instruction for each step."""
    each = [1e6 * seconds / cost.instructions for seconds in (cost.reading, cost.effects, cost.analysis)]
    verdict = "within" if each[-1] <= LIMIT else "OVER"
    columns = "".join(f"{figure:10.1f}" for figure in each)
    return f"{name:<12}{cost.instructions:>13}{columns}  {verdict} {LIMIT:.0f}\n"


def write_costs(title: str, costs: list[tuple[str, Cost]]) -> None:
    """Writes a table to standard output."""
    head = f"{title:<12}{'instructions':>13}{'reading':>10}{'kernels':>10}{'analysis':>10}  us an instruction\n"
    sys.stdout.write("\n" + head)
    sys.stdout.writelines(render_cost(name, cost) for name, cost in costs)


def measure_cases(cases: list[dict[str, Any]], cache: Path) -> list[tuple[str, Cost]]:
    """Returns the cost of each case's artifact, by the case's id; omits cases that could not be analysed."""
    return [(case["id"], measure(Path(case["artifact"]), cache)) for case in cases if case["outputs"]]


def main() -> None:
    selectors = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        cache, file = Path(folder) / "cache", Path(folder) / "chain.py"
        sys.stdout.write(render_run("cold", *run(selectors, cache)))
        seconds, cases = run(selectors, cache)
        sys.stdout.write(render_run("warm", seconds, cases))
        costs = measure_cases(cases, cache)
        if costs:
            total = sum((cost for _, cost in costs[1:]), costs[0][1])
            worst = max(costs, key=lambda item: item[1].analysis / item[1].instructions)[1]
            write_costs("cases", [("all", total), ("dearest", worst)])
        file.write_text(CHAIN.replace("LAYERS", str(LAYERS)))
        write_costs("growth", measure_cases(run([str(file)], cache)[1], cache))


if __name__ == "__main__":
    main()
