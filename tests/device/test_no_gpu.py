"""`--device` without a GPU: reported in one line before anything is compiled, and by a worker that survives."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ligerdiag.artifacts.artifact import Artifact
from ligerdiag.artifacts.cache import Cache
from ligerdiag.compile.compile_service import discover_cases
from ligerdiag.device.device_jobs import DeviceRequest, make_device_job
from ligerdiag.device.device_service import DEVICE_ENVIRONMENT, DEVICE_WORKER, DeviceOptions, require_gpu, run_cases
from ligerdiag.errors import CaseError, InputError
from ligerdiag.model.jobs import CaseSpec, CompileRequest, Source
from ligerdiag.toolchains.toolchain import current_toolchain
from ligerdiag.workers.pool import Pool

pytestmark = pytest.mark.skipif(Path("/dev/nvidia0").exists(), reason="there is an NVIDIA GPU on this machine")

PROGRAM = """\
import os
from pathlib import Path

from ligerdiag import Arg, Case

with Path(__file__).with_name("processes").open("a") as file:
    print(os.getpid(), file=file)

CASES = [Case(name=name, function=lambda x: x + 1, args=(Arg(shape=(4,)),)) for name in ("one", "two")]
CASES.append(Case(name="meshed", function=lambda x: x + 1, args=(Arg(shape=(4,)),), mesh={"x": 2}))
"""
BROKEN = "CASES = 1 / 0\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "mine.py").write_text(PROGRAM)
    (folder / "broken.py").write_text(BROKEN)
    return folder


def make_request(project: Path, case_id: str, file: str = "mine.py") -> DeviceRequest:
    """Returns the request that `check --device` sends to a worker."""
    cache = project.parent / "cache"
    return DeviceRequest(
        compile=CompileRequest(
            source=Source(file=str(project / file), root=str(project)),
            case_id=case_id,
            target="device",
            description="",
            compute_capability=0,
            toolchain="default",
            versions={},
            environment={},
            flags={},
            fingerprint="",
            artifacts=str(cache / "artifacts"),
            scratch=str(cache / "scratch"),
            not_before=0.0,
        ),
        results=str(project.parent),
        draws=1,
        runs=1,
    )


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    cache = Cache(tmp_path_factory.mktemp("cache"))
    with Pool(cache=cache, jobs=1, module=DEVICE_WORKER, environment=DEVICE_ENVIRONMENT) as opened:
        yield opened


def test_the_command_line_reports_it_before_compiling_or_importing_anything(project: Path) -> None:
    cache = project / "cache"
    done = subprocess.run(
        [sys.executable, "-m", "ligerdiag", "check", "mine.py", "--device"],
        cwd=project,
        env=os.environ | {"LIGERDIAG_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "`--device` needs an NVIDIA GPU, and this machine has none" in done.stderr
    assert not (project / "processes").exists()
    assert list(cache.rglob("*.pb")) == []


def test_a_missing_gpu_is_an_input_error() -> None:
    with pytest.raises(InputError, match="`--device` needs an NVIDIA GPU"):
        require_gpu()


def test_a_worker_reports_the_missing_gpu_and_answers_the_next_job(project: Path, pool: Pool) -> None:
    for case_id in ("one", "two", "meshed"):
        with pytest.raises(InputError, match="`--device` needs a GPU that JAX can use, and JAX finds none") as caught:
            pool.submit(make_device_job(make_request(project, case_id), 120.0)).result()
        assert "\n" not in str(caught.value)
    assert len((project / "processes").read_text().splitlines()) == 1, "one process for all of them"


def test_an_error_in_the_case_is_reported_as_by_every_worker(project: Path, pool: Pool) -> None:
    with pytest.raises(InputError, match="has no case `gone` any more"):
        pool.submit(make_device_job(make_request(project, "gone"), 120.0)).result()
    with pytest.raises(CaseError, match=r"does not import: .*ZeroDivisionError"):
        pool.submit(make_device_job(make_request(project, "one", "broken.py"), 120.0)).result()


def test_a_run_of_cases_reports_each_case_and_raises_nothing(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`require_gpu` looks for the driver; JAX may find no GPU all the same."""

    def never(artifact: Artifact) -> Any:
        raise AssertionError(artifact)

    def draw_once(case: CaseSpec) -> int:
        del case
        return 1

    told: list[tuple[str, str, int, int]] = []
    cache = Cache(tmp_path / "cache")
    with Pool(cache=cache, jobs=1) as pool:
        cases = discover_cases(["mine.py::one", "mine.py::two"], pool=pool, directory=project)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    runs = list(
        run_cases(
            cases,
            DeviceOptions(timeout=600.0, refuse=never, draws=draw_once),
            cache=cache,
            toolchain=current_toolchain(),
            judge=never,
            on_case=lambda event, case, done, total: told.append((event, case.id, done, total)),
        )
    )
    assert [case.id for case, _ in runs] == ["one", "two"]
    for _, run in runs:
        assert run.error.startswith("`--device` needs a GPU that JAX can use, and JAX finds none")
        assert (run.died, run.count, run.outputs, run.verdicts) == (False, 0, {}, {})
    assert told == [
        ("started", "one", 0, 2),
        ("finished", "one", 1, 2),
        ("started", "two", 1, 2),
        ("finished", "two", 2, 2),
    ]
    assert list(scratch.iterdir()) == [], "nothing that was computed is left"
