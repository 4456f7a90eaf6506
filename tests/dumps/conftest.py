"""Dumps of real compilations, made once in one process: a folder for each program and each way to dump."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.artifacts.cache import Cache
from ligerdiag.dumps.find import ModuleFiles, find_modules
from ligerdiag.model.report import CheckReport
from ligerdiag.toolchains.toolchain import current_toolchain, worker_environment
from tools.running import Outcome
from tools.warm_commands import run_warm_command

ROOT = Path(__file__).parents[2]
BOTH = {"xla_dump_hlo_as_proto": True, "xla_dump_hlo_as_text": True}
PASSES = BOTH | {"xla_dump_hlo_pass_re": ".*", "xla_dump_compress_protos": True, "xla_dump_include_timestamp": True}
CASES = {
    "losses": ("cases/two_losses.py", "two_losses[same-hidden]"),
    "loop": ("cases/loop_carry.py", "loop_carry[gradient-hidden]"),
    "flce": ("cases/seed_flce.py", "seed_flce[False-float32-True-1-4-32-16]"),
    "fresh": ("cases/flce_modes.py", "flce_modes[out_of_place-float32-True-1-4-32-16]"),
    "ordinary": ("tests/dumps/programs/ordinary.py", "ordinary"),
}
AS_A_USER = "losses"
"""The program that is compiled with autotuning and machine code, as users compile theirs."""

type Inspect = Callable[..., CheckReport]
type Pick = Callable[..., Path]


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def dumps(tmp_path_factory: pytest.TempPathFactory, cache: Path, worker_id: str) -> Path:
    """Returns a folder with `<program>` and `<program>-untagged` for each of CASES, and `passes` with everything that
    XLA can dump. The processes of a run share them: the first one makes them.
    """
    base = tmp_path_factory.getbasetemp()
    root = (base if worker_id == "master" else base.parent) / "dumps"
    with root.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not root.exists():
            made = tmp_path_factory.mktemp("dumps")
            make_dumps(made, cache)
            made.rename(root)
    return root


def make_dumps(root: Path, cache: Path) -> None:
    jobs = [
        {
            "file": str(ROOT / file),
            "id": case,
            "into": str(root / name),
            "tagged": tagged,
            "quick": program != AS_A_USER,
            "flags": flags,
        }
        for program, (file, case) in CASES.items()
        for name, tagged, flags in ((program, True, BOTH), (f"{program}-untagged", False, BOTH))
    ]
    jobs.append(jobs[0] | {"into": str(root / "passes"), "flags": PASSES})
    command = [sys.executable, "-m", "tests.dumps.make_dumps", json.dumps(jobs)]
    environment = worker_environment(current_toolchain(), Cache(cache).root)
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.fixture
def pick(dumps: Path, tmp_path: Path) -> Pick:
    """Copies the files of a dump with these endings into a separate folder."""

    def copy(dump: str, *endings: str, into: str = "picked") -> Path:
        folder = tmp_path / into
        folder.mkdir(parents=True, exist_ok=True)
        found = [path for path in sorted((dumps / dump).iterdir()) if path.name.endswith(endings)]
        assert found, endings
        for path in found:
            shutil.copy(path, folder / path.name)
        return folder

    return copy


@pytest.fixture(scope="session")
def inspect(cache: Path) -> Inspect:
    """Inspects the paths; keywords are those of InspectOptions. The default is without a replay."""

    def run(*paths: Path, **keywords: object) -> CheckReport:
        options = {"replay": False, **keywords}
        return api.inspect(api.InspectOptions(paths=paths, cache_directory=cache, **options))  # type: ignore[arg-type]

    return run


@pytest.fixture(scope="session")
def run_cli(cache: Path) -> Callable[..., Outcome]:
    """Runs `ligerdiag` with these arguments in a separate process."""

    def run(*words: str | Path, cwd: Path = ROOT) -> Outcome:
        environment = os.environ | {"LIGERDIAG_CACHE_DIR": str(cache)}
        return run_warm_command([str(word) for word in words], cwd=cwd, environment=environment)

    return run


def only(folder: Path) -> ModuleFiles:
    """Returns the only module of a folder."""
    (module,) = find_modules(folder).modules
    return module


def outputs(report: CheckReport) -> list[str]:
    """Returns the verdicts of the only module of a report."""
    (case,) = report.cases
    assert not case.error, case.error
    return [verdict.value for verdict in case.outputs.values()]
