"""Compiles two programs for the GPU of this machine, judges each `jax.stages.Compiled` and runs it: `python -m
tests.gpu.compiled_run CACHE RESULTS`. RESULTS is a folder, which gets the reports as `reports.json` and the outputs of each
program as `PROGRAM.npz`.
"""

import json
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np

import ligerdiag
from ligerdiag import CaseReport
from tests.device import opcheck_kernels as kernels

X = np.arange(kernels.SIZE, dtype=np.float32) % 16 + 1


def hidden(x: Any) -> Any:
    """Reads a sum after a kernel that doubles it behind XLA's back: XLA computes `x + 1` and its product in one fusion."""
    added = x + 1
    old = kernels.call(kernels.double_in_place, added)
    return {"old": old, "back": added * 3}


def declared(x: Any) -> Any:
    """Computes the same from the output with which the kernel declares what it writes."""
    old, doubled = kernels.declared(x + 1)
    return {"old": old, "back": doubled * 3}


PROGRAMS = {"hidden": hidden, "declared": declared}


def describe(report: CaseReport) -> dict[str, Any]:
    """Returns the parts of a report that the test looks at."""
    return {
        "id": report.id,
        "target": report.target,
        "status": report.status.value,
        "outputs": [verdict.value for verdict in report.outputs.values()],
        "findings": sorted({one.rule for one in report.findings}),
        "buffer_assignment": report.coverage.buffer_assignment,
        "hidden_writes": report.coverage.hidden_writes,
        "not_covered": list(report.coverage.not_covered),
    }


def main() -> None:
    cache, results = sys.argv[1:]
    gpu: Any = jax.devices("cuda")[0]
    reports: dict[str, Any] = {"capability": str(gpu.compute_capability)}
    for name, program in PROGRAMS.items():
        placed: Any = jax.device_put(X, gpu)
        compiled: Any = jax.jit(program).lower(placed).compile()
        reports[name] = describe(ligerdiag.check(compiled, cache_directory=cache))
        found: Any = compiled(placed)
        np.savez(Path(results, f"{name}.npz"), **{key: np.asarray(value) for key, value in found.items()})
    Path(results, "reports.json").write_text(json.dumps(reports))


if __name__ == "__main__":
    main()
