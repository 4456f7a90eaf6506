"""The page of versions has one line a period, marks each change of a verdict, and says why a cell is empty."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from ligerdiag.model.report import Status
from ligerdiag.sweep.campaign import SweepRow
from ligerdiag.sweep.sweep_table import name_column, render_parquet
from tests.sweep.test_grid import make_sweep
from tools import map_of_versions

LATE = "seed_flce[False-x]"


def make_row(toolchain: str, target: str, verdict: str, error: str = "") -> SweepRow:
    (row,) = make_sweep(None).rows
    outputs = {"input": verdict, "loss": "fresh"} if verdict else {}
    status = Status.ERROR if error else Status.FINDINGS
    return replace(
        row, case=LATE, toolchain=toolchain, target=target, status=status, outputs=outputs, verdict=verdict, error=error
    )


def write(folder: Path, *rows: SweepRow) -> Path:
    (folder / "reports").mkdir(parents=True)
    (folder / "sweep.parquet").write_bytes(render_parquet(rows))
    report = {"cases": [{"id": LATE, "log_tail": "one\nLLVM ERROR: oh no\n"}]}
    for row in rows:
        path = folder / "reports" / f"{name_column(row.column)}.json"
        path.write_text(json.dumps(report if row.toolchain == "jax-0.5.0" else {"cases": []}))
    return folder


def test_the_page_has_a_line_for_each_period_and_every_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    aborted = f"the worker for case `{LATE}` was aborted by signal 6 (SIGABRT)"
    first = write(
        tmp_path / "one",
        *[make_row(name, "h100", "stale") for name in ("jax-0.10.0", "jax-0.9.2", "jax-0.5.0")],
        make_row("jax-0.4.36", "h100", "", "case `seed_flce[False-x]` does not compile: no platform 0x7f172a92510c"),
        make_row("jax-0.4.36", "b200", "", "old words"),
        make_row("jax-0.5.0", "b200", "", aborted),
        *[make_row(name, "b200", "fresh") for name in ("jax-0.9.2", "jax-0.10.0")],
        *[make_row("jax-0.11.2", target, "latent") for target in ("h100", "b200")],
    )
    second = write(tmp_path / "two", make_row("jax-0.4.36", "b200", "", "new | words"))
    page = tmp_path / "versions.md"
    monkeypatch.setattr("sys.argv", ["", str(first), str(second), str(page)])
    map_of_versions.main()
    lines = [line for line in page.read_text().splitlines() if line.startswith("| 0")]
    assert lines[:3] == [
        "| 0.5.0 | input stale | — |",
        "| 0.9.2 to 0.10.0 | input stale | fresh |",
        "| 0.11.2 | ≠ input latent | ≠ input latent |",
    ]
    assert lines[3:5] == [
        "| 0.4.36 | 0.4.36 | 0.2.0 | 3.1.0 | h100: the case does not compile: no platform 0x…; b200: new \\| words |",
        "| 0.5.0 | 0.5.0 | 0.2.0 | 3.1.0 | b200: the compilation was aborted by signal 6 (SIGABRT): LLVM ERROR: oh no |",
    ]
    assert len(lines) == 3 + 5
    cells = list(csv.DictReader((tmp_path / "versions.csv").read_text().splitlines()))
    assert len(cells) == 10
    assert [cell["why nothing is known"] for cell in cells[:2]] == [
        "the case does not compile: no platform 0x…",
        "new | words",
    ]
    assert cells[-1]["outputs"] == "input latent; loss fresh"
