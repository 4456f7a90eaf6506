"""A campaign on the workers of a Dask scheduler gives the rows of a campaign on one machine."""

from dataclasses import replace
from pathlib import Path

import pytest

from ligerdiag.errors import InputError
from ligerdiag.sweep.task import UnfitWorker
from tools.fuzz.campaign import run_campaign
from tools.fuzz.dask_campaign import judge_task, plan_tasks
from tools.fuzz.judged_programs import FuzzOptions
from tools.fuzz.processes import Workload

WORKLOAD = Workload(directory="out", seeds=tuple(range(30)), target="h100", timeout=60.0)


def test_every_seed_is_in_one_task_and_tasks_have_distinct_keys() -> None:
    tasks = plan_tasks(WORKLOAD)
    assert [seed for task in tasks for seed in task.workload.seeds] == list(WORKLOAD.seeds)
    assert len({task.key for task in (*tasks, *plan_tasks(replace(WORKLOAD, target="a100")))}) == 2 * len(tasks)
    assert plan_tasks(WORKLOAD) == tasks


def test_a_worker_with_another_ligerdiag_refuses_to_draw_other_programs() -> None:
    task = replace(plan_tasks(WORKLOAD)[0], fingerprint="another")
    with pytest.raises(UnfitWorker, match="use one checkout"):
        judge_task(task, None)


def test_a_missing_scheduler_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ligerdiag.sweep.cluster._CONNECT_SECONDS", 1)
    options = FuzzOptions(directory=tmp_path, count=2, scheduler="tcp://127.0.0.1:1")
    with pytest.raises(InputError, match="cannot reach a Dask scheduler at"):
        run_campaign(options, lambda _: None)


@pytest.mark.nightly
def test_the_workers_of_a_scheduler_give_the_rows_of_this_machine(tmp_path: Path) -> None:
    import distributed

    here = run_campaign(FuzzOptions(directory=tmp_path / "here", count=14, jobs=1), lambda _: None)
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        options = FuzzOptions(directory=tmp_path / "there", count=14, scheduler=cluster.scheduler_address)
        there = run_campaign(options, lambda _: None)
        again = run_campaign(options, lambda _: None)
    assert there.faults == ()
    assert there.rows == here.rows
    assert there.judged == len(there.rows) == 14
    assert there.seconds > 1.0
    assert again.judged == 0
    assert again.rows == there.rows
