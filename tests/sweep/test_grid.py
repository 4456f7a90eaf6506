"""A grid becomes tasks, a key changes exactly with the inputs that decide a result, and a store keeps complete results."""

import csv
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ligerdiag.artifacts.artifact import compute_file_sha256
from ligerdiag.artifacts.cache import Cache
from ligerdiag.cli.exit_codes import ExitCode
from ligerdiag.cli.sweep import compute_exit_code, diff_sweeps, find_tables, render_sweep, render_sweep_difference
from ligerdiag.errors import InputError, LigerdiagError
from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import Status
from ligerdiag.report.json import render_json
from ligerdiag.sweep import campaign, cluster
from ligerdiag.sweep import grid as grid_module
from ligerdiag.sweep.campaign import SweepOptions, SweepReport, describe_rate, make_row
from ligerdiag.sweep.grid import SweepColumn, SweepPlan, SweepTask, describe_task, load_grid, plan_sweep
from ligerdiag.sweep.result_store import ResultStore, StoredResult
from ligerdiag.sweep.sweep_table import (
    compare_sweeps,
    join_reports,
    read_parquet,
    render_csv,
    render_page,
    render_parquet,
)
from ligerdiag.sweep.task import UnfitWorker, run_task
from tests.report.samples import make_case, make_finding, make_report
from tools.json_schema import load_schema

CASE = """
from ligerdiag import Arg, Case
import beside
CASE = Case(name="tiny", function=lambda x: x + beside.ONE, args=(Arg(shape=(4,)),))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "mine.py").write_text(CASE)
    (folder / "beside.py").write_text("ONE = 1\n")
    return folder


def plan(folder: Path, cache: Path, text: str) -> SweepPlan:
    (folder / "grid.toml").write_text('selectors = ["mine.py"]\n' + text)
    return plan_sweep(load_grid(folder / "grid.toml"), Cache(cache), lambda step: None)


def test_a_key_changes_with_everything_that_decides_a_result(
    folder: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_keys(text: str) -> list[str]:
        return [task.key for task in plan(folder, shared_cache, text).cells.values()]

    (key,) = find_keys("")
    two = plan(
        folder, shared_cache, 'targets = ["a100", "h100"]\n[flags]\na = []\nb = ["--xla_x=1"]\nc = ["--xla_x=1"]\n'
    )
    assert len(two.cells) == 6
    assert len({task.key for task in two.cells.values()}) == 4, "two names of the same flags are one task"
    assert key in {task.key for task in two.cells.values()}
    assert {task.environment.get("XLA_FLAGS") for task in two.cells.values()} == {None, "--xla_x=1"}
    assert find_keys("replay = false\n") != [key]
    assert find_keys('toolchains = ["seed"]\n') != [key]
    monkeypatch.setenv("XLA_FLAGS", "--xla_y=2")
    assert find_keys("") != [key]
    monkeypatch.delenv("XLA_FLAGS")
    monkeypatch.setattr(grid_module, "_compute_own_sha256", lambda: "another ligerdiag")
    assert find_keys("") != [key]
    monkeypatch.undo()
    (folder / "pyproject.toml").write_text("[tool.ligerdiag]\nstrict = true\n")
    assert find_keys("") != [key]
    (folder / "pyproject.toml").unlink()
    assert find_keys("") == [key]
    (folder / "beside.py").write_text("ONE = 2\n")
    assert find_keys("") != [key]
    (folder / "beside.py").write_text("ONE = 1\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("target = ['h100']", "expected one of selectors, targets"),
        ("targets = []", "at least one entry for `targets`"),
        ("targets = ['h1']", "expected a target of"),
        ("toolchains = ['old']", "expected a toolchain of"),
        ("timeout = 0", "above 0"),
        ("[flags]\na = ['xla_x']", "a flag of XLA"),
        ("[flags]\na = ['--xla_x=1 --xla_y']", "a flag of XLA"),
        ("targets = 3", "targets"),
        ("= 3", "is not TOML"),
    ],
)
def test_a_malformed_grid_is_refused_in_one_line(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "grid.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=said) as caught:
        plan_sweep(load_grid(path), Cache(tmp_path / "cache"), lambda step: None)
    assert "\n" not in str(caught.value)


def test_a_store_returns_only_complete_results_under_their_own_keys(tmp_path: Path) -> None:
    store = ResultStore(str(tmp_path / "results"))
    one = StoredResult(key="ab", task={}, dependencies={"mine.py": "0"}, report={"cases": []})
    store.keep(one)
    store.keep(one)
    assert (store.list_keys(), store.find("ab")) == ({"ab"}, one)
    path = tmp_path / "results" / "ab.json"
    (tmp_path / "results" / "cd.json").write_bytes(path.read_bytes())
    (tmp_path / "results" / "ef.json").write_bytes(path.read_bytes()[:-20])
    assert [store.find(key) for key in ("cd", "ef", "gh")] == [None, None, None]
    memory = ResultStore("memory://results")
    memory.keep(one)
    assert (memory.list_keys(), memory.find("ab")) == ({"ab"}, one)


def test_a_case_whose_imports_are_unknown_has_no_key(
    folder: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cache, "find_dependencies", lambda self, question: None)
    with pytest.raises(InputError, match=r"the imports of `.*mine.py` are unknown"):
        plan(folder, shared_cache, "")


def make_task() -> SweepTask:
    return SweepTask(
        key="k",
        case_id="flce[hidden]",
        source=grid_module.Source(file="/a/flce.py", root="/a"),
        folder="/a",
        target="h100",
        toolchain="default",
        environment={},
        dependencies={"flce.py": "0"},
        fingerprint=grid_module.compute_fingerprint("default"),
        replay=True,
        timeout=1.0,
    )


def make_json(**changes: object) -> dict[str, Any]:
    return json.loads(render_json(make_report(make_case(findings=(make_finding(),), **changes)), exit_code=1))


def column(flags: str) -> SweepColumn:
    return SweepColumn(toolchain="default", target="h100", flags=flags)


def make_sweep(*kinds: object) -> SweepReport:
    """Returns the sweep of one case, with a column for each kind: the verdict on its output, or None for an error."""
    rows = [
        make_row(
            make_json(outputs={"loss": kind} if kind else {}, status=Status.FINDINGS if kind else Status.ERROR),
            make_task(),
            column(f"f{number}"),
        )
        for number, kind in enumerate(kinds)
    ]
    return SweepReport(columns=tuple(row.column for row in rows), rows=tuple(rows))


def test_an_outdated_or_malformed_result_is_computed_again(tmp_path: Path) -> None:
    (tmp_path / "flce.py").write_text("one")
    store, cache, options = (
        ResultStore(str(tmp_path / "results")),
        Cache(tmp_path / "cache"),
        SweepOptions(grid=tmp_path, store=""),
    )
    task = replace(make_task(), source=grid_module.Source(file=str(tmp_path / "flce.py"), root=str(tmp_path)))
    digest = compute_file_sha256(tmp_path / "flce.py")

    def find_missing(report: dict[str, Any], digest: str = digest, **changes: bool) -> list[tuple[SweepTask, bool]]:
        described = describe_task(task)
        store.keep(StoredResult(key="k", task=described, dependencies={"flce.py": digest}, report=report))
        return campaign._find_missing({"k": task}, store, cache, replace(options, **changes))

    assert campaign._find_missing({"k": task}, store, cache, options) == [(task, False)]
    assert find_missing(make_json()) == []
    assert find_missing(make_json(), digest="0") == [(task, True)]
    assert find_missing({"cases": [{}]}) == [(task, True)]
    assert find_missing(make_json(), refresh=True) == [(task, True)]
    assert find_missing(make_json(status=Status.ERROR)) == []
    assert find_missing(make_json(status=Status.ERROR), retry=True) == [(task, True)]


def test_another_task_s_result_under_the_key_is_not_used(tmp_path: Path) -> None:
    store = ResultStore(str(tmp_path / "results"))
    task, cache = make_task(), Cache(tmp_path / "cache")
    options = SweepOptions(grid=tmp_path, store="")
    others = [
        replace(task, case_id="flce[trivial]"),
        replace(task, target="a100"),
        replace(task, toolchain="jax-0.4.34"),
        replace(task, environment={"XLA_FLAGS": "--xla_gpu_autotune_level=0"}),
        replace(task, source=grid_module.Source(file="/a/other.py", root="/a")),
        replace(task, fingerprint="0"),
        replace(task, replay=False),
    ]
    for other in others:
        store.keep(StoredResult(key="k", task=describe_task(other), dependencies={}, report=make_json()))
        assert campaign._find_missing({"k": task}, store, cache, options) == [(task, True)], other
    reports = [make_json(case_id="flce[trivial]"), make_json(target="a100"), {"cases": []}]
    for report in reports:
        store.keep(StoredResult(key="k", task=describe_task(task), dependencies={}, report=report))
        assert campaign._find_missing({"k": task}, store, cache, options) == [(task, True)]
    moved = replace(task, source=grid_module.Source(file="/b/flce.py", root="/b"), folder="/b")
    store.keep(StoredResult(key="k", task=describe_task(moved), dependencies={}, report=make_json()))
    assert campaign._find_missing({"k": task}, store, cache, options) == []


def test_an_entry_of_a_store_that_is_not_a_file_is_ignored_without_waiting(tmp_path: Path) -> None:
    code = """
import os, sys
from ligerdiag.sweep.result_store import ResultStore, StoredResult
store = ResultStore(sys.argv[1])
os.mkfifo(sys.argv[1] + "/a.json")
os.mkdir(sys.argv[1] + "/b.json")
os.symlink("a.json", sys.argv[1] + "/c.json")
os.symlink("/dev/zero", sys.argv[1] + "/d.json")
print([store.find(key) for key in "abcd"])
one = StoredResult(key="a", task={}, dependencies={}, report={})
store.keep(one)
print(store.find("a") == one)
"""
    command = [sys.executable, "-c", code, str(tmp_path / "results")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout.splitlines() == ["[None, None, None, None]", "True"], done.stderr


def test_the_tables_have_the_same_rows(tmp_path: Path) -> None:
    rows = make_sweep(Verdict.STALE, None).rows
    path = tmp_path / "a.parquet"
    path.write_bytes(render_parquet(rows))
    assert read_parquet(path) == rows
    records = list(csv.DictReader(render_csv(rows).splitlines()))
    assert [(one["case"], one["flags"], one["verdict"], one["outputs"], one["rules"]) for one in records] == [
        ("flce[hidden]", "f0", "stale", "loss stale", "LD002"),
        ("flce[hidden]", "f1", "", "", "LD002"),
    ]
    path.write_bytes(b"PAR1")
    with pytest.raises(InputError, match="the table of a sweep"):
        read_parquet(path)


def test_a_joined_report_has_the_format_of_check() -> None:
    joined = join_reports([make_json(), make_json(status=Status.UNEXPECTED)])
    assert list(jsonschema.Draft202012Validator(load_schema()).iter_errors(joined)) == []
    assert [case["status"] for case in joined["cases"]] == ["as expected", "unexpected"]  # type: ignore[index, attr-defined]


def test_a_changed_verdict_is_marked_and_an_unknown_one_is_not_a_change() -> None:
    report = make_sweep(Verdict.LATENT, None, Verdict.LATENT, Verdict.STALE, None)
    page = render_page(report)
    marks = [part.partition("</td>")[0].count("≠ changed") for part in page.split("<td")[1:]]
    assert marks == [0, 0, 0, 1, 0]
    assert 'data-status="changed"' in page
    assert 'data-status="not known"' in render_page(make_sweep(Verdict.LATENT, None))
    hostile = replace(report, rows=tuple(replace(row, case="<script>alert(1)</script>") for row in report.rows))
    assert "<script>alert" not in render_page(hostile)


def test_two_sweeps_are_compared_only_where_both_have_a_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = make_sweep(Verdict.FRESH, Verdict.FRESH, None).rows
    second = make_sweep(Verdict.FRESH, Verdict.STALE, Verdict.STALE, Verdict.FRESH).rows
    difference = compare_sweeps(first, second)
    assert [(one.column.flags, one.outputs) for one in difference.changes] == [("f1", (("loss", "fresh", "stale"),))]
    assert (difference.compared, difference.unknown, difference.second_only) == (2, 1, 1)
    for name, rows in (("a", first), ("b", second)):
        (tmp_path / f"{name}.parquet").write_bytes(render_parquet(rows))
    (tmp_path / "july").mkdir()
    (tmp_path / "july" / "sweep.parquet").write_bytes(render_parquet(second))
    tables = find_tables([str(tmp_path / "a.parquet"), str(tmp_path / "july")])
    assert tables == (tmp_path / "a.parquet", tmp_path / "july" / "sweep.parquet")
    assert find_tables([str(tmp_path / "july"), str(tmp_path)]) == ()
    assert diff_sweeps(*tables) is ExitCode.NOT_ANALYSED
    assert diff_sweeps(tmp_path / "a.parquet", tmp_path / "a.parquet") is ExitCode.NOT_ANALYSED
    assert "flce[hidden]  default h100 f1  loss fresh -> stale" in capsys.readouterr().out


def test_a_cell_with_the_same_verdicts_and_another_status_or_rule_is_a_change() -> None:
    first = make_sweep(Verdict.FRESH, Verdict.FRESH).rows
    second = (replace(first[0], status=Status.DISAGREEMENT), replace(first[1], rules=("LD002", "LD027")))
    lines = render_sweep_difference(compare_sweeps(first, second)).splitlines()
    assert lines == [
        "flce[hidden]  default h100 f0  status findings -> disagreement",
        "flce[hidden]  default h100 f1  rules LD002 -> LD002, LD027",
        "2 changes in 2 cells",
    ]
    assert compare_sweeps(first, first).changes == ()


def test_a_sweep_with_a_task_without_a_result_exits_as_not_analysed(tmp_path: Path) -> None:
    report = make_sweep(Verdict.STALE)
    assert compute_exit_code(report) is ExitCode.FINDINGS
    lost = replace(report.rows[0], exit_code=None, status=Status.ERROR)
    report.rows, report.failed = (*report.rows, lost), {"k": LigerdiagError("it ended its worker 3 times")}
    assert compute_exit_code(report) is ExitCode.NOT_ANALYSED
    assert "no result, 1 task: it ended its worker 3 times" in render_sweep(report, tmp_path)
    assert compute_exit_code(SweepReport()) is ExitCode.NOTHING_CHECKED
    assert describe_rate(10, 100, 5.0) == "2 a second, 45 s left"


def test_a_summary_says_why_cells_could_not_be_analysed(tmp_path: Path) -> None:
    report = make_sweep(Verdict.STALE, Verdict.FRESH, Verdict.FRESH)
    wrong, first, second = report.rows
    report.rows = (
        wrong,
        replace(
            first, status=Status.ERROR, exit_code=3, error="the worker for case `flce[hidden]` ended with exit code 1"
        ),
        replace(
            second, status=Status.ERROR, exit_code=3, error="the worker for case `flce[hidden]` ended with exit code 1"
        ),
    )
    said = [line for line in render_sweep(report, tmp_path).splitlines() if line.startswith("could not")]
    assert said == [
        "could not analyse `flce[hidden]` in default h100 f1 and 1 cell more: the worker for case … ended with exit code 1"
    ]


def test_a_cell_that_xla_ended_says_why() -> None:
    report = make_json(outputs={}, status=Status.ERROR)
    report["cases"][0] |= {
        "error": "the worker ended",
        "log_tail": "noise\nF1128 00:55:12.3   17 a_b.cc:234] no such flag",
    }
    assert make_row(report, make_task(), column("f0")).error == "the worker ended: no such flag"
    report["cases"][0]["log_tail"] = "E1128 00:55:12.3   17 a_b.cc:234] noise"
    assert make_row(report, make_task(), column("f0")).error == "the worker ended"


def test_a_worker_with_another_ligerdiag_or_other_files_refuses_the_task(tmp_path: Path) -> None:
    store = str(tmp_path / "results")
    with pytest.raises(UnfitWorker, match=r"^ligerdiag or a package of toolchain"):
        run_task(replace(make_task(), fingerprint="0"), (store, False))
    with pytest.raises(UnfitWorker, match=r"^files on a worker differ"):
        run_task(make_task(), (store, False))
    assert ResultStore(store).list_keys() == frozenset()


def test_a_missing_extra_is_one_line_with_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "find_spec", lambda name: None if name == "distributed" else object())
    with pytest.raises(InputError, match=r"needs distributed: pip install 'ligerdiag\[sweep\]'"):
        cluster.require_extra()


def test_the_gpu_of_one_machine_is_no_target_of_a_sweep(folder: Path, shared_cache: Path) -> None:
    with pytest.raises(
        InputError, match=r"expected targets by name, .* but got `auto`: write its description to a file"
    ):
        plan(folder, shared_cache, 'targets = ["a100", "auto"]\n')
