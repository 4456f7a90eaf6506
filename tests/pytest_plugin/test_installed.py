"""A user's repository with ligerdiag installed from the wheel, and nothing from this checkout."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.running import Outcome, run_process

ROOT = Path(__file__).parents[2]
SAMPLE = Path(__file__).parent / "sample_project"
UV = os.environ.get("UV", "uv")
"""`uv run` sets it to its own path."""

type Run = Callable[..., Outcome]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([UV, "build", "--wheel", "-q", "-o", folder], cwd=ROOT, check=True, timeout=600)
    (found,) = folder.glob("ligerdiag-*.whl")
    return found


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that has ligerdiag from the wheel, and everything else from the environment of these tests."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=600)
    python = folder / "bin" / "python"
    subprocess.run(
        [UV, "pip", "install", "-q", "--python", python, "--no-deps", "--offline", wheel], check=True, timeout=600
    )
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


@pytest.fixture(scope="module")
def run(environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs the environment's Python with these arguments; all runs share one cache."""
    cache = tmp_path_factory.mktemp("cache")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "PYTHON", "COV"))}
    variables |= {"LIGERDIAG_CACHE_DIR": str(cache), "COLUMNS": "120"}

    def run_python(*words: str, cwd: Path) -> Outcome:
        command = [str(environment / "bin" / "python"), *words]
        return run_process(command, cwd=cwd, environment=variables, timeout=1200)

    return run_python


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("user") / "project"
    shutil.copytree(SAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__", ".pytest_cache"))
    return folder


@pytest.fixture(scope="module")
def first_run(run: Run, project: Path) -> Outcome:
    return run("-m", "pytest", "-p", "no:cacheprovider", "-v", cwd=project)


def test_ligerdiag_comes_from_the_wheel(run: Run, environment: Path, project: Path) -> None:
    said = run("-c", "import ligerdiag; print(ligerdiag.__file__)", cwd=project)
    assert said.out.startswith(str(environment)), said


def test_the_wheel_has_the_files_that_the_commands_read(run: Run, project: Path, tmp_path: Path) -> None:
    assert run("-m", "ligerdiag", "--version", cwd=project).out.startswith("ligerdiag 0.")
    assert "h100" in run("-m", "ligerdiag", "targets", cwd=project).out
    assert "seed" in run("-m", "ligerdiag", "toolchains", cwd=project).out
    assert "LD001" in run("-m", "ligerdiag", "explain", "LD001", cwd=project).out
    assert run("-m", "ligerdiag", "init", cwd=tmp_path).code == 0
    assert (tmp_path / "cases" / "starter.py").is_file()


def test_hidden_fails_with_table_and_finding_and_aliased_passes(first_run: Outcome) -> None:
    out = first_run.out
    assert first_run.code == 1, first_run
    assert "tests/test_training.py::test_the_loss[hidden] FAILED" in out
    assert "tests/test_training.py::test_the_loss[aliased] PASSED" in out
    assert "1 failed, 4 passed" in out
    line = r"WrongScheduleError: LD\d+: output `loss` is stale \(kernel `clip_kernel`, operand 0\); `loss` on h100: findings"
    assert re.search(rf"E +{line}\n", out)
    assert re.search(r"FAILED .*\[hidden\] - WrongScheduleError: LD\d+: out", out)
    assert "loss  FINDINGS  agrees  clipped fresh · loss STALE" in out
    assert "error[LD0" in out
    assert "LD006 undeclared-write: `clip_kernel`" in out
    assert "src/sample_model/" in out


def test_the_traceback_ends_in_the_user_s_line(first_run: Outcome) -> None:
    assert ">       schedule.check(partial(loss, mode=mode), make_params(32), make_batch(32))" in first_run.out
    assert "ligerdiag/pytest_plugin" not in first_run.out.replace("\\", "/").partition("= FAILURES =")[2]


def test_two_processes_give_the_same_report_from_the_same_cache(run: Run, project: Path, first_run: Outcome) -> None:
    again = run("-m", "pytest", "-p", "no:cacheprovider", "-n", "2", cwd=project)
    assert again.code == first_run.code == 1, again
    assert "1 failed, 4 passed" in again.out
    assert "`loss` on h100: findings" in again.out
