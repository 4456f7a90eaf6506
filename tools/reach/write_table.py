"""Writes docs/reach.md: `python tools/reach/write_table.py CHECKOUTS LIBRARIES`; fetches nothing.

CHECKOUTS has a work tree of each repository of programs.toml at its commit, named as there; LIBRARIES has the packages
that these import and this project does not (`pip install --target`). Each driver is checked in an empty folder, so that
no package of this project hides one with the same name. A program that could not run has a row, too, with the reason.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TARGETS = ("a100", "h100", "h200", "b200")
SEVERE = ("stale", "clobbered", "unknown", "latent", "unsafe")
HEAD = """\
# Programs that others wrote

`tools/reach/write_table.py` wrote this page: what `ligerdiag check` says about public programs, each compiled for four GPUs
by a driver in `tools/reach/` that imports it from a checkout. A cell counts outputs; *fresh* means all of them. `!` marks a
target on which the program could not be compiled or analysed; the reason is below. Replay is for h100: the kernels ran on
numbers, and the numbers of each output were compared with both predictions.
"""
TAIL = """
## What the findings are

- `zahlmann_decode[2]`: two steps of the decode kernel in one program. Each call makes a workspace of zeros, the kernel
  counts barriers in it, and XLA makes the zeros once: the second call starts with the counters of the first. See
  [reports/zahlmann-transformer.md](reports/zahlmann-transformer.md).
- `liger_*` at the older commit: the bug that this project began with; the newer commit declares the logits as an output.
- `rwkv7_*` at the oldest commit: calls that write `jnp.empty` arrays and have scalar outputs that nothing uses. JAX drops
  the calls. The kernels get more parameters than they take, so their writes are unknown.
- `example_add`: the example's kernel masks its stores with `offsets < 8`. It leaves the elements of an array
  after the first 8 unwritten; the example calls it with 8. See
  [reports/jax-triton-add-example.md](reports/jax-triton-add-example.md).
- `te_row_id_map`: the first pass fills half of the map's columns, the later passes the others: LD013 is intended here.
"""


def check(program: dict[str, Any], checkouts: Path, libraries: Path) -> list[dict[str, Any]]:
    """Returns the cases of the program's driver, as JSON."""
    path = checkouts / program.get("checkout", "") / program.get("path", "")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(path), str(libraries)))}
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(HERE / f"{program['driver']}.py", folder)
        command = (shutil.which("ligerdiag") or "ligerdiag", "check", f"{program['driver']}.py")
        words = ("--target", ",".join(TARGETS), "--format", "json")
        done = subprocess.run((*command, *words), cwd=folder, env=environment, stdout=subprocess.PIPE, check=False)
    return json.loads(done.stdout)["cases"]


def describe(case: dict[str, Any]) -> str:
    if case["error"]:
        return "!"
    counted = Counter(verdict for verdict in case["outputs"].values() if verdict != "fresh")
    total = len(case["outputs"])
    return ", ".join(f"{count} of {total} {verdict}" for verdict, count in counted.items()) or "fresh"


def shorten(error: str, *folders: Path) -> str:
    for folder in folders:
        error = error.replace(f"{folder}/", "")
    return re.sub(r"/\S*/", "", error.splitlines()[0]).partition(" raises: ")[2][:200] or error.splitlines()[0][:200]


def main(checkouts: Path, libraries: Path) -> None:
    rows: list[str] = []
    reasons: dict[str, list[str]] = {}
    totals: Counter[str] = Counter()
    for program in tomllib.loads((HERE / "programs.toml").read_text(encoding="utf-8"))["programs"]:
        cases = check(program, checkouts, libraries)
        commit = program["commit"][:12] if len(program["commit"]) == 40 else program["commit"]
        for name in dict.fromkeys(case["id"] for case in cases):
            found = {case["target"]: case for case in cases if case["id"] == name}
            cells = [describe(found[target]) for target in TARGETS]
            replay = (found["h100"]["replay"] or {}).get("state", "-")
            rules = " ".join(sorted({rule for case in found.values() for f in case["findings"] for rule in f["rules"]}))
            rows.append(
                f"| `{name}` | {program['repository']} {commit} | {program['changed']} | "
                + " | ".join((*cells, rules or "-", replay))
                + " |"
            )
            totals["programs"] += 1
            totals["run"] += any(not case["error"] for case in found.values())
            for target, case in found.items():
                if case["error"]:
                    reason = shorten(case["error"], checkouts, libraries)
                    reasons.setdefault(f"`{name}` ({commit}): {reason}", []).append(target)
        sys.stderr.write(f"{program['repository']} {commit}: {len(cases)}\n")
    head = ("program", "commit", "what was changed", *TARGETS, "rules", "replay")
    lines = [
        HEAD,
        f"{totals['programs']} programs, {totals['run']} of them compiled for at least one target.\n",
        f"| {' | '.join(head)} |",
        f"|{'---|' * len(head)}",
        *rows,
        TAIL,
        "## What could not be compiled or analysed\n",
        *(f"- {reason} ({', '.join(targets)})" for reason, targets in reasons.items()),
        "",
    ]
    (HERE.parents[1] / "docs/reach.md").write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main(*(Path(argument).absolute() for argument in sys.argv[1:3]))
