"""`check --scheduler`: the workers' report equals this machine's, even if a worker is lost."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ligerdiag import api
from ligerdiag.codec import decode_record, encode_record
from ligerdiag.errors import InputError
from ligerdiag.model.report import CheckReport, Status
from ligerdiag.sweep.cluster import find_resources, run_tasks
from ligerdiag.sweep.cluster_check import check_on_cluster
from ligerdiag.sweep.grid import SweepTask
from tests.report.html.view_samples import make_view
from tests.report.samples import make_case, make_device, make_finding, make_replay, make_report
from tests.sweep.test_grid import make_task

ROOT = Path(__file__).parents[2]
BROKEN = "from ligerdiag import Case\nCASES = (Case(name='x'),)\n"


def test_a_report_survives_a_round_trip() -> None:
    case = make_case(view=make_view(), findings=(make_finding(),), replay=make_replay(), device=make_device())
    report = make_report(case, make_case("error", Status.ERROR, outputs={}, error="XLA aborted", log_tail="one\ntwo"))
    assert decode_record(CheckReport, json.loads(json.dumps(encode_record(report)))) == report


def test_a_file_of_choices_cannot_be_combined_with_a_scheduler() -> None:
    options = api.CheckOptions(autotune_results=Path("h100.pbtxt"))
    with pytest.raises(InputError, match="`--autotune-results` cannot be combined with `--scheduler`"):
        check_on_cluster(options, "tcp://127.0.0.1:1", lambda step: None)


def test_device_cannot_be_combined_with_a_scheduler() -> None:
    with pytest.raises(InputError, match="`--device` cannot be combined with `--scheduler`"):
        check_on_cluster(api.CheckOptions(device=True), "tcp://127.0.0.1:1", lambda step: None)


@pytest.mark.nightly
def test_tasks_of_a_toolchain_go_to_the_worker_that_has_it() -> None:
    import distributed

    def start(*resources: dict[str, float]) -> Any:
        options = [{"nthreads": 1, "resources": one} for one in resources]
        workers = {number: {"cls": distributed.Worker, "options": one} for number, one in enumerate(options)}
        scheduler = {"cls": distributed.Scheduler, "options": {"dashboard": False}}
        return distributed.SpecCluster(scheduler=scheduler, workers=workers)

    with start({}, {}) as plain, distributed.Client(plain, set_as_default=False) as client:
        assert find_resources(client) == frozenset()
    with start({}, {"ligerdiag-seed": 1}) as there, distributed.Client(there, set_as_default=False) as client:
        assert find_resources(client) == {"ligerdiag-seed"}
        names = [(name, number) for name in ("seed", "default") for number in range(4)]
        tasks = [(replace(make_task(), toolchain=name, key=f"{name}{number}"), number) for name, number in names]
        told = {task.key: where for task, where in run_tasks(client, find_worker, tasks)}
        has_it = there.workers[1].address
    assert {told[f"seed{n}"] for n in range(4)} == {has_it}


def find_worker(task: SweepTask, number: int) -> str:
    import distributed

    return distributed.get_worker().address


@pytest.mark.nightly
def test_the_workers_give_the_same_report_as_this_machine(
    tmp_path: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import distributed

    monkeypatch.setenv("LIGERDIAG_CACHE_DIR", str(shared_cache))
    monkeypatch.chdir(ROOT)
    (tmp_path / "broken.py").write_text(BROKEN)
    selectors = ("cases/constant.py", "cases/saved_residual.py::saved_residual[exp-*-hidden]", f"{tmp_path}/broken.py")
    options = api.CheckOptions(
        selectors=selectors,
        targets=("a100", "h100"),
        cache_directory=shared_cache,
        record=True,
        view=True,
        source_roots=(ROOT,),
    )
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, protocol="tcp://", dashboard_address=None, memory_limit=0
    ) as there:
        remote = check_on_cluster(options, there.scheduler_address, lambda step: None)
    here = api.check(options)

    def settle(report: CheckReport) -> dict[tuple[str, str], object]:
        return {(one.id, one.target): replace(one, seconds=0.0, cached=False) for one in report.cases}

    assert settle(remote) == settle(here)
    assert len(remote.cases) == 10
    assert (remote.versions, remote.targets, remote.toolchain) == (here.versions, here.targets, here.toolchain)
    assert not remote.interrupted
