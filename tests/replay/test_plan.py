"""Whether an artifact is replayed: by its estimate, the bounds and the available memory."""

import pytest

from ligerdiag.model.findings import ReplayState
from ligerdiag.model.jobs import CaseSpec, Source
from ligerdiag.replay.replay_service import group_jobs
from ligerdiag.replay.replay_worker import WORKER_BYTES, Bounds, count_workers, refuse

GIB = 1 << 30
PLENTY = 64 * GIB


@pytest.mark.parametrize(
    ("seconds", "size", "bounds"),
    [
        (10.0, 4 * GIB, Bounds()),
        (0.0, 0, Bounds()),
        (60.0, GIB, Bounds(seconds=60.0)),
        (1.0, 6 * GIB, Bounds(memory=6 * GIB)),
        (86400.0, 16 * GIB, Bounds(full=True)),
        (1.0, 20 * GIB, Bounds(full=True, memory=20 * GIB)),
    ],
)
def test_a_replay_within_the_bounds_runs(seconds: float, size: int, bounds: Bounds) -> None:
    assert refuse(seconds, size, bounds, PLENTY) is None


@pytest.mark.parametrize(
    ("seconds", "size", "bounds", "reason"),
    [
        (42.0, GIB, Bounds(), "estimated 42 s and 1.0 GiB, more than 10 s or 4.0 GiB: `--full` replays it"),
        (1.0, 6 * GIB, Bounds(), "estimated 1 s and 6.0 GiB, more than 10 s or 4.0 GiB: `--full` replays it"),
        (1.0, 17 * GIB, Bounds(full=True), "estimated 17.0 GiB, more than 16.0 GiB: `--replay-memory` allows more"),
        (1.0, PLENTY, Bounds(full=True), "estimated 64.0 GiB, more than the 64.0 GiB that this machine has left"),
        (1.0, PLENTY, Bounds(), "estimated 64.0 GiB, more than the 64.0 GiB that this machine has left"),
    ],
)
def test_a_refusal_states_the_estimate_and_the_option_that_lifts_the_bound(
    seconds: float, size: int, bounds: Bounds, reason: str
) -> None:
    refused = refuse(seconds, size, bounds, PLENTY)
    assert refused is not None
    assert (refused.state, refused.reason) == (ReplayState.TOO_LARGE, reason)
    assert (refused.estimated_seconds, refused.estimated_bytes) == (seconds, size)


@pytest.mark.parametrize(
    ("sizes", "cores", "available", "workers"),
    [
        ([GIB] * 8, 4, PLENTY, 4),
        ([GIB] * 2, 4, PLENTY, 2),
        ([GIB] * 8, 4, 3 * (GIB + WORKER_BYTES), 3),
        ([GIB, 10 * GIB], 4, 11 * GIB + WORKER_BYTES, 1),
        ([10 * GIB], 4, GIB, 1),
    ],
)
def test_no_more_replays_run_side_by_side_than_memory_allows(
    sizes: list[int], cores: int, available: int, workers: int
) -> None:
    assert count_workers(sizes, cores, available) == workers


def _make_case(file: str, draws: str) -> CaseSpec:
    return CaseSpec(
        id=f"{file}[{draws}]",
        name=file,
        params=(),
        source=Source(file=file, root="/"),
        mesh={},
        expected=None,
        about="",
        draws=draws,
    )


def test_the_replays_of_a_source_share_a_worker_and_the_longest_group_begins() -> None:
    jobs = [(_make_case(file, "one"), seconds) for file, seconds in (("a", 1.0), ("b", 3.0), ("a", 1.0), ("c", 2.5))]
    assert group_jobs(jobs, 2) == [[1], [3], [0, 2]]


def test_a_source_that_takes_longer_than_a_worker_s_share_is_divided_by_its_draws() -> None:
    jobs = [(_make_case("a", draws), 2.0) for draws in ("one", "one", "two", "two", "two")]
    jobs.append((_make_case("b", "one"), 1.0))
    assert group_jobs(jobs, 2) == [[2, 3, 4], [0, 1], [5]]
    assert group_jobs(jobs, 1) == [[0, 1, 2, 3, 4], [5]]
    assert group_jobs([], 2) == []
