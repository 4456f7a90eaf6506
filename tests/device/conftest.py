"""Artifacts for a described GPU, the results of their schedules, and the real comparison worker: each made once."""

import multiprocessing
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ligerdiag.artifacts.cache import Cache
from ligerdiag.compile.compile_service import compile_cases, discover_cases
from ligerdiag.device.device_jobs import ComparisonAnswer, ComparisonRequest, make_comparison_job, write_results
from ligerdiag.device.device_service import COMPARISON_WORKER
from ligerdiag.model.findings import Replay
from ligerdiag.model.jobs import CaseSpec
from ligerdiag.replay.replay_service import compute_environment
from ligerdiag.toolchains.gpu_targets import load_target
from ligerdiag.workers.pool import Pool
from tests.device.replayed import Arrays, Draw, replay_draws

ROOT = Path(__file__).parents[2]
SELECTORS = ("tests/device/programs/readers.py", "constant[hidden]")
DRAWS = 3
SECONDS = 600.0


@dataclass
class Bench:
    """Compares results that tests attribute to a device, through `python -m ligerdiag.device.comparison_worker`."""

    cases: Mapping[str, CaseSpec]
    artifacts: Mapping[str, Path]
    pool: Pool
    replays: ProcessPoolExecutor
    scratch: Path
    _replayed: dict[str, tuple[Replay, list[Draw]]] = field(default_factory=dict)

    def replay(self, case_id: str) -> tuple[Replay, list[Draw]]:
        """Returns the case's replay, and its runs on each draw."""
        if case_id not in self._replayed:
            arguments = self.cases[case_id].source, case_id, str(self.artifacts[case_id]), DRAWS
            self._replayed[case_id] = self.replays.submit(replay_draws, *arguments).result(SECONDS)
        return self._replayed[case_id]

    def compare(self, case_id: str, device: Sequence[Arrays], /, **changes: Any) -> ComparisonAnswer:
        """Returns the worker's answer for these results of each draw; `changes` go to the request."""
        results = self.scratch / str(len(list(self.scratch.iterdir())))
        results.mkdir()
        for draw, arrays in enumerate(device):
            write_results(results, draw, arrays)
        fields: dict[str, Any] = {
            "source": self.cases[case_id].source,
            "case_id": case_id,
            "artifact": str(self.artifacts[case_id]),
            "results": str(results),
            "draws": len(device),
        }
        return self.pool.submit(make_comparison_job(ComparisonRequest(**fields | changes), SECONDS)).result()


@pytest.fixture(scope="session")
def bench(shared_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A bench with everything compiled and nothing compared yet."""
    cache = Cache(shared_cache)
    with Pool(cache=cache, jobs=1) as pool:
        cases = {case.id: case for case in discover_cases(SELECTORS, pool=pool, directory=ROOT)}
        results = list(compile_cases(list(cases.values()), [load_target("h100")], pool=pool))
    artifacts = {result.case.id: result.artifact.directory for result in results if result.artifact is not None}
    assert artifacts.keys() == cases.keys()
    environment = compute_environment(1)
    # a builtin: to unpickle a function of ours, the process would import triton first
    before = f"import os; os.environ.update({environment!r})"
    spawn = multiprocessing.get_context("spawn")
    with (
        Pool(cache=cache, jobs=1, module=COMPARISON_WORKER, environment=environment) as pool,
        ProcessPoolExecutor(1, mp_context=spawn, initializer=exec, initargs=(before,)) as replays,
    ):
        scratch = tmp_path_factory.mktemp("results")
        yield Bench(cases=cases, artifacts=artifacts, pool=pool, replays=replays, scratch=scratch)
