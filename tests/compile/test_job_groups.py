"""The jobs of a group run one after another, in one worker, while other groups run beside them."""

from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from ligerdiag.artifacts.cache import Cache
from ligerdiag.errors import LigerdiagError
from ligerdiag.model.jobs import DiscoverAnswer, DiscoverRequest, Job, Source, make_discover_job
from ligerdiag.workers.pool import Pool

CASES = """
import os
from pathlib import Path

with (Path(__file__).parent / "imports").open("a") as file:
    file.write(f"{Path(__file__).stem} {os.getpid()}\\n")
CASES = []
"""


@pytest.fixture
def jobs(tmp_path: Path) -> list[Job[DiscoverAnswer]]:
    """Three jobs of one source, and one of another."""
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text(CASES)
    names = ("one", "one", "one", "two")
    sources = [Source(file=str(tmp_path / f"{name}.py"), root=str(tmp_path)) for name in names]
    return [make_discover_job(DiscoverRequest(source=source)) for source in sources]


def test_a_group_has_one_worker_and_each_job_its_own_answer(jobs: list[Job[DiscoverAnswer]], tmp_path: Path) -> None:
    began: list[int] = []
    ended: list[int] = []
    with Pool(cache=Cache(tmp_path / "cache"), jobs=2) as pool:
        for number, future in pool.run_all(jobs, [[0, 1, 2], [3]]):
            if future is None:
                began.append(number)
            else:
                ended.append(number)
                assert future.exception() is None or isinstance(future.exception(), LigerdiagError)
    assert sorted(began) == sorted(ended) == [0, 1, 2, 3]
    assert [number for number in ended if number != 3] == [0, 1, 2]
    workers = set((tmp_path / "imports").read_text().splitlines())
    assert len([line for line in workers if line.startswith("one ")]) == 1


def test_jobs_that_a_closed_pool_never_begins_end_as_well(jobs: list[Job[DiscoverAnswer]], tmp_path: Path) -> None:
    ended = 0
    with Pool(cache=Cache(tmp_path / "cache"), jobs=1) as pool:
        for _, future in pool.run_all(jobs, [[0, 1], [2], [3]]):
            if future is None:
                pool.close()
                continue
            ended += 1
            with pytest.raises((LigerdiagError, CancelledError)):
                future.result()
    assert ended == 4
